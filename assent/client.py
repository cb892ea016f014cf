"""Asking for calls, waiting for outcomes, deciding: the client that talks to Temporal."""

from __future__ import annotations

import asyncio
import atexit
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio.api.common.v1 import WorkflowExecution as WorkflowExecutionName
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition, WorkflowIDReusePolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.contracts import (
    DEFAULT_TTL,
    Decision,
    DecisionKind,
    Frozen,
    Identity,
    Outcome,
    Phase,
    Request,
    Stage,
    State,
    Status,
    Surface,
    Verdict,
    VerdictKind,
    WhenPending,
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
from assent.messages import Asked, Recall, Recalled, RecallKind, VerdictQuestion, Withdrawal
from assent.payload import canonical_payload
from assent.texts import with_sentence

_ANSWER_WITHIN = timedelta(seconds=8)
"""How long a decision waits to learn what became of it."""
_RECALL_WITHIN = timedelta(seconds=15)
_PREPARED_WITHIN = timedelta(seconds=5)
_NO_SERVER = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)

_Answer = TypeVar("_Answer", bound=BaseModel)


class Approval(Frozen):
    """One line of a list of approvals."""

    approval_id: str
    tool: str | None
    status: str
    """The status it ended with, or the phase it is in."""
    requester: str | None
    thread_id: str | None
    risk: str | None
    requested_at: datetime
    closed_at: datetime | None


class Assent:
    """The door for agents: `gate = await Assent.connect()`."""

    def __init__(self, client: Client, *, texts: Mapping[Status, str] | None = None) -> None:
        self._client = client
        self._texts = texts or {}

    @classmethod
    async def connect(cls, *, client: Client | None = None, texts: Mapping[Status, str] | None = None) -> Assent:
        """Connect as Temporal's own environment configuration says, or through a client you have.

        texts: sentences for the model, by status, instead of the neutral ones.
        """
        return cls(client or await connect_temporal(), texts=texts)

    async def request(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        requester: Identity,
        approval_id: str | None = None,
        tool_call_id: str | None = None,
        thread_id: str | None = None,
        when_pending: WhenPending | str = WhenPending.ALLOW,
        message_id: str | None = None,
        event_id: str | None = None,
        idempotency_scope: str | None = None,
        ttl: timedelta = DEFAULT_TTL,
        reason: str | None = None,
        surface: Surface = Surface.CLIENT,
    ) -> ApprovalHandle:
        """Ask a person to let a tool call run. Repeating a request under its id attaches to it."""
        request = _parse_request(
            approval_id=approval_id if approval_id is not None else str(uuid.uuid4()),
            tool=tool,
            arguments=arguments,
            requester=requester,
            tool_call_id=tool_call_id,
            thread_id=thread_id,
            when_pending=when_pending,
            message_id=message_id,
            event_id=event_id,
            idempotency_scope=idempotency_scope,
            ttl=ttl,
            reason=reason,
            surface=surface,
        )
        handle = self.approval(request.approval_id)
        started = await self._start(request)
        in_doubt = approval_id is not None or (thread_id is not None and request.when_pending is not WhenPending.ALLOW)
        if started and in_doubt:
            await handle._prepared()
        return handle

    async def call(self, tool: str, arguments: dict[str, Any], **asked: Any) -> Outcome:
        """Ask and wait: `request(…)` and `outcome()` in one."""
        handle = await self.request(tool, arguments, **asked)
        return await handle.outcome()

    def approval(self, approval_id: str) -> ApprovalHandle:
        """Attach to an approval that was asked for before."""
        return ApprovalHandle(self._client, approval_id, self._texts)

    async def approvals(self, *, status: str | None = None, limit: int = 100) -> AsyncIterator[Approval]:
        """The approvals that Temporal still knows, open ones first, then the newest; by status or phase."""
        known = {*Status, *Phase}
        if status is not None and status not in known:
            raise InvalidRequest(f"{status!r} is no status; known are {', '.join(sorted(known))}")
        query = f'WorkflowType = "{names.APPROVAL}" AND ExecutionStatus != "ContinuedAsNew"'
        if status is not None:
            query += f' AND {names.STATUS.name} = "{status}" AND ExecutionStatus IN ("Running", "Completed")'
        try:
            async for found in self._client.list_workflows(query, limit=limit):
                attributes = found.typed_search_attributes
                yield Approval(
                    approval_id=found.id.removeprefix("approval/"),
                    tool=attributes.get(names.TOOL),
                    status=_listed_status(found),
                    requester=attributes.get(names.REQUESTER),
                    thread_id=attributes.get(names.THREAD),
                    risk=attributes.get(names.RISK),
                    requested_at=found.start_time,
                    closed_at=found.close_time,
                )
        except RPCError as error:
            raise _unavailable(error) from error

    async def _start(self, request: Request) -> bool:
        """Start the approval, or see that the same request started it before. Tells which."""
        digest = request.sha256
        attributes = {names.STATUS: Phase.PREPARING, names.TOOL: request.tool, names.REQUESTER: str(request.requester)}
        if request.thread_id is not None:
            attributes[names.THREAD] = request.thread_id
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        while True:
            try:
                await self._client.start_workflow(
                    names.APPROVAL,
                    Asked(request=request),
                    id=names.approval_workflow(request.approval_id),
                    task_queue=names.APPROVALS_QUEUE,
                    id_reuse_policy=reuse,
                    memo={names.REQUEST_HASH_MEMO: digest},
                    search_attributes=names.attributes(attributes),
                    static_summary=f"{request.tool} for {request.requester}"[:190],
                )
                return True
            except WorkflowAlreadyStartedError:
                if await self._attaches(request.approval_id, digest):
                    return False
                # That run was refused before it became an approval: the id is still free.
                reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
            except RPCError as error:
                raise _unavailable(error) from error

    async def _attaches(self, approval_id: str, digest: str) -> bool:
        try:
            described = await self._client.get_workflow_handle(names.approval_workflow(approval_id)).describe()
        except RPCError as error:
            raise _unavailable(error) from error
        if described.status is WorkflowExecutionStatus.FAILED:
            return False
        if await described.memo_value(names.REQUEST_HASH_MEMO, "", type_hint=str) != digest:
            raise ApprovalConflict(approval_id)
        return True


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
                    raise _unavailable(error) from error
            await asyncio.sleep(1)

    async def state(self) -> State:
        """The approval as it stands. One that was just asked for is given a moment to be prepared."""
        try:
            return await self._prepared_state()
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
            raise _invalid(error) from None
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
            raise _invalid(error) from None
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

    async def _prepared(self) -> None:
        """Wait until the request was taken or refused; without a worker nobody can tell yet, and that is fine."""
        try:
            state = await self._prepared_state()
        except (Unavailable, ApprovalNotFound):
            return
        if state.phase is Phase.CLOSED and state.status is None:
            await self.outcome()  # says why it was refused

    async def _prepared_state(self) -> State:
        give_up = asyncio.get_running_loop().time() + _PREPARED_WITHIN.total_seconds()
        while True:
            try:
                state = await self._ask(names.STATE, None, State, _PREPARED_WITHIN)
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
            workflow_execution=WorkflowExecutionName(workflow_id=self._workflow.id),
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
            raise _unavailable(error) from error
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
            raise _unavailable(error) from error
        except WorkflowQueryRejectedError as error:
            raise ApprovalInterrupted(self.id, _ended_as(error.status)) from error
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
            raise _unavailable(error) from error
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
            raise _unavailable(failure) from failure
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


