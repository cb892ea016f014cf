"""Finding what was ended by hand in Temporal: calls that nobody came back for, and approvals that nobody ended.

And what nobody needs any more: files that have expired, and bytes that no approval keeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names, reasons
from assent.contracts.asking import QuestionRevision
from assent.contracts.bundles import Member
from assent.contracts.conclude import Announcement, Conclusion
from assent.contracts.execute import Closing, ReportKind
from assent.contracts.outcome import Outcome
from assent.contracts.review import FrozenCall
from assent.core.questions import event
from assent.settings import Settings
from assent.temporal import search
from ledger import Ledger, Open, OpenQuestion, Orphan, Untold
from workers.healing import heal

_log = logging.getLogger(__name__)
_Found = TypeVar("_Found")
_LOOKED_AT = 500
"""How many open approvals are looked at in one sweep."""
_AT_ONCE = 16
_GOES_ON = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)


async def keep_sweeping(client: Client, ledger: Ledger, settings: Settings) -> None:
    """Sweep now and then, until cancelled. Any number may do so at once."""
    looked_at: Open | None = None
    looked_at_question: OpenQuestion | None = None
    while True:
        try:
            await heal(client)
            await sweep(client, ledger)
            looked_at = await end_gone(client, ledger, looked_at)
            looked_at_question = await end_gone_questions(client, ledger, looked_at_question)
            await ledger.seal()
            await ledger.files.purge_expired()
        except Exception as error:
            _log.warning("sweeping failed and is tried again: %s: %s", type(error).__name__, error)
        await asyncio.sleep(settings.sweep_every.total_seconds())


async def sweep(client: Client, ledger: Ledger) -> int:
    """Open a review for every claim that nobody will come back for; tells how many there were."""
    opened = 0
    for orphan in await ledger.orphans(client.namespace):
        opened += bool(await _each(orphan.plan.approval_id, partial(_review, client, ledger, orphan)))
    for known in await ledger.untold(client.namespace):
        why = "the review was ended before everybody was told what was settled"
        await _each(known.plan.approval_id, partial(_open_review, client, known, why))
    return opened


async def _review(client: Client, ledger: Ledger, orphan: Orphan) -> bool:
    """Open the review of a claim, if nobody will come back for it."""
    if await _is_running(client, names.approval_workflow(orphan.plan.approval_id)):
        return False
    if orphan.is_given_up and await _is_running(client, names.review_workflow(orphan.idempotency_key)):
        return False
    if not await _is_unknown(ledger, orphan):
        return False
    await _open_review(client, orphan, "the approval was ended from outside while the call ran")
    _log.warning("approval %s was ended while its call ran; its review is open", orphan.plan.approval_id)
    return True


async def _each(approval_id: str, look: Callable[[], Awaitable[_Found]]) -> _Found | None:
    """Look at one of many: one that cannot be dealt with keeps nobody from the others, and is looked at again."""
    try:
        return await look()
    except Exception as error:
        _log.warning("sweeping %s failed and is tried again: %s: %s", approval_id, type(error).__name__, error)
        return None


async def end_gone(client: Client, ledger: Ledger, after: Open | None = None) -> Open | None:
    """End what the ledger takes for open and whose workflow was ended by hand; tells where to go on the next time.

    Some are looked at each time, the oldest first, then the rest, then those again.
    """
    page = await ledger.open_ones(client.namespace, after=after, limit=_LOOKED_AT)
    for start in range(0, len(page), _AT_ONCE):
        some = page[start : start + _AT_ONCE]
        await asyncio.gather(*(_each(each.approval_id, partial(_end_if_gone, client, ledger, each)) for each in some))
    return page[-1] if len(page) == _LOOKED_AT else None


async def _end_if_gone(client: Client, ledger: Ledger, found: Open) -> None:
    workflow = client.get_workflow_handle(names.approval_workflow(found.approval_id), result_type=Outcome)
    try:
        status = (await workflow.describe()).status
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        if not found.is_overdue:  # a server that has never heard of it may be the wrong one
            return
        status = None
    if status in _GOES_ON:
        return
    if status is WorkflowExecutionStatus.COMPLETED:  # it is told already, and the ledger was out of reach
        now = datetime.now(UTC)
        ended = await ledger.conclude(Conclusion(outcome=await workflow.result(), entries=(), judged=(), closed_at=now))
    else:
        known = await ledger.end_gone(found.approval_id, _gone(status))
        if known is None:
            return
        ended = known
        _log.warning("approval %s is gone from Temporal; it is recorded as %s", found.approval_id, ended.status)
    await _tell(client, ledger, ended)


def _gone(status: WorkflowExecutionStatus | None) -> str:
    """What became of a workflow that did not see its story through."""
    if status is WorkflowExecutionStatus.FAILED:
        return reasons.REFUSED_BEFORE()
    how = status.name.lower().replace("_", " ") if status else "forgotten"
    return reasons.GONE_IN_TEMPORAL(how=how)


async def end_gone_questions(client: Client, ledger: Ledger, after: OpenQuestion | None = None) -> OpenQuestion | None:
    """The same of questions: one whose workflow was ended by hand is cancelled."""
    page = await ledger.questions_left_open(client.namespace, after=after, limit=_LOOKED_AT)
    for start in range(0, len(page), _AT_ONCE):
        some = page[start : start + _AT_ONCE]
        await asyncio.gather(
            *(_each(each.question_id, partial(_end_question_if_gone, client, ledger, each)) for each in some)
        )
    return page[-1] if len(page) == _LOOKED_AT else None


async def _end_question_if_gone(client: Client, ledger: Ledger, found: OpenQuestion) -> None:
    workflow = client.get_workflow_handle(names.question_workflow(found.question_id))
    try:
        status = (await workflow.describe()).status
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        if not found.is_overdue:  # a server that has never heard of it may be the wrong one
            return
        status = None
    if status in (*_GOES_ON, WorkflowExecutionStatus.COMPLETED):
        return  # it completes only once the ledger has its end
    if (outcome := await ledger.end_gone_question(found.question_id, _gone(status))) is None:
        return
    _log.warning("question %s is gone from Temporal; it is recorded as %s", found.question_id, outcome.status)
    revision = QuestionRevision(question_id=found.question_id)
    await _start(client, names.SHOW_ANSWERED, revision, names.show_answered_workflow(found.question_id, "gone"))
    state = await ledger.question_record(found.question_id)
    if state is not None and state.plan.callback_url is not None:
        announcement = Announcement(
            url=state.plan.callback_url,
            question=outcome,
            interaction=event(state.plan, outcome, await ledger.answer_event(found.question_id)),
            ended_at=datetime.now(UTC),
            asked_by=state.plan.asked_by,
        )
        await _start(client, names.ANNOUNCING, announcement, names.announcing_workflow(announcement.record))


async def _tell(client: Client, ledger: Ledger, outcome: Outcome) -> None:
    """Let the cards lose their buttons, and whoever asked to be told hear of it, as of any other ending."""
    now, plan = datetime.now(UTC), await ledger.plan(outcome.approval_id)
    await _start(
        client,
        names.RECORDING,
        Conclusion(outcome=outcome, entries=(), judged=(), closed_at=now),
        names.recording_workflow(outcome.approval_id, "gone"),
    )
    if plan is not None and plan.callback_url is not None:
        announcement = Announcement(url=plan.callback_url, outcome=outcome, ended_at=now, asked_by=plan.asked_by)
        await _start(client, names.ANNOUNCING, announcement, names.announcing_workflow(outcome.approval_id))
    if plan is not None and plan.bundle_id is not None:
        with contextlib.suppress(RPCError):  # it is over: its card shows what the ledger says
            bundle = client.get_workflow_handle(names.bundle_workflow(plan.bundle_id))
            await bundle.signal(names.NEWS, Member(approval_id=outcome.approval_id, ended=True))


async def _start(
    client: Client, name: str, argument: Conclusion | Announcement | QuestionRevision, workflow_id: str
) -> None:
    with contextlib.suppress(WorkflowAlreadyStartedError):
        await client.start_workflow(
            name,
            argument,
            id=workflow_id,
            task_queue=names.APPROVALS_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )


async def _is_running(client: Client, workflow_id: str) -> bool:
    try:
        described = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return described.status is WorkflowExecutionStatus.RUNNING


async def _open_review(client: Client, found: Orphan | Untold, why: str) -> None:
    """Open the review of a call, as it was begun, or let the one that is open look again."""
    now, plan, key, call = datetime.now(UTC), found.plan, found.idempotency_key, found.call
    decided_by = call.approved_by[-1] if call.approved_by else None
    await client.start_workflow(
        names.FROZEN_REVIEW,
        FrozenCall.of(plan, call, decided_by=decided_by, error=why, frozen_at=now),
        id=names.review_workflow(key),
        task_queue=names.APPROVALS_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search.review_attributes(plan.tool, str(plan.requester), plan.risk),
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
