"""One approval, seen by its client: wait for it, look at it, decide it, withdraw it."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.contracts import (
    Decision,
    DecisionKind,
    Identity,
    Outcome,
    Phase,
    Stage,
    State,
    Status,
    Surface,
    Verdict,
    VerdictKind,
)
from assent.errors import (
    ApprovalConflict,
    ApprovalInterrupted,
    ApprovalNotFound,
    AssentError,
    ConversationBusy,
    InvalidRequest,
    Unavailable,
)
from assent.judgement import after_ending
from assent.messages import Recall, Recalled, RecallKind, VerdictQuestion, Withdrawal
from assent.texts import with_sentence

_ANSWER_WITHIN = timedelta(seconds=8)
"""How long a decision waits to learn what became of it."""
_RECALL_WITHIN = timedelta(seconds=15)
_PREPARED_WITHIN = timedelta(seconds=5)
_NO_SERVER = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)

_Answer = TypeVar("_Answer", bound=BaseModel)


class ApprovalHandle:
    """One approval: wait for it, look at it, decide it, withdraw it."""

    def __init__(self, client: Client, approval_id: str, texts: Mapping[Status, str]) -> None:
        self.id = approval_id
        self._client = client
        self._texts = texts
        self._workflow: WorkflowHandle[Any, Outcome] = client.get_workflow_handle(
            names.approval_workflow(approval_id), result_type=Outcome
        )

    async def outcome(self) -> Outcome:
        """Wait until the approval has ended; restarts of the server and of the workers are waited out."""
        while True:
            try:
                return with_sentence(await self._workflow.result(), self._texts)
            except WorkflowFailureError as error:
                if not await self._goes_on(error):
                    raise self._failure(error) from error
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return with_sentence(await self._recorded_outcome(), self._texts)
                if error.status not in _NO_SERVER:
                    raise unavailable(error) from error
            await asyncio.sleep(1)

    async def state(self) -> State:
        """The approval as it stands. One that was just asked for is given a moment to be prepared."""
        try:
            return await self._prepared_state(_RECALL_WITHIN)
        except ApprovalNotFound:
            recalled = await self._recall(Recall(kind=RecallKind.RECORD, approval_id=self.id))
            if recalled.state is None:
                raise
            return recalled.state

    async def decide(
        self,
        kind: DecisionKind | str,
        *,
        actor: Identity,
        payload_sha256: str | None,
        reason: str | None = None,
        event_id: str | None = None,
        stage: Stage | str = Stage.CALL,
        surface: Surface = Surface.CLIENT,
    ) -> Verdict:
        """Decide on exactly the payload with that hash. Repeating an event id decides nothing twice."""
        try:
            decision = Decision(
                approval_id=self.id,
                kind=DecisionKind(kind),
                payload_sha256=payload_sha256,
                actor=actor,
                event_id=event_id if event_id is not None else str(uuid.uuid4()),
                delivery_id=uuid.uuid4().hex,
                stage=Stage(stage),
                reason=reason,
                received_at=datetime.now(UTC),
                surface=surface,
            )
        except ValueError as error:
            raise invalid(error) from None
        return await self.submit(decision)

    async def submit(self, decision: Decision) -> Verdict:
        """Signal a decision durably, then learn what became of it."""
        while not await self._signal(names.DECIDE, decision, request_id=decision.event_id):
            verdict = await self._late_verdict(decision)
            if verdict is not None:
                return verdict
        question = VerdictQuestion(event_id=decision.event_id, delivery_id=decision.delivery_id)
        give_up = asyncio.get_running_loop().time() + _ANSWER_WITHIN.total_seconds()
        while (left := give_up - asyncio.get_running_loop().time()) > 0:
            try:
                return await self._ask(names.VERDICT, question, Verdict, timedelta(seconds=left))
            except (ApprovalNotFound, ApprovalInterrupted):
                break
            except Unavailable:  # the server buffers few queries at a time: many clickers take turns
                await asyncio.sleep(0.05)
        return Verdict(kind=VerdictKind.RECEIVED)

    async def cancel(
        self, reason: str | None = None, *, actor: Identity | None = None, surface: Surface = Surface.CLIENT
    ) -> None:
        """Withdraw the request. Does nothing once somebody has decided, or if there is no such approval."""
        try:
            withdrawal = Withdrawal(reason=reason, actor=actor, surface=surface)
        except ValueError as error:
            raise invalid(error) from None
        await self._signal(names.CANCEL, withdrawal, request_id=uuid.uuid4().hex)

    async def content(self) -> Any:
        """The whole result, however large, read through Temporal."""
        outcome = await self.outcome()
        if not outcome.truncated:
            return outcome.content
        chunks: list[str] = []
        offset: int | None = 0
        while offset is not None:
            recalled = await self._recall(Recall(kind=RecallKind.CONTENT, approval_id=self.id, offset=offset))
            if recalled.chunk is None:
                raise Unavailable(f"the ledger no longer holds the result of approval {self.id!r}")
            chunks.append(recalled.chunk)
            offset = recalled.next_offset
        return json.loads("".join(chunks))

    async def prepared(self) -> None:
        """Wait until the request was taken or refused; without a worker nobody can tell yet, and that is fine."""
        try:
            state = await self._prepared_state(_PREPARED_WITHIN)
        except (Unavailable, ApprovalNotFound):
            return
        if state.phase is Phase.CLOSED and state.status is None:
            await self.outcome()  # says why it was refused

    async def _prepared_state(self, within: timedelta) -> State:
        give_up = asyncio.get_running_loop().time() + within.total_seconds()
        while True:
            try:
                state = await self._ask(names.STATE, None, State, within)
            except ApprovalInterrupted:
                await self.outcome()  # says how it was ended
                raise
            if state.phase is not Phase.PREPARING or asyncio.get_running_loop().time() > give_up:
                return state
            await asyncio.sleep(0.05)

    async def _signal(self, name: str, message: BaseModel, *, request_id: str) -> bool:
        """Signal durably and once per request id; False if the approval has ended or is not known."""
        payloads = await self._client.data_converter.encode([message])
        request = SignalWorkflowExecutionRequest(
            namespace=self._client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=self._workflow.id),
            signal_name=name,
            request_id=request_id,
            identity=self._client.identity,
        )
        request.input.payloads.extend(payloads)
        try:
            await self._client.workflow_service.signal_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise unavailable(error) from error
        return True

    async def _ask(self, query: str, question: BaseModel | None, answer: type[_Answer], within: timedelta) -> _Answer:
        arguments = [] if question is None else [question]
        try:
            found: _Answer = await self._workflow.query(
                query,
                args=arguments,
                result_type=answer,
                rpc_timeout=within,
                reject_condition=QueryRejectCondition.NOT_COMPLETED_CLEANLY,
            )
            return found
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise ApprovalNotFound(self.id) from error
            raise unavailable(error) from error
        except WorkflowQueryRejectedError as error:
            raise ApprovalInterrupted(self.id, ended_as(error.status)) from error
        except WorkflowQueryFailedError as error:
            raise Unavailable(f"the approval could not answer: {error}") from error

    async def _late_verdict(self, decision: Decision) -> Verdict | None:
        """The approval is not open: the ledger's record answers, or Temporal's last word. None: it just opened."""
        answered = True
        try:
            recalled = await self._recall(Recall(kind=RecallKind.VERDICT, approval_id=self.id, decision=decision))
            if recalled.verdict is not None and recalled.verdict.kind is not VerdictKind.MISSING:
                return recalled.verdict
        except Unavailable:
            answered = False
        try:
            described = await self._workflow.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and answered:
                return Verdict(kind=VerdictKind.MISSING)
            raise unavailable(error) from error
        if described.status is WorkflowExecutionStatus.RUNNING:
            return None
        ended = described.typed_search_attributes.get(names.STATUS) or ""
        if ended not in {*Status}:
            return Verdict(kind=VerdictKind.MISSING)
        return Verdict(kind=after_ending(Status(ended)), status=Status(ended))

    async def _recorded_outcome(self) -> Outcome:
        recalled = await self._recall(Recall(kind=RecallKind.RECORD, approval_id=self.id))
        if recalled.outcome is not None:
            return recalled.outcome
        if recalled.state is not None:
            raise ApprovalInterrupted(self.id, "ended and forgotten")
        raise ApprovalNotFound(self.id)

    async def _recall(self, question: Recall) -> Recalled:
        try:
            recalled: Recalled = await self._client.execute_workflow(
                names.RECALL,
                question,
                id=f"recall/{uuid.uuid4()}",
                task_queue=names.APPROVALS_QUEUE,
                result_type=Recalled,
                execution_timeout=_RECALL_WITHIN,
            )
            return recalled
        except (WorkflowFailureError, RPCError) as error:
            raise Unavailable("no approvals worker could ask the ledger; start one and try again") from error

    async def _goes_on(self, error: WorkflowFailureError) -> bool:
        """Whether what was terminated was only a run that an operator reset."""
        if not isinstance(error.cause, TerminatedError):
            return False
        try:
            status = (await self._workflow.describe()).status
        except RPCError as failure:
            raise unavailable(failure) from failure
        return status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)

    def _failure(self, error: WorkflowFailureError) -> AssentError:
        match error.cause:
            case ApplicationError(type="ApprovalConflict"):
                return ApprovalConflict(self.id)
            case ApplicationError(type="ConversationBusy") as busy:
                return ConversationBusy(*busy.details)
            case TerminatedError():
                return ApprovalInterrupted(self.id, "terminated")
            case CancelledError():
                return ApprovalInterrupted(self.id, "cancelled")
            case cause:
                return ApprovalInterrupted(self.id, f"ended ({cause})")


def ended_as(status: WorkflowExecutionStatus | None) -> str:
    return status.name.lower() if status else "ended"


def invalid(error: ValueError) -> InvalidRequest:
    if isinstance(error, ValidationError):
        return InvalidRequest("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()))
    return InvalidRequest(str(error))


def unavailable(error: RPCError) -> Unavailable:
    if error.status in _NO_SERVER:
        return Unavailable("Temporal or its workers did not answer in time; what was sent before is not lost.")
    return Unavailable(f"Temporal refused: {error.message}")
