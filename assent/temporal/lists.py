"""The approvals that Temporal still knows, as its visibility lists them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError

from assent import names
from assent.client.door import Approval
from assent.temporal import search
from assent.temporal.connection import ended_as, unavailable


async def listed_approvals(
    client: Client, *, status: str | None, thread_id: str | None, limit: int, requesters: Collection[str]
) -> AsyncIterator[Approval]:
    """Open ones first, then the newest. *requesters* narrows the search where they are plain names."""
    query = f'WorkflowType = "{names.APPROVAL}" AND ExecutionStatus != "ContinuedAsNew"'
    if status is not None:
        query += f' AND {search.STATUS.name} = "{status}" AND ExecutionStatus IN ("Running", "Completed")'
    query += search.in_thread(thread_id) + search.of_requesters(requesters)
    try:
        async for found in client.list_workflows(query, limit=limit if thread_id is None else None):
            if search.is_in_thread(found.typed_search_attributes.get(search.THREAD), thread_id):
                yield _listed(found)
                limit -= 1
            if not limit:
                return
    except RPCError as error:
        raise unavailable(error) from error


async def ids_beginning(client: Client, beginning: str, *, limit: int) -> list[str]:
    """The approvals whose ids begin so, as far as Temporal still knows them."""
    if '"' in beginning or "\\" in beginning:
        return []
    query = f'WorkflowType = "{names.APPROVAL}" AND WorkflowId STARTS_WITH "approval/{beginning}"'
    try:
        found = [each.id.removeprefix("approval/") async for each in client.list_workflows(query, limit=limit)]
    except RPCError as error:
        raise unavailable(error) from error
    return [*dict.fromkeys(found)]


def _listed(found: WorkflowExecution) -> Approval:
    attributes = found.typed_search_attributes
    return Approval(
        approval_id=found.id.removeprefix("approval/"),
        tool=attributes.get(search.TOOL),
        status=_listed_status(found),
        requester=attributes.get(search.REQUESTER),
        thread_id=attributes.get(search.THREAD),
        risk=attributes.get(search.RISK),
        requested_at=found.start_time,
        closed_at=found.close_time,
    )


def _listed_status(found: WorkflowExecution) -> str:
    """What a list says: the approval's own word, unless its workflow was ended from outside before it had one."""
    orderly = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)
    if found.status in orderly:
        return found.typed_search_attributes.get(search.STATUS) or "unknown"
    return "refused" if found.status is WorkflowExecutionStatus.FAILED else ended_as(found.status)
