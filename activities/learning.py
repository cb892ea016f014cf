"""Who is who: every click teaches it, for free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from activities.feishu.verifier import SIGNED
from assent.contracts.answers import JudgedAnswer
from assent.contracts.decision import Judged
from assent.settings import Settings
from ledger import Ledger

_log = logging.getLogger(__name__)
_LEARN_WITHIN = 1.0


async def learn_people(ledger: Ledger, settings: Settings, judged: Iterable[Judged | JudgedAnswer]) -> None:
    """Remember which ids are one person's, as Feishu proved them: nothing waits for that, and nothing depends on it."""
    proved = (each.actor for each in judged if each.proof in SIGNED)
    try:
        async with asyncio.timeout(_LEARN_WITHIN):
            for person in {(each.tenant_key, each.keys): each for each in proved if len(each.keys) > 1}.values():
                await ledger.learn(person.within(settings.feishu_tenant_key or None))
    except Exception as error:
        _log.warning("who clicked could not be remembered: %s", type(error).__name__)
