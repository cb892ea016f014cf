"""Finding calls that were begun and whose approval never came back for them, and opening their reviews."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.messages import Closing, FrozenCall, ReportKind, ToolCall
from assent.settings import Settings
from ledger import Ledger, Orphan

_log = logging.getLogger(__name__)


async def keep_sweeping(client: Client, ledger: Ledger, settings: Settings) -> None:
    """Sweep now and then, until cancelled. Any number may do so at once."""
    while True:
        try:
            await sweep(client, ledger)
        except Exception as error:
            _log.warning("sweeping failed and is tried again: %s: %s", type(error).__name__, error)
        await asyncio.sleep(settings.sweep_every.total_seconds())


async def sweep(client: Client, ledger: Ledger) -> int:
    """Open a review for every claim that nobody will come back for; tells how many there were."""
    opened = 0
    for orphan in await ledger.orphans(datetime.now(UTC)):
        if await _is_running(client, names.approval_workflow(orphan.plan.approval_id)):
            continue
        review = names.review_workflow(orphan.plan.idempotency_key)
        if not await _is_running(client, review):
            opened += await _open_review(client, ledger, orphan)
        elif not orphan.is_given_up:
            opened += await _join_review(client, ledger, orphan)
    return opened


async def _is_running(client: Client, workflow_id: str) -> bool:
    try:
        described = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.status is WorkflowExecutionStatus.RUNNING


async def _open_review(client: Client, ledger: Ledger, orphan: Orphan) -> bool:
    frozen = await _given_up(ledger, orphan)
    if frozen is None:
        return False
    plan = orphan.plan
    await client.start_workflow(
        names.FROZEN_REVIEW,
        frozen,
        id=names.review_workflow(plan.idempotency_key),
        task_queue=names.APPROVALS_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=names.review_attributes(plan.tool, str(plan.requester), plan.risk),
        memo={names.APPROVAL_MEMO: plan.approval_id, names.FROZEN_AT_MEMO: frozen.frozen_at.isoformat()},
        static_summary=names.review_summary(plan.tool),
    )
    _log.warning("approval %s was ended while its call ran; its review is open", plan.approval_id)
    return True


async def _join_review(client: Client, ledger: Ledger, orphan: Orphan) -> bool:
    """An approval that met the call opened its review: it cannot be settled while the claim says that it runs."""
    frozen = await _given_up(ledger, orphan)
    if frozen is None:
        return False
    await client.get_workflow_handle(names.review_workflow(orphan.plan.idempotency_key)).signal(names.JOIN, frozen)
    _log.warning("approval %s was ended while its call ran; it joined the open review", orphan.plan.approval_id)
    return True


async def _given_up(ledger: Ledger, orphan: Orphan) -> FrozenCall | None:
    """Put on record that nobody knows how the call ended; None where that is known after all."""
    plan, now = orphan.plan, datetime.now(UTC)
    reason = "the approval was ended from outside while the call ran"
    report = await ledger.close(
        Closing(
            approval_id=plan.approval_id,
            consent=orphan.consent,
            idempotency_key=plan.idempotency_key,
            payload_sha256=plan.payload_sha256,
            now=now,
            reason=reason,
        )
    )
    if report.kind is not ReportKind.UNKNOWN:
        return None
    call = ToolCall.of(plan, consent=orphan.consent)
    return FrozenCall.of(plan, call, decided_by=None, error=reason, frozen_at=now)
