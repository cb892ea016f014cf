"""Finding calls that were begun and whose approval never came back for them, and opening their reviews."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.contracts import Plan
from assent.messages import Closing, FrozenCall, ReportKind, ToolCall
from assent.settings import Settings
from ledger import Ledger, Orphan

_log = logging.getLogger(__name__)


async def keep_sweeping(client: Client, ledger: Ledger, settings: Settings) -> None:
    """Sweep now and then, until cancelled. Any number may do so at once."""
    while True:
        try:
            await sweep(client, ledger)
            await ledger.seal()
        except Exception as error:
            _log.warning("sweeping failed and is tried again: %s: %s", type(error).__name__, error)
        await asyncio.sleep(settings.sweep_every.total_seconds())


async def sweep(client: Client, ledger: Ledger) -> int:
    """Open a review for every claim that nobody will come back for; tells how many there were."""
    opened = 0
    for orphan in await ledger.orphans(client.namespace):
        if await _is_running(client, names.approval_workflow(orphan.plan.approval_id)):
            continue
        running = await _is_running(client, names.review_workflow(orphan.idempotency_key))
        if orphan.is_given_up and running:
            continue
        if await _is_unknown(ledger, orphan):
            why = "the approval was ended from outside while the call ran"
            await _open_review(client, orphan.plan, orphan.idempotency_key, why)
            _log.warning("approval %s was ended while its call ran; its review is open", orphan.plan.approval_id)
            opened += 1
    for known in await ledger.untold(client.namespace):
        why = "the review was ended before everybody was told what was settled"
        await _open_review(client, known.plan, known.idempotency_key, why)
    return opened


async def _is_running(client: Client, workflow_id: str) -> bool:
    try:
        described = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.status is WorkflowExecutionStatus.RUNNING


async def _open_review(client: Client, plan: Plan, key: str, why: str) -> None:
    """Open the review of a call, or let the one that is open look again."""
    now, call = datetime.now(UTC), ToolCall.of(plan).model_copy(update={"idempotency_key": key})
    await client.start_workflow(
        names.FROZEN_REVIEW,
        FrozenCall.of(plan, call, decided_by=None, error=why, frozen_at=now),
        id=names.review_workflow(key),
        task_queue=names.APPROVALS_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=names.review_attributes(plan.tool, str(plan.requester), plan.risk),
        memo={names.APPROVAL_MEMO: plan.approval_id, names.FROZEN_AT_MEMO: now.isoformat()},
        static_summary=names.review_summary(plan.tool),
        start_signal=names.JOIN,
    )


async def _is_unknown(ledger: Ledger, orphan: Orphan) -> bool:
    """Put on record that nobody knows how the call ended; False where that is known after all."""
    plan = orphan.plan
    report = await ledger.close(
        Closing(
            approval_id=plan.approval_id,
            consent=orphan.consent,
            idempotency_key=orphan.idempotency_key,
            payload_sha256=plan.payload_sha256,
            now=datetime.now(UTC),
            reason="the approval was ended from outside while the call ran",
        )
    )
    return report.kind is ReportKind.UNKNOWN