def _let_temporal_rest() -> None:
    """A moment for Temporal's native threads before the interpreter goes: without it short scripts can crash."""
    time.sleep(0.1)


def _ended_as(status: WorkflowExecutionStatus | None) -> str:
    return status.name.lower() if status else "ended"


def _listed_status(found: WorkflowExecution) -> str:
    """What a list says: the approval's own word, unless its workflow was ended from outside before it had one."""
    orderly = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
    if found.status in orderly:
        return found.typed_search_attributes.get(names.STATUS) or "unknown"
    return "refused" if found.status is WorkflowExecutionStatus.FAILED else _ended_as(found.status)


async def connect_temporal() -> Client:
    """A Temporal client as its own environment configuration says, with the converter that our models need."""
    atexit.unregister(_let_temporal_rest)
    atexit.register(_let_temporal_rest)
    try:
        config = ClientConfig.load_client_connect_config()
        config.setdefault("target_host", "localhost:7233")
    except (RuntimeError, ValueError, OSError) as error:
        raise InvalidRequest(f"Temporal's connection settings cannot be used: {error}") from error
    try:
        return await Client.connect(**config, data_converter=pydantic_data_converter)
    except (RPCError, RuntimeError) as error:
        raise Unavailable(
            f"Temporal does not answer at {config['target_host']}; start it, or set TEMPORAL_ADDRESS."
        ) from error
    except ValueError as error:
        raise InvalidRequest(f"Temporal's connection settings cannot be used: {error}") from error


def _parse_request(**fields: Any) -> Request:
    """Refuse, before anything starts, what could not be shown, hashed or carried."""
    if not isinstance(fields["requester"], Identity):
        raise InvalidRequest("requester: say on whose behalf the agent asks, as an Identity")
    if not isinstance(fields["arguments"], dict):
        raise InvalidRequest("arguments: they must be a JSON object")
    canonical_payload(str(fields["tool"]), fields["arguments"])
    try:
        request = Request.model_validate(fields)
        request.sha256  # noqa: B018 - refuses what cannot be hashed
        return request
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValueError) -> InvalidRequest:
    if isinstance(error, ValidationError):
        return InvalidRequest("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()))
    return InvalidRequest(str(error))


def _unavailable(error: RPCError) -> Unavailable:
    if error.status in _NO_SERVER:
        return Unavailable("Temporal or its workers did not answer in time; what was sent before is not lost.")
    return Unavailable(f"Temporal refused: {error.message}")
