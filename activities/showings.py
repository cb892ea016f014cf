"""What the cards of an approval are made of, gathered from the ledger."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from activities.card_builder import CardBuilder
from activities.feishu.pacing import Memory
from activities.links import review_url
from assent.contracts.decision import Judged, Stage, VerdictKind
from assent.contracts.deliver import Revision
from assent.contracts.plan import Plan
from assent.contracts.review import SeenAttempt
from assent.contracts.state import Progress
from assent.contracts.status import Status
from assent.payload import sha256
from cards import (
    Attachment,
    File,
    ResultShowing,
    Showing,
    Wording,
    card,
    overflow,
    result_card,
    result_overflow,
)
from ledger import Ledger, MessageKind, Record

_ENDS = {"executed": Status.EXECUTED, "failed": Status.FAILED}
"""How a call ended, by the state of its claim; of any other nobody knows."""
_MOST_FITTING, _FITS_FOR = 5000, 86_400.0
"""Of how many plans it is remembered that a card holds all of them, and for how many seconds."""


class CardState(NamedTuple):
    """What a card shows of an approval besides what the ledger knows."""

    decided: Judged | None = None
    progress: Progress | None = None
    reviewing: bool = False
    reminder: bool = False
    replaced: bool = False
    """Whether newer cards took this one's place;"""
    moved: bool = False
    """whether they went elsewhere."""
    deadline: datetime | None = None
    """Until when a result waits to be released."""
    asking: bool | None = None
    """Whether the running tool waits for somebody's answer, where that has changed."""
    generation: int | None = None
    """Which cards say how far the approvers have come."""
    doubts_older: bool = False
    """Whether those that are noted as replaced may say something else."""

    @classmethod
    def of(cls, revision: Revision) -> CardState:
        return cls(
            decided=revision.decided,
            progress=revision.progress,
            reviewing=revision.reviewing,
            asking=revision.asking,
            generation=revision.generation,
            doubts_older=revision.doubts_older,
        )

    @property
    def is_pending(self) -> bool:
        """Whether nobody has decided yet."""
        return self.decided is None and not self.reviewing


class CardContent(NamedTuple):
    """A card, and the file that is sent before it because the card cannot hold all."""

    card: str
    file: File | None


class Showings:
    """What each of an approval's cards holds."""

    def __init__(self, ledger: Ledger, wording: Wording, temporal_ui: str, builder: CardBuilder | None = None) -> None:
        self._ledger = ledger
        self._builder = builder
        self._wording = wording
        self._temporal_ui = temporal_ui
        self._fitting: Memory[None] = Memory(_MOST_FITTING)

    @property
    def wording(self) -> Wording:
        return self._wording

    async def content(self, kind: MessageKind, record: Record, card_state: CardState) -> CardContent:
        """The card of this kind as the approval stands."""
        if kind is MessageKind.RESULT:
            return await self._result(record, card_state)
        return await self._call(record, card_state)

    async def _call(self, record: Record, card_state: CardState) -> CardContent:
        file = self._overflow(record.plan)
        showing = await self.showing(record, card_state, _attached(file))
        shown = card(showing, self._wording)
        return CardContent(await self._builder.framed(shown, showing) if self._builder else shown, file)

    def _overflow(self, plan: Plan) -> File | None:
        """The file for what the pending card cannot hold; that it holds all of just this plan is found out once."""
        key = sha256(plan.model_dump_json())
        if key in self._fitting:
            return None
        file = overflow(plan, self._wording)
        if file is None:
            self._fitting.keep(key, None, _FITS_FOR)
        return file

    async def showing(self, record: Record, card_state: CardState, attachment: Attachment | None = None) -> Showing:
        """The call as a card shows it."""
        plan = record.plan
        is_open = record.outcome is None and card_state.is_pending and not card_state.replaced
        progress = card_state.progress
        return Showing(
            plan=plan,
            decided=record.decided or card_state.decided,
            approvals=record.approvals or (progress.approvals if progress else ()),
            outcome=record.outcome,
            ended_at=record.closed_at,
            settlement=record.settlement,
            attachment=attachment,
            replaced=card_state.replaced,
            moved=card_state.moved,
            twin_url=review_url(self._temporal_ui, record.twin_key),
            progress=progress,
            parameters=(record.parameters or await self._parameters(plan)) if is_open else None,
            reminder=card_state.reminder,
            grant=record.grant,
            asking=bool(card_state.asking),
            reviewing=_ended(await self._ledger.attempts_of(plan.approval_id)) if card_state.reviewing else None,
        )

    async def _parameters(self, plan: Plan) -> dict[str, Any] | None:
        """What the tool takes, if it still is the tool that the plan was made of."""
        manifest = await self._ledger.manifest(plan.tool)
        same = manifest is not None and manifest.shown_sha256 == plan.manifest_sha256
        return manifest.parameters if manifest is not None and same else None

    async def _result(self, record: Record, card_state: CardState) -> CardContent:
        plan = record.plan
        is_over = record.outcome is not None or card_state.replaced
        content = await self._ledger.result(plan.approval_id)
        seen_attempts = await self._ledger.attempts_of(plan.approval_id)
        since = max((seen.ended_at for seen in seen_attempts if seen.ended_at), default=datetime.now(UTC))
        showing = ResultShowing(
            plan=plan,
            status=_ended(seen_attempts),
            content=None if is_over else content,
            error=_error(seen_attempts, content),
            content_sha256=_hash_of(record, content),
            deadline=card_state.deadline or since + plan.result_ttl,
            progress=card_state.progress,
            decided=await self._decided_about_result(plan.approval_id) if record.outcome else None,
            outcome=record.outcome,
            ended_at=record.closed_at,
            replaced=card_state.replaced,
            reminder=card_state.reminder,
        )
        return await asyncio.to_thread(self._of_result, showing)  # a large result takes its time

    def _of_result(self, showing: ResultShowing) -> CardContent:
        file = result_overflow(showing, self._wording)
        whole = showing.model_copy(update={"attachment": _attached(file)})
        return CardContent(result_card(whole, self._wording), file)

    async def _decided_about_result(self, approval_id: str) -> Judged | None:
        state = await self._ledger.state(approval_id)
        about = [
            judged
            for judged in (state.decisions if state else ())
            if judged.stage is Stage.RESULT and judged.verdict is VerdictKind.ACCEPTED and judged.kind != "delegate"
        ]
        return about[-1] if about else None


def _hash_of(record: Record, content: bytes | None) -> str:
    """The hash of what was decided about; a frozen call that was settled since has another result by now."""
    known = record.outcome.content_sha256 if record.outcome else None
    return known or sha256(content if content is not None else b"null")


def _attached(file: File | None) -> Attachment | None:
    return Attachment(name=file.name, size=len(file.data), sha256=sha256(file.data)) if file else None


def _ended(seen_attempts: tuple[SeenAttempt, ...]) -> Status:
    """How the call ended, as its last attempt tells."""
    return _ENDS.get(seen_attempts[-1].state, Status.FROZEN) if seen_attempts else Status.FROZEN


def _error(seen_attempts: tuple[SeenAttempt, ...], content: bytes | None) -> str | None:
    """What went wrong, unless the result says just that."""
    error = seen_attempts[-1].error if seen_attempts else None
    return None if error is None or content == json.dumps(error).encode("ascii") else error
