"""Asking for calls: the client that talks to Temporal."""

from __future__ import annotations

import atexit
import functools
import logging
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError

from assent import names
from assent.contracts import (
    DEFAULT_TTL,
    Frozen,
    Identity,
    Outcome,
    Phase,
    Request,
    Status,
    Surface,
    WhenPending,
)
from assent.errors import (
    ApprovalConflict,
    InvalidRequest,
    Unavailable,
)
from assent.handle import ApprovalHandle, ended_as, invalid, unavailable
from assent.messages import Asked
from assent.payload import canonical_payload


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
            await handle.prepared()
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
            raise unavailable(error) from error

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
                raise unavailable(error) from error

    async def _attaches(self, approval_id: str, digest: str) -> bool:
        try:
            described = await self._client.get_workflow_handle(names.approval_workflow(approval_id)).describe()
        except RPCError as error:
            raise unavailable(error) from error
        if described.status is WorkflowExecutionStatus.FAILED:
            return False
        if await described.memo_value(names.REQUEST_HASH_MEMO, "", type_hint=str) != digest:
            raise ApprovalConflict(approval_id)
        return True


def _let_temporal_rest() -> None:
    """A moment for Temporal's native threads before the interpreter goes: without it short scripts can crash."""
    time.sleep(0.1)


def _listed_status(found: WorkflowExecution) -> str:
    """What a list says: the approval's own word, unless its workflow was ended from outside before it had one."""
    orderly = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
    if found.status in orderly:
        return found.typed_search_attributes.get(names.STATUS) or "unknown"
    return "refused" if found.status is WorkflowExecutionStatus.FAILED else ended_as(found.status)


@functools.cache
def _runtime() -> Runtime:
    """Temporal's native part, whose warnings go where Python's go; by itself it writes them to standard output."""
    logger = logging.getLogger("temporalio.core")
    logger.addHandler(logging.NullHandler())  # a program that sets up no logging hears none of it
    forwarding = LogForwardingConfig(logger=logger)
    warnings = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=warnings, forwarding=forwarding)))


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
        return await Client.connect(**config, data_converter=pydantic_data_converter, runtime=_runtime())
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
        raise invalid(error) from None
