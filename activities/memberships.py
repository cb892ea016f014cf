"""Who belongs to a chat: asked of Feishu, and kept in the ledger for inboxes."""

from __future__ import annotations

import logging

from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from ledger import Ledger

_log = logging.getLogger(__name__)


async def members_now(feishu: Feishu, chat_id: str) -> frozenset[str]:
    """Who belongs to a chat; one that is gone, or that this app was taken out of, has no members to us."""
    try:
        return await feishu.members(chat_id, fresh=True)
    except FeishuRefused:
        return frozenset()


async def learn_members(ledger: Ledger, feishu: Feishu, most: int = 20) -> None:
    """Ask who belongs to the chats whose members something waits for, where nobody has lately.

    While Feishu does not say, nobody is told what waits there: an inbox shows nothing that might be another's.
    """
    for chat_id in await ledger.unknown_chats(most):
        try:
            await ledger.keep_members(chat_id, await members_now(feishu, chat_id))
        except FeishuUnavailable as error:
            _log.info("who belongs to chat %s is not known for now: %s", chat_id, error)
