"""`python -m workers.approvals`: the workflows, and the activities they run by themselves."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import workflows
from activities.announcements import AnnouncementActivities
from activities.approvals import ApprovalActivities
from activities.bundles import BundleActivities
from activities.callback_secrets import CallbackSecrets
from activities.card_builder import CardBuilder
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from activities.inbox import InboxActivities
from activities.memberships import learn_members
from activities.planning import Planner
from activities.policy import PolicyInForce
from activities.question_cards import QuestionCards
from activities.questions import QuestionActivities
from activities.resolving import ResolvingActivities
from activities.review_cards import ReviewCards
from activities.reviews import ReviewActivities
from activities.runs import LineActivities, RunCards
from activities.shared_files import SharedFileActivities
from activities.weighing import WeighingActivities
from assent import names
from assent.settings import Settings
from ledger import Ledger
from workers import policy, process, sinks
from workers.sweeping import keep_sweeping

_log = logging.getLogger(__name__)
_LEARN_EVERY = 2.0
"""Seconds until a new chat's members find in their inboxes what waits for them."""

OUTBOUND_AT_A_TIME = 200
"""How much the outbound worker does at a time. Those who may wait long for an answer are bounded far below: chats in
`activities.feishu`, agents in `activities.announcements`."""


def approvals_worker(client: Client, ledger: Ledger, settings: Settings, cards: CardActivities | None = None) -> Worker:
    """The workflows, and the activities they run by themselves."""
    planner = Planner(ledger, settings, PolicyInForce(ledger))
    own, reviews = ApprovalActivities(ledger, settings, planner, cards), ReviewActivities(ledger, settings)
    weighing = WeighingActivities(ledger, planner, cards.feishu if cards else None)
    bundles = BundleActivities(ledger, cards.feishu, cards.showings) if cards else None
    questions = QuestionActivities(ledger, settings, _question_cards(ledger, cards))
    lines = LineActivities(ledger)
    return Worker(
        client,
        task_queue=names.APPROVALS_QUEUE,
        workflows=workflows.ALL,
        # Without the sandbox: workflows decide by a pure core, and every replay in the tests watches that they do.
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=settings.cached_workflows,
        activities=[
            *(own.prepare, own.close_claim, own.write_audit, own.record_ending, own.release, own.recall),
            *(weighing.weigh, weighing.remember),
            *(reviews.examine, reviews.rule, reviews.tell),
            *(questions.prepare_question, questions.record_answer, questions.open_questions),
            *(lines.offer_line, lines.claim_line, lines.confirm_line, lines.close_line),
            *([cards.deliver] if cards else ()),
            *([bundles.deliver_bundle] if bundles else ()),
        ],
        # When this worker dies, its workflows wait this long for it before another takes them.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=5),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


def outbound_worker(
    client: Client,
    ledger: Ledger,
    settings: Settings,
    cards: CardActivities | None = None,
    review_cards: ReviewCards | None = None,
) -> Worker:
    """What waits for Feishu or for an agent, with slots of its own: it holds up no approval."""
    announcements = AnnouncementActivities(CallbackSecrets(settings), ledger.closing_head)
    reviews = ReviewActivities(ledger, settings, review_cards)
    planner = Planner(ledger, settings, PolicyInForce(ledger))
    resolving = ResolvingActivities(ledger, cards.feishu if cards else None, largest=settings.files_max)
    weighing = WeighingActivities(ledger, planner, cards.feishu if cards else None, resolving)
    bundles = BundleActivities(ledger, cards.feishu, cards.showings) if cards else None
    questions = _question_cards(ledger, cards)
    runs = RunCards(ledger, settings, cards.feishu if cards else None, cards.wording if cards else None)
    awaiting = InboxActivities(ledger, cards.feishu, cards.wording, settings) if cards else None
    sharing = SharedFileActivities(ledger, cards.feishu, cards.wording, settings) if cards else None
    return Worker(
        client,
        task_queue=names.OUTBOUND_QUEUE,
        activities=[
            *(announcements.announce, reviews.show_review, weighing.weigh, resolving.resolve, runs.show_run),
            *([cards.deliver, cards.show] if cards else ()),
            *([bundles.deliver_bundle, bundles.show_bundle] if bundles else ()),
            *([questions.deliver_question, questions.show_question] if questions else ()),
            *([awaiting.reply_inbox] if awaiting else ()),
            *([sharing.register_files, sharing.answer_files] if sharing else ()),
        ],
        max_concurrent_activities=OUTBOUND_AT_A_TIME,
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


def _question_cards(ledger: Ledger, cards: CardActivities | None) -> QuestionCards | None:
    return QuestionCards(ledger, cards.feishu, cards.wording) if cards else None


async def _keep_learning(ledger: Ledger, feishu: Feishu) -> None:
    """Know who belongs to the chats whose members something waits for, so that inboxes need ask nobody."""
    while True:
        try:
            await learn_members(ledger, feishu)
        except Exception as error:
            _log.warning("who belongs to which chat could not be asked: %s", type(error).__name__)
        await asyncio.sleep(_LEARN_EVERY)


async def main(settings: Settings) -> None:
    wording = process.load_wording(settings)
    try:
        CallbackSecrets(settings)
    except ValueError as error:
        raise process.Misconfigured(f"ASSENT_CALLBACK_SECRETS: {error}.") from None
    try:
        builder = CardBuilder.load(settings.card_builder)
    except ValueError as error:
        raise process.Misconfigured(f"ASSENT_CARD_BUILDER: {error}.") from None
    client = await process.open_temporal()
    ledger = await process.open_ledger(settings)
    feishu = Feishu.of(settings)
    cards = CardActivities(ledger, feishu, wording, settings.temporal_ui, builder) if feishu else None
    review_cards = ReviewCards(ledger, feishu, wording, settings, cards) if feishu and cards else None
    try:
        taking = sinks.sinks_of(settings.audit_sinks)
    except ValueError as error:
        raise process.Misconfigured(f"ASSENT_AUDIT_SINKS: {error}.") from None
    try:
        await policy.publish(ledger, settings)
        _log.info("approvals are served in namespace %s", client.namespace)
        own = approvals_worker(client, ledger, settings, cards)
        sweeping = asyncio.create_task(keep_sweeping(client, ledger, settings))
        watching = asyncio.create_task(policy.keep_policy(ledger, client, settings))
        sinking = asyncio.create_task(sinks.keep_sinking(ledger, taking))
        learning = asyncio.create_task(_keep_learning(ledger, feishu)) if feishu else None
        await process.serve([own, outbound_worker(client, ledger, settings, cards, review_cards)])
        for task in (sweeping, watching, sinking, learning):
            if task is not None:
                task.cancel()
    finally:
        if feishu:
            await feishu.close()
        await ledger.dispose()


if __name__ == "__main__":
    process.run(main)
