"""The approvals that Temporal still knows, as its visibility lists them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError

from assent import names
from assent.client.door import Approval
from assent.temporal import search
from assent.temporal.connection import ended_as, unavailable


async def listed_approvals(
    client: Client, *, status: str | None, limit: int, requesters: Collection[str]
) -> AsyncIterator[Approval]:
    """Open ones first, then the newest. *requesters* narrows the search where they are plain names."""
    query = f'WorkflowType = "{names.APPROVAL}" AND ExecutionStatus != "ContinuedAsNew"'
    if status is not None:
        query += f' AND {search.STATUS.name} = "{status}" AND ExecutionStatus IN ("Running", "Completed")'
    if requesters and all(re.fullmatch(r"[A-Za-z0-9_:.-]{1,200}", each) for each in requesters):
        wanted = ", ".join(f'"{each}"' for each in sorted(requesters))
        query += f" AND {search.REQUESTER.name} IN ({wanted})"
    try:
        async for found in client.list_workflows(query, limit=limit):
            yield _listed(found)
    except RPCError as error:
        raise unavailable(error) from error


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
