"""What is done with one verified click, whichever door it came through: signal it, and say what became of it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from assent import Assent
from assent.contracts import Identity, Verdict, VerdictKind
from cards import Click, Wording, not_recorded, toast

_log = logging.getLogger(__name__)
_NAMING_SHARE = 0.2
"""How much of the time is kept for finding out the name of the person who was faster."""
_MARGIN = 0.3
"""How long after its own limit a submission is given up from outside; by then it should have ended by itself."""

Names = Callable[[Identity], Awaitable[str | None]]
"""Tells what a person is called, if that can be known."""


async def answer_click(
    gate: Assent, click: Click, wording: Wording, *, within: float = 2.0, names: Names | None = None
) -> dict[str, Any]:
    """Signal a click durably and answer with a toast, in time whatever happens.

    A click is never sent a second time by the platform: where it could not be recorded, the person is asked to click
    again. Doing so is harmless, even if the first click did arrive after all.
    """
    give_up = asyncio.get_running_loop().time() + within
    decision = click.decision(delivery_id=uuid.uuid4().hex, now=datetime.now(UTC))
    try:
        async with asyncio.timeout_at(give_up + _MARGIN):
            verdict = await gate.approval(decision.approval_id).submit(
                decision, answer_within=timedelta(seconds=within * (1 - _NAMING_SHARE))
            )
    except Exception as error:
        _log.error(
            "a click on approval %s (event %s) was not recorded; the person is asked to click again: %s: %s",
            decision.approval_id,
            decision.event_id,
            type(error).__name__,
            error,
        )
        return not_recorded(wording).answer()
    return toast(verdict, decision.kind, wording, name=await _decider(verdict, names, give_up)).answer()


async def _decider(verdict: Verdict, names: Names | None, give_up: float) -> str | None:
    """The name of the person who had decided already, if it is known soon enough."""
    if names is None or verdict.kind is not VerdictKind.ALREADY_DECIDED or verdict.decided_by is None:
        return None
    try:
        async with asyncio.timeout_at(give_up):
            return await names(verdict.decided_by)
    except Exception:
        return None
