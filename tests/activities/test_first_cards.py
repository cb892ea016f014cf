"""The first cards go out as soon as the plan is stored: once, in time or later, and only where somebody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.approvals import ApprovalActivities
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from activities.planning import Planner
from activities.policy import PolicyInForce
from activities.showings import CardState
from assent import Identity
from assent.contracts.conclude import Conclusion
from assent.contracts.deliver import Delivered, Delivery
from assent.contracts.outcome import Outcome
from assent.contracts.prepare import Preparation, Prepared, Resolved
from assent.contracts.request import Request, WhenPending
from assent.contracts.status import Status
from assent.settings import Settings
from cards import Wording
from ledger import Ledger, MessageKind, Record
from tests.conftest import new_database
from tests.support import tools
from tests.support.feishu_service import REQUESTER, Chat, settings_of, simulated

WITHIN = timedelta(seconds=60)
"""Time that no busy machine uses up. On no queue of ours, nothing is in a hurry besides."""


@dataclass
class Preparing:
    """The step that fixes a plan, without the workflow that asks for it."""

    ledger: Ledger
    chat: Chat
    cards: CardActivities
    own: ApprovalActivities

    async def prepare(
        self, approval_id: str, tool: str = "mark", within: timedelta | None = WITHIN, **asked: Any
    ) -> Prepared:
        now = datetime.now(UTC)
        asked = {"arguments": {"path": "/tmp/x"}, "requester": REQUESTER, **asked}
        request = Request(approval_id=approval_id, tool=tool, **asked)
        preparation = Preparation(
            request=request,
            now=now,
            deadline=now + request.ttl,
            resolved=Resolved(requester=request.requester),
            cards_within=within,
        )
        return await ActivityEnvironment().run(self.own.prepare, preparation)

    async def sent(self, approval_id: str) -> list[str]:
        """The messages of its cards, as people see them."""
        return [card["message_id"] for card in await self.chat.cards(approval_id)]


@pytest.fixture(scope="module")
async def opened(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Preparing]:
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        settings = Settings(**settings_of(chat.url))
        ledger = Ledger.open(await new_database("sqlite", tmp_path_factory.mktemp("first")))
        stack.push_async_callback(ledger.dispose)
        await ledger.upgrade()
        shown = (tools.mark, tools.by_two, tools.at_once, tools.never)
        await ledger.publish([tool.manifest for tool in shown], datetime.now(UTC))
        feishu = Feishu.of(settings)
        assert feishu is not None
        stack.push_async_callback(feishu.close)
        cards = CardActivities(ledger, feishu, Wording.load())
        planner = Planner(ledger, settings, PolicyInForce(ledger))
        yield Preparing(ledger, chat, cards, ApprovalActivities(ledger, settings, planner, cards))


@pytest.fixture
async def preparing(opened: Preparing) -> AsyncIterator[Preparing]:
    yield opened
    await opened.chat.behave()


async def test_a_step_that_is_taken_again_finds_the_card_that_it_sent(preparing: Preparing) -> None:
    """Its worker died before Temporal heard of it; or the approval was reset."""
    first = await preparing.prepare("again")
    (message_id,) = await preparing.sent("again")
    assert first.delivered == (Delivered(message_id=message_id),)
    assert (await preparing.prepare("again")).delivered == first.delivered
    assert await preparing.sent("again") == [message_id]


async def test_a_card_whose_arrival_nobody_heard_of_is_the_same_when_it_is_sent_again(preparing: Preparing) -> None:
    await preparing.chat.misbehave({"on": "send", "kind": "lost_answer"})
    prepared = await preparing.prepare("lost")
    assert prepared.plan is not None
    assert prepared.delivered == (None,)
    (message_id,) = await preparing.sent("lost")
    await preparing.chat.behave()
    later = await preparing.cards.deliver(Delivery(approval_id="lost", address=prepared.plan.addresses[0]))
    assert later.message_id == message_id
    assert await preparing.sent("lost") == [message_id]


@pytest.mark.parametrize("kind", ["5xx", "429"])
async def test_a_feishu_in_trouble_leaves_the_plan_and_a_card_to_be_sent(preparing: Preparing, kind: str) -> None:
    await preparing.chat.misbehave({"on": "send", "kind": kind})
    prepared = await preparing.prepare(f"trouble-{kind}")
    assert prepared.plan is not None
    assert prepared.delivered == (None,)


@pytest.mark.parametrize("tool", ["mark", "by_two"])
async def test_a_new_card_is_drawn_of_what_was_just_stored_as_it_is_of_the_ledger(
    preparing: Preparing, tool: str
) -> None:
    prepared = await preparing.prepare(f"drawn-{tool}", tool, within=None)
    assert prepared.plan is not None
    assert prepared.is_new
    new, standing = Record.of_new(prepared.plan), await preparing.ledger.record(prepared.plan.approval_id)
    assert new is not None
    assert standing is not None
    assert new.model_copy(update={"parameters": None}) == standing
    drawn = [await preparing.cards.showings.content(MessageKind.CARD, each, CardState()) for each in (new, standing)]
    assert drawn[0] == drawn[1]


async def test_of_what_has_stood_for_a_while_the_ledger_is_asked(preparing: Preparing) -> None:
    """A step that is taken again may find that people have decided, or that it is over."""
    assert (await preparing.prepare("stood", within=None)).is_new
    again = await preparing.prepare("stood", within=None)
    assert not again.is_new
    assert again.plan is not None
    told_of_others: list[dict[str, Any]] = [{"grant": object()}, {"frozen_twin": "a"}, {"bundle_id": "b"}]
    assert [Record.of_new(again.plan.model_copy(update=each)) for each in told_of_others] == [None, None, None]


async def test_a_refusal_is_told(preparing: Preparing) -> None:
    (delivered,) = (await preparing.prepare("refused", chat_id="oc_elsewhere")).delivered or ()
    assert delivered is not None
    assert delivered.refused


async def test_one_of_two_cards_arrives_where_the_other_cannot_yet(
    preparing: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whatever is wrong with a card, the plan stands: the next try says what it is."""
    deliver = preparing.cards.deliver_of

    async def broken(delivery: Delivery, record: Record | None) -> Delivered:
        if delivery.place == 0:
            raise ZeroDivisionError("a card that cannot be drawn")
        return await deliver(delivery, record)

    monkeypatch.setattr(preparing.cards, "deliver_of", broken)
    prepared = await preparing.prepare("two", "by_two")
    (message_id,) = await preparing.sent("two")
    assert prepared.plan is not None
    assert prepared.delivered == (None, Delivered(message_id=message_id))


