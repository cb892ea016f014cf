"""Questions through Temporal: for those who are trusted with everything."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Collection
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.client.door import AskedQuestion
from assent.client.reader import LedgerReader, WaitingQuestion
from assent.contracts.answers import Answer, AnswerVerdict, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.questions import QuestionRequest
from assent.contracts.quotas import AgentLimits
from assent.contracts.recall import LateAnswer, Recall, RecallKind
from assent.contracts.signals import VerdictQuestion, Withdrawal
from assent.core.questions import Asked, after_ending
from assent.errors import (
    AssentError,
    InvalidRequest,
    LedgerNeeded,
    QuestionConflict,
    QuestionInterrupted,
    QuestionNotFound,
    QuotaExceeded,
    Unavailable,
)
from assent.temporal import search
from assent.temporal.connection import ended_as, unavailable
from assent.temporal.talking import Interrupted, NotThere, Talking, summary

_STATE_WITHIN = timedelta(seconds=15)
_PREPARED_WITHIN = timedelta(seconds=5)
_SIGNAL_WITHIN = timedelta(seconds=30)
_LEDGER_SHARE = 0.75
"""How much of its time a late answer spends on asking the ledger, before it asks Temporal."""
_PAGE, _AT_ONCE = 100, 16
NO_LIMITS = AgentLimits()


class TemporalQuestions:
    """Questions through a Temporal client; what is read of the ledger, through a reader, if there is one."""

    def __init__(self, talking: Talking, reader: LedgerReader | None) -> None:
        self._talking = talking
        self._reader = reader

    @property
    def _client(self) -> Client:
        return self._talking.client

    # Asking

    async def ask(self, request: QuestionRequest, limits: AgentLimits = NO_LIMITS) -> bool:
        """Start a question, or attach to it. Tells whether it is new; what cannot be asked is refused soon."""
        digest = request.sha256
        attributes = {search.STATUS: QuestionStatus.PENDING.value, search.REQUESTER: str(request.requester)}
        if request.thread_id is not None:
            attributes[search.THREAD] = request.thread_id
        if request.call is not None:
            attributes[search.TOOL] = request.call.tool
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        while True:
            try:
                await self._client.start_workflow(
                    names.QUESTION,
                    Asked(request=request, limits=limits),
                    id=names.question_workflow(request.question_id),
                    task_queue=names.APPROVALS_QUEUE,
                    id_reuse_policy=reuse,
                    memo={names.REQUEST_HASH_MEMO: digest},
                    search_attributes=search.attributes(attributes),
                    static_summary=summary(f"a question for {request.requester}"),
                )
                break
            except WorkflowAlreadyStartedError:
                if await self._attaches(request.question_id, digest):
                    return False
                # That run was refused before it became a question: the id is still free.
                reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
            except RPCError as error:
                raise unavailable(error) from error
        await self._prepared(request.question_id)
        return True

    async def _attaches(self, question_id: str, digest: str) -> bool:
        try:
            described = await self._workflow(question_id).describe()
        except RPCError as error:
            raise unavailable(error) from error
        if described.status is WorkflowExecutionStatus.FAILED:
            return False
        if await described.memo_value(names.REQUEST_HASH_MEMO, "", type_hint=str) != digest:
            raise QuestionConflict(question_id)
        return True

    async def _prepared(self, question_id: str) -> None:
        """Wait until it was taken or refused; without a worker nobody can tell yet, and that is fine."""
        try:
            await self._looked_at(question_id, _PREPARED_WITHIN)
        except Unavailable:
            return
        except Interrupted:
            await self._result(question_id)  # says why it was refused
        except NotThere:
            return

    # Looking

    async def outcome(self, question_id: str) -> QuestionOutcome:
        """Wait until it has ended, however long and through whatever restarts."""
        if self._reader is not None and self._reader.is_at_hand:
            try:
                if (known := await self._reader.answered(question_id)) is not None:
                    return known
            except Unavailable:
                pass  # a ledger out of reach stops nobody who waits for it
        return await self._result(question_id)

    async def _result(self, question_id: str) -> QuestionOutcome:
        try:
            return await self._talking.result(self._workflow(question_id))
        except WorkflowFailureError as error:
            raise _failure(question_id, error) from error
        except NotThere:
            pass
        if (known := await self._read().answered(question_id)) is not None:
            return known
        await self._recorded(question_id)  # says if there is no such question
        raise QuestionInterrupted(question_id, "ended and forgotten")

    async def state(self, question_id: str, within: timedelta = _STATE_WITHIN) -> QuestionState:
        """The question as it stands."""
        if self._reader is not None and self._reader.is_at_hand:
            known = await self._reader.question(question_id)
            if known is not None and known.status is not QuestionStatus.PENDING:
                return known
        try:
            return await self._looked_at(question_id, within)
        except NotThere:
            return await self._recorded(question_id)
        except Interrupted as interrupted:
            await self._result(question_id)  # says how it was ended
            raise QuestionInterrupted(question_id, interrupted.how) from interrupted

    async def _looked_at(self, question_id: str, within: timedelta) -> QuestionState:
        """The question once it is prepared, or the time is over."""
        give_up = asyncio.get_running_loop().time() + within.total_seconds()
        pause = 0.05
        while True:
            state = await self._open_state(question_id, within)
            if state.is_prepared or asyncio.get_running_loop().time() > give_up:
                return state
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)

    async def _open_state(self, question_id: str, within: timedelta = _PREPARED_WITHIN) -> QuestionState:
        return await self._talking.ask(names.question_workflow(question_id), names.STATE, None, QuestionState, within)

    async def _recorded(self, question_id: str) -> QuestionState:
        if self._reader is None:
            raise QuestionNotFound(question_id)
        state = await self._reader.question(question_id)
        if state is None:
            raise QuestionNotFound(question_id)
        return state

    def _read(self) -> LedgerReader:
        if self._reader is None:
            raise LedgerNeeded
        return self._reader

    async def audit(self, question_id: str) -> list[AuditRecord]:
        """What the audit says of one question."""
        reader, found, offset = self._read(), list[AuditRecord](), 0
        while offset is not None:
            page, offset = await reader.records(names.question_workflow(question_id), offset, _PAGE)  # type: ignore[assignment]
            found += page
        if not found:
            await self.state(question_id)  # says if there is no such question
        return found

    async def questions(
        self,
        *,
        status: str | None,
        thread_id: str | None,
        limit: int,
        requesters: Collection[str] = (),
    ) -> AsyncIterator[AskedQuestion]:
        """The questions that Temporal still knows, open ones first, then the newest."""
        query = f'WorkflowType = "{names.QUESTION}" AND ExecutionStatus != "ContinuedAsNew"'
        if status is not None:
            query += f' AND {search.STATUS.name} = "{status}" AND ExecutionStatus IN ("Running", "Completed")'
        query += search.in_thread(thread_id) + search.of_requesters(requesters)
        try:
            async for found in self._client.list_workflows(query, limit=limit if thread_id is None else None):
                if search.is_in_thread(found.typed_search_attributes.get(search.THREAD), thread_id):
                    yield _listed(found)
                    limit -= 1
                if not limit:
                    return
        except RPCError as error:
            raise unavailable(error) from error

    async def inbox(
        self,
        actor: Identity,
        *,
        thread_id: str | None = None,
        may_see: Callable[[WaitingQuestion], bool] = lambda _: True,
    ) -> AsyncIterator[QuestionState]:
        """What *actor* can answer now, the oldest first.

        may_see: of what nobody is told, nobody is asked either.
        """
        reader, answered, unanswered, offset = self._read(), 0, 0, 0
        while offset is not None:
            page, offset = await reader.asked(actor, offset, _AT_ONCE)  # type: ignore[assignment]
            ids = [each.question_id for each in page if thread_id in (None, each.thread_id) and may_see(each)]
            for found in await asyncio.gather(*map(self._open_state, ids), return_exceptions=True):
                match found:
                    case QuestionState():
                        answered += 1
                        if found.awaits(actor):
                            yield found
                    case NotThere() | Interrupted():
                        pass  # it has ended since
                    case AssentError():
                        unanswered += 1
                    case BaseException():
                        raise found
        if unanswered and not answered:
            raise Unavailable("open questions do not say how they stand: no approvals worker answers. Try again.")

    # Answering

    async def answer(self, question_id: str, answer: Answer, *, answer_within: timedelta) -> AnswerVerdict:
        """Hand an answer to a question durably, and learn what became of it."""

        async def late(within: timedelta) -> AnswerVerdict | None:
            return await self._late_verdict(question_id, answer, within)

        return await self._talking.submit(
            names.question_workflow(question_id),
            names.ANSWER,
            answer,
            VerdictQuestion(event_id=answer.event_id, delivery_id=answer.delivery_id),
            AnswerVerdict,
            late,
            answer_within,
        )

    async def _late_verdict(self, question_id: str, answer: Answer, within: timedelta) -> AnswerVerdict | None:
        """The question is not open: the ledger's record answers, or Temporal's last word. None: it just opened."""
        is_heard = True
        try:
            late = Recall(kind=RecallKind.ANSWER, answer=LateAnswer.of(answer))
            recalled = (await self._talking.recall(late, within * _LEDGER_SHARE)).answered
            if recalled is not None and recalled.kind is not VerdictKind.MISSING:
                return recalled
        except Unavailable:
            is_heard = False
        try:
            described = await self._workflow(question_id).describe(rpc_timeout=within * (1 - _LEDGER_SHARE))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and is_heard:
                return AnswerVerdict(kind=VerdictKind.MISSING)
            raise unavailable(error) from error
        if described.status is WorkflowExecutionStatus.RUNNING:
            return None
        ended = described.typed_search_attributes.get(search.STATUS) or ""
        if ended not in {*QuestionStatus} - {QuestionStatus.PENDING}:
            return AnswerVerdict(kind=VerdictKind.MISSING)
        return AnswerVerdict(kind=after_ending(QuestionStatus(ended)), status=QuestionStatus(ended))

    async def withdraw(self, question_id: str, withdrawal: Withdrawal) -> None:
        """Withdraw a question that nobody has answered."""
        workflow_id = names.question_workflow(question_id)
        await self._talking.signal(workflow_id, names.CANCEL, withdrawal, uuid.uuid4().hex, _SIGNAL_WITHIN)

    def _workflow(self, question_id: str) -> WorkflowHandle[Any, QuestionOutcome]:
        return self._client.get_workflow_handle(names.question_workflow(question_id), result_type=QuestionOutcome)


def _listed(found: WorkflowExecution) -> AskedQuestion:
    attributes = found.typed_search_attributes
    orderly = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
    status = attributes.get(search.STATUS) or "unknown"
    if found.status not in orderly:
        status = "refused" if found.status is WorkflowExecutionStatus.FAILED else ended_as(found.status)
    return AskedQuestion(
        question_id=names.question_of(found.id) or found.id,
        status=status,
        requester=attributes.get(search.REQUESTER),
        thread_id=attributes.get(search.THREAD),
        tool=attributes.get(search.TOOL),
        asked_at=found.start_time,
        closed_at=found.close_time,
    )


def _failure(question_id: str, error: WorkflowFailureError) -> AssentError:
    match error.cause:
        case ApplicationError(type="QuestionConflict"):
            return QuestionConflict(question_id)
        case ApplicationError(type="QuotaExceeded") as exceeded:
            return QuotaExceeded(*exceeded.details)
        case ApplicationError(type="InvalidRequest") as invalid:
            return InvalidRequest(invalid.message)
        case TerminatedError():
            return QuestionInterrupted(question_id, "terminated")
        case CancelledError():
            return QuestionInterrupted(question_id, "cancelled")
        case cause:
            return QuestionInterrupted(question_id, f"ended ({cause})")
