"""Our service behind the face of an approval engine: the caller brings its tools, its cards and its people."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal
from weakref import WeakValueDictionary

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.worker import Worker

from activities.tools import OWN_PACE, ToolActivities
from assent import strict_json
from assent.client.handle import ApprovalHandle
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Decision, DecisionKind, VerdictKind
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
from assent.payload import CALLERS_SCOPE
from assent.temporal.door import TemporalDoor
from assent.tools.definition import Registry, Tool, ToolContext, ToolOutcome, ToolResult
from ledger import Ledger, Reader

_log = logging.getLogger(__name__)

SENTENCES: Mapping[str, str] = {
    EngineStatus.REJECTED: "The call was rejected. It did not run.",
    EngineStatus.TAMPERED: "What was decided is not what was asked for. Nothing was changed.",
    EngineStatus.ALREADY_DECIDED: "This was decided before. Nothing was changed.",
    EngineStatus.SUPERSEDED: "A newer request took its place. The call did not run.",
    EngineStatus.FROZEN: "Nobody knows whether the call took effect. Do not repeat it: a person is finding out.",
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
_MIRRORED_WITHIN = 10.0
"""How many seconds a mirror has: what it is told has happened, and whoever decided waits."""
_REFUSED = {
    VerdictKind.TAMPERED: EngineStatus.TAMPERED,
    VerdictKind.ALREADY_DECIDED: EngineStatus.ALREADY_DECIDED,
    VerdictKind.SUPERSEDED: EngineStatus.SUPERSEDED,
    VerdictKind.EXPIRED: EngineStatus.EXPIRED,
    VerdictKind.MISSING: EngineStatus.MISSING,
    VerdictKind.FORBIDDEN: EngineStatus.FORBIDDEN,
    VerdictKind.INVALID: EngineStatus.FAILED,
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
        handle, approval = self._handle(approval_id), self._pending.get(approval_id)
        try:
            state = await handle.state()
            if state.phase not in (Phase.PREPARING, Phase.PENDING) or await self._foreign(state):
                return
            approval = approval or await self._asked(state)
        except ApprovalNotFound:
            return
        except Unavailable:
            pass  # nobody says how it stands: that it is withdrawn is kept until somebody can
        await handle.cancel("withdrawn", actor=self._actor)
        self._pending.pop(approval_id, None)
        self._tell("cancel", approval_id, approval)

    async def on_decision(
        self,
        approval_id: str,
        decision: Literal["approve", "reject"],
        *,
        expected_payload_sha256: str | None = None,
        dispatch: Dispatch,
    ) -> EngineOutcome:
        """Hand over what a person decided. An approval waits for its outcome; a decision made again gets the same."""
        if decision not in ("approve", "reject"):
            raise InvalidRequest("decision: approve or reject")
        handle = self._handle(approval_id)
        try:
            state = await handle.state()
        except ApprovalNotFound:
            return self._refused(approval_id, EngineStatus.MISSING)
        if state.phase is Phase.PREPARING:
            raise Unavailable("no approvals worker has looked at the request yet; it is kept: decide again in a while")
        if await self._foreign(state):
            return self._refused(approval_id, EngineStatus.MISSING)
        seen = state.payload_sha256 if expected_payload_sha256 is None else expected_payload_sha256
        try:
            made = self._decision(state, DecisionKind(decision), seen)
        except ValidationError:  # what is no hash is not ours
            return self._refused(approval_id, EngineStatus.TAMPERED)
        verdict = await handle.submit(made)
        while verdict.kind is VerdictKind.RECEIVED:  # whose call is made depends on it, so nothing is made before
            verdict = await handle.submit(made)
        if (refused := _REFUSED.get(verdict.kind)) is not None:
            return self._refused(approval_id, refused, verdict.reason)
        approval = await self._asked(state)
        if state.phase is not Phase.CLOSED:
            self._tell("confirm", approval_id, approval, event_id=made.event_id)
        run = _Run(dispatch, approval)
        outcome = await self._outcome(made, approval, run)
        told = self._told(outcome, await handle.content() if outcome.truncated else outcome.content, run)
        await self._mirror(approval, outcome, told, is_known=state.phase is Phase.CLOSED)
        self._pending.pop(approval_id, None)
        return told

    # A decision

    def _decision(self, state: State, kind: DecisionKind, seen: str | None) -> Decision:
        """The same decision is the same event, whichever process makes it, and gets the same verdict."""
        actor = self._actor or state.requester
        named = f"{state.approval_id}\n{kind}\n{seen}\n{actor}"
        queue = f"{_QUEUE}/{hashlib.sha256(state.approval_id.encode()).hexdigest()}"
        event = hashlib.sha256(named.encode()).hexdigest()
        return Decision(
            approval_id=state.approval_id,
            kind=kind,
            payload_sha256=seen,
            actor=actor,
            event_id=f"engine:{event}",
            delivery_id=event,
            received_at=datetime.now(UTC),
            surface=Surface.CLIENT,
            dispatch_queue=queue if kind is DecisionKind.APPROVE else None,
        )

    async def _outcome(self, made: Decision, approval: PendingApproval, run: _Run) -> Outcome:
        """How it ends. Of a decision that stands, the call is made here meanwhile; of any other it never is."""
        if made.dispatch_queue is None:
            return await self._door.outcome(approval.approval_id)
        async with _alone(made.dispatch_queue), self._serving(made.dispatch_queue, approval.tool_name, run):
            return await self._door.outcome(approval.approval_id)

    async def _foreign(self, state: State) -> bool:
        """Whether it was not asked for through an engine: then tools of the service make its call."""
        plan = await self._ledger.plan(state.approval_id)
        return plan is not None and plan.queue != _QUEUE

    async def _asked(self, state: State) -> PendingApproval:
        """What was asked for, whichever process it was told to."""
        if (known := self._pending.get(state.approval_id)) is not None:
            return known
        plan, entries = await self._ledger.plan(state.approval_id), await self._ledger.entries(state.approval_id)
        proposal = entries[0] if entries else None
        return PendingApproval(
            approval_id=state.approval_id,
            tool_name=state.tool,
            arguments=state.arguments or {},
            payload_sha256=state.payload_sha256,
            idempotency_key=_callers_key(plan.scope_key, plan.payload_sha256, self._namespace) if plan else None,
            created_message_id=proposal.proposal_message_id if proposal else None,
            created_event_id=proposal.proposal_event_id if proposal else None,
            requester=state.requester,
        )

    def _told(self, outcome: Outcome, content: Any, run: _Run) -> EngineOutcome:
        status = EngineStatus(outcome.status.value)
        if status is EngineStatus.EXECUTED and not run.has_begun:
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
        try:
            own = said(status.value) if callable(said) else said.get(status.value) if said is not None else None
        except Exception as error:
            _log.warning("the caller has no words for %s: %s", status, type(error).__name__)
            own = None
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
            max_heartbeat_throttle_interval=OWN_PACE,
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

    async def _mirror(
        self, approval: PendingApproval, outcome: Outcome, told: EngineOutcome, *, is_known: bool
    ) -> None:
        """Tell the mirrors how it ended. is_known: it had ended before, and whoever saw that told them."""
        if (event := _EVENTS.get(told.status)) is not None:
            is_ok = told.status in (EngineStatus.EXECUTED, EngineStatus.REPLAYED)
            self._tell(event, approval.approval_id, approval, error=None if is_ok else told.reason or told.status.value)
        has_run = outcome.status is Status.EXECUTED and not is_known
        if self._executions is None or not has_run or outcome.idempotency_key is None:
            return
        try:
            written = self._executions.put(
                outcome.idempotency_key,
                execution_status=outcome.status.value,
                result=told.content,
                alias_lookup_keys=(approval.idempotency_key,) if approval.idempotency_key else (),
                payload_sha256=outcome.payload_sha256,
            )
            if inspect.isawaitable(written):
                async with asyncio.timeout(_MIRRORED_WITHIN):
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
        shown = self._approval.model_copy(update={"arguments": arguments})  # others may have changed theirs since
        given = {2: (shown.tool_name, arguments), 1: (shown,), 0: ()}
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


_ALONE: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def _alone(queue: str) -> AsyncIterator[None]:
    """Serve a queue once at a time: a person who clicks twice has two decisions, and Temporal knows one worker."""
    lock = _ALONE.setdefault((id(asyncio.get_running_loop()), queue), asyncio.Lock())
    async with lock:
        yield


def _callers_key(scope_key: str, payload_sha256: str, namespace: str) -> str | None:
    """The key that the caller gave, if it gave one."""
    scope = scope_key.removesuffix(f":{payload_sha256}").removeprefix(f"{namespace}:")
    given = scope.removeprefix(CALLERS_SCOPE)
    return given if given != scope else None
