"""What is done with one verified click, whichever door it came through: hand it on, and say what became of it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from assent import Assent
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.ruling import Ruled, RuledKind
from assent.contracts.values import Surface
from assent.errors import ApprovalNotFound, NotFrozen, RulingRefused
from cards import (
    AnswerClick,
    BundleClick,
    Click,
    RevokeClick,
    RulingClick,
    Toast,
    UnfitRuling,
    Wording,
    answer_toast,
    bundle_toast,
    not_in_time,
    not_recorded,
    refused_ruling,
    revoked_toast,
    ruled_toast,
    toast,
)

_log = logging.getLogger(__name__)
_NAMING_SHARE = 0.2
"""How much of the time is kept for finding out the name of the person who was faster."""
_MARGIN = 0.3
"""How long after its own limit a submission is given up from outside; by then it should have ended by itself."""
_REFUSED = {
    "NotCertain": "not_certain",
    "WrongHash": "wrong_hash",
    "Tampered": "tampered",
    "TriedAgain": "tried_again",
}

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
    faster = verdict.decided_by if verdict.kind is VerdictKind.ALREADY_DECIDED else None
    name = await _name(faster, names, give_up)
    return toast(verdict, decision.kind, wording, name=name, stage=decision.stage).answer()


async def answer_question(
    gate: Assent, click: AnswerClick, wording: Wording, *, within: float = 2.0, names: Names | None = None
) -> dict[str, Any]:
    """Signal an answer durably and answer with a toast, in time whatever happens; as for a click on an approval."""
    give_up = asyncio.get_running_loop().time() + within
    answer = click.answer(delivery_id=uuid.uuid4().hex, now=datetime.now(UTC))
    try:
        async with asyncio.timeout_at(give_up + _MARGIN):
            verdict = await gate.question(answer.question_id).submit(
                answer, answer_within=timedelta(seconds=within * (1 - _NAMING_SHARE))
            )
    except Exception as error:
        _log.error(
            "an answer to question %s (event %s) was not recorded; the person is asked to click again: %s",
            answer.question_id,
            answer.event_id,
            type(error).__name__,
        )
        return not_recorded(wording).answer()
    faster = verdict.answered_by if verdict.kind is VerdictKind.ALREADY_DECIDED else None
    return answer_toast(verdict, wording, name=await _name(faster, names, give_up)).answer()


async def answer_bundle(gate: Assent, bundle: BundleClick, wording: Wording, *, within: float = 2.0) -> dict[str, Any]:
    """Hand each decision of a click on several calls to its own approval, and say how many of them count.

    One that could not be recorded is not lost among the others: the person is asked to click again.
    """
    decisions = [click.decision(delivery_id=uuid.uuid4().hex, now=datetime.now(UTC)) for click in bundle.clicks()]
    patience = timedelta(seconds=within)
    try:
        async with asyncio.timeout(within + _MARGIN):
            verdicts = await asyncio.gather(
                *(gate.approval(each.approval_id).submit(each, answer_within=patience) for each in decisions)
            )
    except Exception as error:
        _log.error(
            "a click on bundle %s (event %s) was not recorded as a whole; the person is asked to click again: %s: %s",
            bundle.bundle_id,
            bundle.event_id,
            type(error).__name__,
            error,
        )
        return not_recorded(wording).answer()
    return bundle_toast(verdicts, wording).answer()


async def answer_revoke(gate: Assent, click: RevokeClick, wording: Wording, *, within: float = 2.0) -> dict[str, Any]:
    """Revoke a remembered decision by a click and answer with a toast, in time whatever happens.

    Who has to wait too long is asked to look, and to click again if need be: a grant is revoked once.
    """
    try:
        async with asyncio.timeout(within):
            revoked = await gate.revoke(
                click.grant_id, actor=click.operator, surface=Surface.FEISHU, seen_on=click.approval_id
            )
    except Exception as error:
        _log.error(
            "grant %s was not revoked in time (event %s); the person is asked to click again: %s: %s",
            click.grant_id,
            click.event_id,
            type(error).__name__,
            error,
        )
        return not_in_time(wording).answer()
    return revoked_toast(revoked, wording).answer()


async def answer_ruling(
    gate: Assent, click: RulingClick, wording: Wording, *, within: float = 2.0, names: Names | None = None
) -> dict[str, Any]:
    """Settle a frozen call by a click and answer with a toast, in time whatever happens.

    Who has to wait too long is asked to look, and to click again if need be: a call is settled once, however many
    clicks say something of it.
    """
    give_up = asyncio.get_running_loop().time() + within
    try:
        ruling = click.ruling()
        async with asyncio.timeout_at(give_up - within * _NAMING_SHARE):
            ruled = await gate.approval(click.approval_id).rule(ruling)
    except UnfitRuling as unfit:
        return refused_ruling(unfit.why, wording).answer()
    except RulingRefused as refused:
        return refused_ruling(_REFUSED.get(refused.code, refused.code), wording).answer()
    except (NotFrozen, ApprovalNotFound):
        return refused_ruling("missing", wording).answer()
    except Exception as error:
        _log.error(
            "a ruling on approval %s (event %s) was not settled in time; the person is asked to click again: %s: %s",
            click.approval_id,
            click.event_id,
            type(error).__name__,
            error,
        )
        return not_in_time(wording).answer()
    return (await _told(ruled, click, wording, names, give_up)).answer()


async def _told(ruled: Ruled, click: RulingClick, wording: Wording, names: Names | None, give_up: float) -> Toast:
    faster = ruled.settlement.settled_by if ruled.kind is RuledKind.ALREADY_SETTLED and ruled.settlement else None
    return ruled_toast(ruled, click.kind, wording, name=await _name(faster, names, give_up))


async def _name(person: Identity | None, names: Names | None, give_up: float) -> str | None:
    """What the person is called who was faster, if that is known soon enough."""
    if names is None or person is None:
        return None
    try:
        async with asyncio.timeout_at(give_up):
            return await names(person)
    except Exception:
        return None
