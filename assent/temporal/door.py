"""The door through Temporal: for those who are trusted with everything."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.client.door import Approval, FrozenReview, ToolDescription
from assent.client.reader import LedgerReader, Stored, Waiting
from assent.contracts.audit import AuditRecord
from assent.contracts.bundles import BundleAsked
from assent.contracts.decision import Decision, Verdict, VerdictKind
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.outcome import Outcome
from assent.contracts.policy import NewOverride, Overridden, Override, Policy
from assent.contracts.quotas import AgentLimits
from assent.contracts.recall import LateDecision, Recall, RecallKind
from assent.contracts.request import Request
from assent.contracts.review import FrozenApproval
from assent.contracts.ruling import Ruled, Ruling, Settlement
from assent.contracts.signals import VerdictQuestion, Withdrawal
from assent.contracts.state import PendingItem, State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
from assent.core.approval import Asked
from assent.core.judging import after_ending
from assent.errors import (
    ApprovalConflict,
    ApprovalInterrupted,
    ApprovalNotFound,
    AssentError,
    ConversationBusy,
    InvalidRequest,
    LedgerNeeded,
    QuotaExceeded,
    Unavailable,
)
from assent.temporal import search
from assent.temporal.connection import unavailable
from assent.temporal.ledger import TemporalLedger
from assent.temporal.lists import ids_beginning, listed_approvals
from assent.temporal.questions import TemporalQuestions
from assent.temporal.reviews import Review, TemporalReviews
from assent.temporal.talking import RECALL_WITHIN, Interrupted, NotThere, Talking, summary

_OPEN_WITHIN = timedelta(seconds=5)
_PREPARED_WITHIN = timedelta(seconds=5)
_SIGNAL_WITHIN = timedelta(seconds=30)
_LEDGER_SHARE = 0.75
"""How much of its time a late decision spends on asking the ledger, before it asks Temporal."""

_SHORTEST_PREFIX, _MOST_ALIKE = 4, 5
"""How much of an id stands for it, and how many that begin alike are named."""

_Answer = TypeVar("_Answer", bound=BaseModel)
NO_LIMITS = AgentLimits()


class TemporalDoor:
    """Approvals through a Temporal client; what is read of the ledger, through a reader, if there is one."""

    def __init__(self, client: Client, reader: LedgerReader | None = None) -> None:
        self._client = client
        self._talking = Talking(client)
        self._ledger = TemporalLedger(reader, self._open_state)
        self._reviews = TemporalReviews(client, self._talking.recall, self._ledger)
        self.questions = TemporalQuestions(self._talking, reader)

    # Reviews

    def frozen(self, *, limit: int) -> AsyncIterator[FrozenReview]:
        return self._reviews.frozen(limit=limit)

    async def settle(self, approval_id: str, ruling: Ruling) -> Ruled:
        return await self._reviews.settle(approval_id, ruling)

    async def settlement(self, approval_id: str) -> Settlement:
        return await self._reviews.settlement(approval_id)

    async def settled(self, approval_id: str) -> Settlement | None:
        """What was settled of a frozen call, if anything was."""
        return await self._ledger.settled(approval_id)

    async def was_settled(self, approval_id: str) -> Settlement | None:
        """The same; for who cannot read the ledger, who settled it and how, without the content and the words."""
        return await self._reviews.was_settled(approval_id)

    async def frozen_approval(self, approval_id: str) -> FrozenApproval:
        """Where an approval stands whose call may have happened. Raises NotFrozen where there is no such question."""
        return await self._reviews.standing(approval_id)

    async def review(self, approval_id: str) -> Review:
        """The open question of a frozen call. Raises NotFrozen where there is none."""
        return await self._reviews.review(approval_id)

    # What waits for people, and what they said once for all

    def inbox(self, actor: Identity, *, thread_id: str | None = None) -> AsyncIterator[PendingItem]:
        return self._ledger.inbox(actor, lambda waiting: thread_id in (None, waiting.thread_id))

    def visible_inbox(self, actor: Identity, may_see: Callable[[Waiting], bool]) -> AsyncIterator[PendingItem]:
        """The part of an inbox that somebody may see; the rest is not looked at."""
        return self._ledger.inbox(actor, may_see)

    async def result(self, approval_id: str, *, actor: Identity) -> str | None:
        found = await self.stored_result(approval_id, actor)
        return await found.text() if found else None

    async def stored_result(self, approval_id: str, actor: Identity) -> Stored | None:
        """The result that waits to be released, to be read piece by piece."""
        return await self._ledger.result(approval_id, actor)

    async def files(self, requester: Identity, limit: int) -> list[FileSummary]:
        return await self._ledger.reader.files(requester, limit)

    async def file(self, requester: Identity, file_id: str) -> FileSummary | None:
        return await self._ledger.reader.file(requester, file_id)

    def grants(self) -> AsyncIterator[Grant]:
        return self._ledger.grants()

    async def revoke(
        self, grant_id: str, *, actor: Identity, surface: Surface = Surface.CLIENT, seen_on: str | None = None
    ) -> RevokedKind:
        question = Recall(
            kind=RecallKind.REVOKE, grant_id=grant_id, actor=actor, surface=surface, approval_id=seen_on or ""
        )
        revoked = (await self._talking.recall(question)).revoked
        if revoked is None:
            raise Unavailable("the approvals worker does not know how to revoke; start a newer one and try again")
        return revoked

    async def override(self, wish: NewOverride) -> Overridden:
        overridden = (await self._talking.recall(Recall(kind=RecallKind.OVERRIDE, override=wish))).overridden
        if overridden is None:
            raise Unavailable("the approvals worker knows no overrides; start a newer one and try again")
        return overridden

    async def overrides(self) -> tuple[Override, ...]:
        """The overrides in force, by the names of their tools."""
        return await self._ledger.overrides()

    async def policy(self) -> Policy | None:
        """The operator's policy in force, if there is one."""
        return await self._ledger.policy()

    async def _open_state(self, approval_id: str) -> State:
        return await self._ask(approval_id, names.STATE, None, State, _OPEN_WITHIN)

    # Asking

    may_decide_anything = True

    async def principal(self) -> str:
        return ""

    async def request(self, request: Request, *, in_doubt: bool, limits: AgentLimits = NO_LIMITS) -> bool:
        started = await self._start(request, limits)
        if started and in_doubt:
            await self._prepared(request.approval_id)
        return started

    async def request_many(self, requests: tuple[Request, ...], *, limits: AgentLimits = NO_LIMITS) -> None:
        await self._start_bundle(requests)
        asked = await asyncio.gather(
            *(self.request(request, in_doubt=True, limits=limits) for request in requests), return_exceptions=True
        )
        for trouble in asked:
            if isinstance(trouble, BaseException):
                raise trouble

    async def _start_bundle(self, requests: tuple[Request, ...]) -> None:
        """Start what sends the card that the approvals share; without it each of them sends its own."""
        bundle_id = requests[0].bundle_id
        assert bundle_id is not None
        bundle = BundleAsked(bundle_id=bundle_id, approval_ids=tuple(request.approval_id for request in requests))
        try:
            await self._client.start_workflow(
                names.BUNDLE,
                bundle,
                id=names.bundle_workflow(bundle_id),
                task_queue=names.APPROVALS_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=summary(f"{len(requests)} calls for {requests[0].requester}"),
            )
        except WorkflowAlreadyStartedError:
            return
        except RPCError as error:
            raise unavailable(error) from error

    async def _start(self, request: Request, limits: AgentLimits) -> bool:
        """Start the approval, or see that the same request started it before. Tells which."""
        digest = request.sha256
        attributes = {
            search.STATUS: Phase.PREPARING,
            search.TOOL: request.tool,
            search.REQUESTER: str(request.requester),
        }
        if request.thread_id is not None:
            attributes[search.THREAD] = request.thread_id
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        while True:
            try:
                await self._client.start_workflow(
                    names.APPROVAL,
                    Asked(request=request, limits=limits),
                    id=names.approval_workflow(request.approval_id),
                    task_queue=names.APPROVALS_QUEUE,
                    id_reuse_policy=reuse,
                    memo={names.REQUEST_HASH_MEMO: digest},
                    search_attributes=search.attributes(attributes),
                    static_summary=summary(f"{request.tool} for {request.requester}"),
                )
                return True
            except WorkflowAlreadyStartedError:
                if await self._attaches(request.approval_id, digest):
                    return False
                # That run was refused before it became an approval: the id is still free.
                reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
            except RPCError as error:
                raise unavailable(error) from error

    async def _attaches(self, approval_id: str, digest: str) -> bool:
        try:
            described = await self._workflow(approval_id).describe()
        except RPCError as error:
            raise unavailable(error) from error
        if described.status is WorkflowExecutionStatus.FAILED:
            return False
        if await described.memo_value(names.REQUEST_HASH_MEMO, "", type_hint=str) != digest:
            raise ApprovalConflict(approval_id)
        return True

    async def _prepared(self, approval_id: str) -> None:
        """Wait until the request was taken or refused; without a worker nobody can tell yet, and that is fine."""
        try:
            state = await self._prepared_state(approval_id, _PREPARED_WITHIN)
        except (Unavailable, ApprovalNotFound):
            return
        if state.phase is Phase.CLOSED and state.status is None:
            await self._result(approval_id)  # says why it was refused

    # Looking

    async def outcome(self, approval_id: str) -> Outcome:
        return await self._ledger.ending(approval_id) or await self._result(approval_id)

    async def _result(self, approval_id: str) -> Outcome:
        """How the approval's own workflow ends, or what it says of why it did not begin."""
        try:
            return await self._talking.result(self._workflow(approval_id))
        except WorkflowFailureError as error:
            raise _failure(approval_id, error) from error
        except NotThere:
            return await self._ledger.outcome(approval_id)

    async def state(self, approval_id: str, within: timedelta = RECALL_WITHIN) -> State:
        if ended := await self._ledger.ended(approval_id):
            return ended
        try:
            return await self._prepared_state(approval_id, within)
        except ApprovalNotFound:
            return await self.recorded_state(approval_id)

    async def recorded_state(self, approval_id: str) -> State:
        """The approval as the ledger knows it, also of one that was ended by hand or that Temporal has forgotten."""
        return await self._ledger.state(approval_id)

    async def _prepared_state(self, approval_id: str, within: timedelta) -> State:
        give_up = asyncio.get_running_loop().time() + within.total_seconds()
        pause = 0.05
        while True:
            try:
                state = await self._ask(approval_id, names.STATE, None, State, within)
            except ApprovalInterrupted:
                await self._result(approval_id)  # says how it was ended
                raise
            if state.phase is not Phase.PREPARING or asyncio.get_running_loop().time() > give_up:
                return state
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    async def content(self, approval_id: str) -> str:
        return await (await self.stored_content(approval_id)).text()

    async def stored_content(self, approval_id: str) -> Stored:
        """The whole result of an approval that has ended, to be read piece by piece."""
        found = await self._ledger.content(approval_id)
        if found is None:
            raise Unavailable(f"the ledger no longer holds the result of approval {approval_id!r}")
        return found

    async def approvals(
        self, *, status: str | None, thread_id: str | None = None, limit: int, requesters: Collection[str] = ()
    ) -> AsyncIterator[Approval]:
        """The approvals that Temporal still knows. *requesters* narrows the search where they are plain names."""
        lines = listed_approvals(self._client, status=status, thread_id=thread_id, limit=limit, requesters=requesters)
        async for approval in lines:
            yield approval

    async def whole_id(self, beginning: str) -> str:
        """The id of the approval that is meant: this one, or the only one that begins so. Raises InvalidRequest."""
        if len(beginning) < _SHORTEST_PREFIX or await self._is_known(beginning):
            return beginning
        with suppress(ApprovalNotFound, LedgerNeeded):
            return (await self.recorded_state(beginning)).approval_id  # Temporal has forgotten it
        found = await ids_beginning(self._client, beginning, limit=_MOST_ALIKE)
        if len(found) > 1:
            some = ", ".join(found) + (", …" if len(found) == _MOST_ALIKE else "")
            raise InvalidRequest(f"more than one approval begins with {beginning!r}: {some}")
        return found[0] if found else beginning

    async def _is_known(self, approval_id: str) -> bool:
        try:
            await self._client.get_workflow_handle(names.approval_workflow(approval_id)).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise unavailable(error) from error
            return False
        return True

    async def tools(self) -> list[ToolDescription]:
        return [ToolDescription.of(manifest) for manifest in await self.manifests()]

    async def manifests(self) -> list[Manifest]:
        """What the tools say of themselves, all of it."""
        return await self._ledger.manifests()

    async def audit(self, approval_id: str) -> list[AuditRecord]:
        found = await self._ledger.records(approval_id)
        if not found:
            await self.state(approval_id)  # says if there is no such approval
        return found

    # Deciding

    async def submit(self, approval_id: str, decision: Decision, *, answer_within: timedelta) -> Verdict:
        async def late(within: timedelta) -> Verdict | None:
            return await self._late_verdict(approval_id, decision, within)

        return await self._talking.submit(
            names.approval_workflow(approval_id),
            names.DECIDE,
            decision,
            VerdictQuestion(event_id=decision.event_id, delivery_id=decision.delivery_id),
            Verdict,
            late,
            answer_within,
        )

    async def _late_verdict(self, approval_id: str, decision: Decision, within: timedelta) -> Verdict | None:
        """The approval is not open: the ledger's record answers, or Temporal's last word. None: it just opened."""
        answered = True
        question = Recall(kind=RecallKind.VERDICT, approval_id=approval_id, decision=LateDecision.of(decision))
        try:
            recalled = await self._talking.recall(question, within * _LEDGER_SHARE)
            if recalled.verdict is not None and recalled.verdict.kind is not VerdictKind.MISSING:
                return recalled.verdict
        except Unavailable:
            answered = False
        try:
            described = await self._workflow(approval_id).describe(rpc_timeout=within * (1 - _LEDGER_SHARE))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and answered:
                return Verdict(kind=VerdictKind.MISSING)
            raise unavailable(error) from error
        if described.status is WorkflowExecutionStatus.RUNNING:
            return None
        ended = described.typed_search_attributes.get(search.STATUS) or ""
        if ended not in {*Status}:
            return Verdict(kind=VerdictKind.MISSING)
        return Verdict(kind=after_ending(Status(ended)), status=Status(ended))

    async def withdraw(self, approval_id: str, withdrawal: Withdrawal) -> None:
        await self._talking.signal(
            names.approval_workflow(approval_id), names.CANCEL, withdrawal, uuid.uuid4().hex, _SIGNAL_WITHIN
        )

    async def close(self) -> None:
        """Nothing to let go of: the Temporal client belongs to whoever made it."""

    # Talking to Temporal

    def _workflow(self, approval_id: str) -> WorkflowHandle[Any, Outcome]:
        return self._client.get_workflow_handle(names.approval_workflow(approval_id), result_type=Outcome)

    async def _ask(
        self, approval_id: str, query: str, question: BaseModel | None, answer: type[_Answer], within: timedelta
    ) -> _Answer:
        try:
            return await self._talking.ask(names.approval_workflow(approval_id), query, question, answer, within)
        except NotThere as error:
            raise ApprovalNotFound(approval_id) from error
        except Interrupted as error:
            raise ApprovalInterrupted(approval_id, error.how) from error


def _failure(approval_id: str, error: WorkflowFailureError) -> AssentError:
    match error.cause:
        case ApplicationError(type="ApprovalConflict"):
            return ApprovalConflict(approval_id)
        case ApplicationError(type="ConversationBusy") as busy:
            return ConversationBusy(*busy.details)
        case ApplicationError(type="QuotaExceeded") as exceeded:
            return QuotaExceeded(*exceeded.details)
        case TerminatedError():
            return ApprovalInterrupted(approval_id, "terminated")
        case CancelledError():
            return ApprovalInterrupted(approval_id, "cancelled")
        case cause:
            return ApprovalInterrupted(approval_id, f"ended ({cause})")