async def test_a_card_that_takes_too_long_is_left(preparing: Preparing, monkeypatch: pytest.MonkeyPatch) -> None:
    was_cut_off = asyncio.Event()

    async def endless(delivery: Delivery, record: Record | None) -> Delivered:
        try:
            await asyncio.Event().wait()
        finally:
            was_cut_off.set()
        raise AssertionError("nobody ends it")

    monkeypatch.setattr(preparing.cards, "deliver_of", endless)
    prepared = await preparing.prepare("long", within=timedelta(milliseconds=50))
    assert prepared.plan is not None
    assert prepared.delivered == (None,)
    assert was_cut_off.is_set()


async def test_a_card_that_cannot_be_drawn_holds_up_no_ending(
    preparing: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = await preparing.prepare("undrawn")
    assert prepared.plan is not None

    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a card that cannot be drawn")

    monkeypatch.setattr(preparing.cards.showings, "content", broken)
    outcome = Outcome(
        approval_id="undrawn",
        status=Status.CANCELLED,
        payload_sha256=prepared.plan.payload_sha256,
        idempotency_key=prepared.plan.idempotency_key,
    )
    conclusion = Conclusion(outcome=outcome, entries=(), judged=(), closed_at=datetime.now(UTC))
    recorded = await ActivityEnvironment().run(preparing.own.record_ending, conclusion)
    assert recorded.outcome.status == "cancelled"
    assert recorded.cards_due


async def test_nothing_is_sent_where_nobody_wants_it_sent(preparing: Preparing) -> None:
    """It was withdrawn before it had a plan, say, or a worker of before asks."""
    prepared = await preparing.prepare("unwanted", within=None)
    assert prepared.plan is not None
    assert prepared.delivered is None
    assert await preparing.sent("unwanted") == []


@pytest.mark.parametrize("tool", ["at_once", "never"])
async def test_nothing_is_sent_where_nobody_is_asked(preparing: Preparing, tool: str) -> None:
    assert (await preparing.prepare(tool, tool)).delivered == ()
    assert await preparing.sent(tool) == []


async def test_calls_that_share_a_card_send_none_of_their_own(preparing: Preparing) -> None:
    assert (await preparing.prepare("member", bundle_id="b1")).delivered == ()
    assert await preparing.sent("member") == []


async def test_those_whose_place_is_taken_are_told_before_the_new_card_goes_out(preparing: Preparing) -> None:
    talk: dict[str, Any] = {"thread_id": "t1", "when_pending": WhenPending.SUPERSEDE}
    older = await preparing.prepare("older", **talk)
    assert older.delivered is not None
    assert len(older.delivered) == len(await preparing.sent("older")) == 1
    newer = await preparing.prepare("newer", **talk)
    assert newer.plan is not None
    assert newer.plan.supersedes == ("older",)
    assert newer.delivered == ()


async def test_nothing_is_sent_for_what_has_ended_or_belongs_to_another(preparing: Preparing) -> None:
    asked = await preparing.prepare("over", within=None)
    assert asked.plan is not None
    outcome = Outcome(
        approval_id="over",
        status=Status.CANCELLED,
        payload_sha256=asked.plan.payload_sha256,
        idempotency_key=asked.plan.idempotency_key,
    )
    await preparing.ledger.conclude(Conclusion(outcome=outcome, entries=(), judged=(), closed_at=datetime.now(UTC)))
    again = await preparing.prepare("over")
    assert again.outcome is not None
    assert again.delivered is None
    other = await preparing.prepare("over", requester=Identity(open_id="ou_approver"))
    assert other.conflict
    assert other.delivered is None
    assert await preparing.sent("over") == []
