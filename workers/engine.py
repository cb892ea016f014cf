"""Our service behind the face of an approval engine: the caller brings its tools, its cards and its people."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from temporalio.client import Client
from temporalio.worker import Worker

from activities.tools import ToolActivities
from assent import strict_json
from assent.client.handle import ApprovalHandle
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Decision, DecisionKind, Verdict, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.outcome import Outcome
from assent.contracts.request import OwnDispatch, Request
from assent.contracts.state import State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Surface
from assent.engine import (
    AuditMirror,
    Dispatch,
    EngineOutcome,
    EngineStatus,
    ExecutionMirror,
    NotStarted,
    PendingApproval,
    payload_sha256,
)
from assent.errors import ApprovalNotFound, InvalidRequest, Unavailable
from assent.files import SharedFile
from assent.temporal.door import TemporalDoor
from assent.tools.definition import Registry, Tool, ToolContext, ToolOutcome, ToolResult
from ledger import Ledger, Reader

_log = logging.getLogger(__name__)

SENTENCES: Mapping[str, str] = {
    EngineStatus.REJECTED: "The call was rejected. It did not run.",
    EngineStatus.TAMPERED: "What was decided is not what was asked for. Nothing was changed.",
    EngineStatus.ALREADY_DECIDED: "This was decided before. Nothing was changed.",
    EngineStatus.SUPERSEDED: "A newer request took its place. The call did not run.",
    EngineStatus.FROZEN: "Whether the call took effect is not known. Do not repeat it: a person is finding out.",
    EngineStatus.EXPIRED: "Nobody decided in time. The call did not run.",
    EngineStatus.MISSING: "There is no such request. Nothing was changed.",
    EngineStatus.FAILED: "The call failed.",
    EngineStatus.CANCELLED: "The request was withdrawn. The call did not run.",
    EngineStatus.FORBIDDEN: "This is not theirs to decide. Nothing was changed.",
}
"""What is said of each status where `outcome_status` says nothing."""

OutcomeStatus = Mapping[str, str] | Callable[[str], str | None]
_QUEUE = "assent-engine"
"""The queue of calls whose caller makes them; nobody serves it."""
_REFUSED = {
    VerdictKind.TAMPERED: EngineStatus.TAMPERED,
    VerdictKind.ALREADY_DECIDED: EngineStatus.ALREADY_DECIDED,
    VerdictKind.SUPERSEDED: EngineStatus.SUPERSEDED,
    VerdictKind.EXPIRED: EngineStatus.EXPIRED,
    VerdictKind.MISSING: EngineStatus.MISSING,
    VerdictKind.FORBIDDEN: EngineStatus.FORBIDDEN,
}
_EVENTS = {
    EngineStatus.EXECUTED: "execute",
    EngineStatus.REPLAYED: "replay",
    EngineStatus.FAILED: "execute_failed",
    EngineStatus.FROZEN: "execute_unknown",
}


class TemporalApprovalEngine:
    """`assent.engine.ApprovalEngine` on Temporal and the ledger.

    The caller's own `dispatch` runs in the caller's process, under the ledger's claim: killed before it, the same
    decision made again runs it; killed within it, it is frozen; killed after it, its result is replayed.

    ledger: what the call is claimed in; its role must be able to do what a tools worker does.
    actor: who decides; the requester, if nobody is named.
    executions, audit: mirrors, which are told what happened and never asked. What they raise is logged.
    outcome_status: what is said of a status to the model, by its name; neutral English where it is silent.
    idempotency_namespace: what keeps this product's calls apart from those of others.
    timeout: how long a dispatch may take before its end counts as unknown.
    ttl: how long a person has to decide.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        *,
        actor: Identity | None = None,
        executions: ExecutionMirror | None = None,
        audit: AuditMirror | None = None,
        outcome_status: OutcomeStatus | None = None,
        idempotency_namespace: str = "feishu",
        timeout: timedelta = timedelta(minutes=10),
        ttl: timedelta = timedelta(days=7),
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._door = TemporalDoor(client, Reader(ledger))
        self._actor = actor
        self._executions = executions
        self._audit = audit
        self._outcome_status = outcome_status
        self._namespace = idempotency_namespace
        self._timeout, self._ttl = timeout, ttl
        self._pending: dict[str, PendingApproval] = {}

    async def on_request(self, approval: PendingApproval) -> None:
        """Have the call decided; the service sends no card for it. Raises InvalidRequest for another hash than ours."""
        ours = payload_sha256(approval.tool_name, approval.arguments)
        if approval.payload_sha256 not in (None, ours):
            raise InvalidRequest(
                "payload_sha256: it is not the hash of this tool and these arguments; assent.engine.payload_sha256 "
                "computes it"
            )
        request = Request(
            approval_id=approval.approval_id,
            tool=approval.tool_name,
            arguments=approval.arguments,
            requester=approval.requester,
            message_id=approval.created_message_id,
            event_id=approval.created_event_id,
            idempotency_scope=approval.idempotency_key,
            ttl=self._ttl,
            dispatch=OwnDispatch(manifest=self._manifest(approval.tool_name), namespace=self._namespace),
        )
        is_new = await self._door.request(request, in_doubt=True)
        self._pending[approval.approval_id] = approval
        if is_new:
            self._tell("write_request", approval.approval_id, approval)

    async def on_cancel(self, approval_id: str) -> None:
        """Withdraw the request; of what does not exist, or is decided, nothing changes."""
        await self._handle(approval_id).cancel("withdrawn", actor=self._actor)
        self._tell("cancel", approval_id, self._pending.pop(approval_id, None))

    async def on_decision(
        self,
        approval_id: str,
        decision: Literal["approve", "reject"],
        *,
        expected_payload_sha256: str | None = None,
        dispatch: Dispatch,
    ) -> EngineOutcome:
        """Hand over what a person decided. An approval waits for its outcome; a decision made again gets the same."""
        kind = DecisionKind(decision)
        if kind not in (DecisionKind.APPROVE, DecisionKind.REJECT):
            raise InvalidRequest("decision: approve or reject")
        try:
            state = await self._handle(approval_id).state()
        except ApprovalNotFound:
            return self._refused(approval_id, EngineStatus.MISSING)
        if state.phase is Phase.PREPARING:
            raise Unavailable("no approvals worker has looked at the request yet; it is kept: decide again in a while")
        approval = self._pending.get(approval_id) or _pending(state)
        made = self._decision(state, kind, expected_payload_sha256 or state.payload_sha256)
        if kind is DecisionKind.REJECT or state.phase is Phase.CLOSED:
            return await self._decided(approval, made, None)
        run = _Run(dispatch, approval)
        async with self._serving(made.dispatch_queue or _QUEUE, approval.tool_name, run):
            return await self._decided(approval, made, run)

    # A decision

    def _decision(self, state: State, kind: DecisionKind, seen: str | None) -> Decision:
        """The same decision is the same event, whichever process makes it."""
        actor = self._actor or state.requester
        named = f"{state.approval_id}\n{kind}\n{seen}\n{actor}"
        queue = f"{_QUEUE}/{hashlib.sha256(state.approval_id.encode()).hexdigest()}"
        return Decision(
            approval_id=state.approval_id,
            kind=kind,
            payload_sha256=seen,
            actor=actor,
            event_id=f"engine:{hashlib.sha256(named.encode()).hexdigest()}",
            delivery_id=uuid4().hex,
            received_at=datetime.now(UTC),
            surface=Surface.CLIENT,
            dispatch_queue=queue if kind is DecisionKind.APPROVE else None,
        )

    async def _decided(self, approval: PendingApproval, made: Decision, run: _Run | None) -> EngineOutcome:
        handle = self._handle(approval.approval_id)
        verdict = await handle.submit(made)
        if (refused := self._refusal(verdict, made)) is not None:
            return self._refused(approval.approval_id, refused, verdict.reason)
        if verdict.kind is VerdictKind.ACCEPTED:
            self._tell("confirm", approval.approval_id, approval, event_id=made.event_id)
        outcome = await self._door.outcome(approval.approval_id)
        told = self._told(outcome, await handle.content() if outcome.truncated else outcome.content, run)
        await self._mirror(approval, outcome, told)
        self._pending.pop(approval.approval_id, None)
        return told

    def _refusal(self, verdict: Verdict, made: Decision) -> EngineStatus | None:
        """Why the decision changed nothing, if it did not."""
        if verdict.kind is VerdictKind.INVALID:
            return EngineStatus.FAILED
        return _REFUSED.get(verdict.kind)

    def _told(self, outcome: Outcome, content: Any, run: _Run | None) -> EngineOutcome:
        status = EngineStatus(outcome.status.value)
        if status is EngineStatus.EXECUTED and (run is None or not run.has_begun):
            status = EngineStatus.REPLAYED
        is_error = status not in (EngineStatus.EXECUTED, EngineStatus.REPLAYED)
        is_own = outcome.status is Status.FAILED and content is not None
        sentence = self._sentence(status) if is_error and not is_own else None
        return EngineOutcome(
            approval_id=outcome.approval_id,
            status=status,
            content=sentence if sentence is not None else content,
            is_error=is_error,
            authorize_url=outcome.authorize_url,
            reason=outcome.reason,
        )

    def _refused(self, approval_id: str, status: EngineStatus, reason: str | None = None) -> EngineOutcome:
        content = self._sentence(status)
        return EngineOutcome(approval_id=approval_id, status=status, content=content, is_error=True, reason=reason)

    def _sentence(self, status: EngineStatus) -> str:
        said = self._outcome_status
        own = said(status.value) if callable(said) else said.get(status.value) if said is not None else None
        return own if own is not None else SENTENCES[status]

    # The caller's own process

    @asynccontextmanager
    async def _serving(self, queue: str, tool: str, run: _Run) -> AsyncIterator[None]:
        """Make the call here, as long as its decision is waited for."""
        registry = Registry()
        registry.add(_OwnTool(self._manifest(tool), run))
        own = ToolActivities(self._ledger, registry)
        worker = Worker(
            self._client,
            task_queue=queue,
            activities=[own.execute],
            max_concurrent_activities=1,
            graceful_shutdown_timeout=self._timeout,
        )
        async with worker:
            yield

    def _manifest(self, tool: str) -> Manifest:
        """What is known of a tool that only its caller knows: whatever is shown is what is run."""
        approvers = Approvers(kind=Approvers.Kind.PEOPLE, people=(self._actor,)) if self._actor else Approvers()
        return Manifest(
            name=tool,
            description="",
            queue=_QUEUE,
            parameters={"type": "object"},
            risk=Risk.MEDIUM,
            approvers=approvers,
            retry_safe=False,
            attempts=1,
            timeout=self._timeout,
            has_probe=False,
            sensitive=(),
            max_ttl=None,
        )

    def _handle(self, approval_id: str) -> ApprovalHandle:
        return ApprovalHandle(self._door, approval_id, {})

    # Mirrors

    async def _mirror(self, approval: PendingApproval, outcome: Outcome, told: EngineOutcome) -> None:
        if (event := _EVENTS.get(told.status)) is not None:
            is_ok = told.status in (EngineStatus.EXECUTED, EngineStatus.REPLAYED)
            self._tell(event, approval.approval_id, approval, error=None if is_ok else told.reason or told.status.value)
        if self._executions is None or told.status is not EngineStatus.EXECUTED or outcome.idempotency_key is None:
            return
        try:
            written = self._executions.put(
                outcome.idempotency_key,
                execution_status=told.status.value,
                result=told.content,
                alias_lookup_keys=(approval.idempotency_key,) if approval.idempotency_key else (),
                payload_sha256=outcome.payload_sha256,
            )
            if inspect.isawaitable(written):
                await written
        except Exception as error:
            _log.warning("the caller's store of executions refused %s: %s", approval.approval_id, type(error).__name__)

    def _tell(
        self,
        event: str,
        approval_id: str,
        approval: PendingApproval | None,
        *,
        event_id: str | None = None,
        error: str | None = None,
    ) -> None:
        if self._audit is None:
            return
        try:
            self._audit.append(
                event,
                key=approval.idempotency_key or approval_id if approval else approval_id,
                approval=approval,
                event_id=event_id or (approval.created_event_id if approval else None),
                message_id=approval.created_message_id if approval else None,
                outcome="ok" if error is None else "error",
                error=error,
            )
        except Exception as failure:
            _log.warning("the caller's audit refused %s of %s: %s", event, approval_id, type(failure).__name__)


class _Run:
    """The caller's dispatch of one approval, and whether it was begun here."""

    def __init__(self, dispatch: Dispatch, approval: PendingApproval) -> None:
        self._dispatch = dispatch
        self._approval = approval
        self.has_begun = False

    def __call__(self, arguments: dict[str, Any]) -> Any:
        """Make the call: in a thread, where what it returns is not to be awaited."""
        self.has_begun = True
        given = {2: (self._approval.tool_name, arguments), 1: (self._approval,), 0: ()}
        try:
            made = self._dispatch(*given[_taken(self._dispatch)])
        except NotStarted as error:
            return _not_started(error)
        return _awaited(made) if inspect.isawaitable(made) else made


async def _awaited(made: Awaitable[Any]) -> Any:
    try:
        return await made
    except NotStarted as error:
        return _not_started(error)


def _not_started(error: NotStarted) -> ToolResult:
    return ToolResult(ToolOutcome.FAILED, str(error) or None)


def _taken(dispatch: Dispatch) -> int:
    """How many of the tool's name and its arguments a dispatch takes."""
    try:
        parameters = inspect.signature(dispatch).parameters.values()
    except (TypeError, ValueError):
        return 2
    by_place = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return 2
    return min(2, sum(each.kind in by_place and each.default is each.empty for each in parameters))


class _OwnTool(Tool):
    """A tool that only its caller knows."""

    def __init__(self, manifest: Manifest, run: _Run) -> None:
        self.manifest = manifest
        self.probe = None
        self._run = run

    def parse(self, arguments: bytes, files: Mapping[str, SharedFile] | None = None) -> dict[str, Any]:
        parsed = strict_json.parse(arguments.decode())
        assert isinstance(parsed, dict), "arguments are an object"
        return parsed

    def bound(self, arguments: dict[str, Any], context: ToolContext) -> Callable[[], Any]:
        return partial(self._run, arguments)


def _pending(state: State) -> PendingApproval:
    """What a process that was not asked knows of an approval."""
    return PendingApproval(
        approval_id=state.approval_id,
        tool_name=state.tool,
        arguments=state.arguments or {},
        payload_sha256=state.payload_sha256,
        requester=state.requester,
    )
