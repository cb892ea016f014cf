"""What a review settled stays on the cards, whenever what was said before it comes to Feishu."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.cards import CardActivities
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused
from activities.review_cards import ReviewCards
from assent.contracts.address import Address, AddressKind
from assent.contracts.decision import DecisionKind, Judged, Remember, VerdictKind
from assent.contracts.deliver import Delivery, Revision
from assent.contracts.execute import ToolCall
from assent.contracts.grants import Grant
from assent.contracts.manifest import Risk
from assent.contracts.plan import Plan
from assent.contracts.review import Examined
from assent.contracts.ruling import RulingKind
from assent.contracts.status import Status
from assent.settings import Settings
from cards import Wording
from ledger import Ledger, MessageKind, Shown, Slot
from tests.conftest import ME, OPERATOR, new_database
from tests.support.feishu_service import APP, Chat, buttons, simulated
from tests.support.frozen_ledger_calls import LOST, said
from tests.support.ledgers import NOW, ended, holder, propose

Step = Callable[..., Awaitable[Any]]

SETTLED = ("it did happen", Shown.SETTLED)

GRANT = Grant(
    grant_id="grant-1",
    scope=Remember.EXACT,
    tool="send",
    payload_sha256="0" * 64,
    requester=ME,
    decision=DecisionKind.APPROVE,
    granted_by=ME,
    approval_id="earlier",
    granted_at=NOW,
    expires_at=NOW + timedelta(days=7),
    manifest_sha256="m" * 64,
    risk=Risk.LOW,
)


class Wire(httpx.AsyncBaseTransport):
    """The way to Feishu."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


@dataclass
class Office:
    """What one process has of the cards: nothing of it is shared with another but Feishu and the database."""

    ledger: Ledger
    wire: Wire
    feishu: Feishu
    cards: CardActivities
    reviews: ReviewCards

    @classmethod
    async def open(cls, stack: AsyncExitStack, url: str, domain: str) -> Office:
        ledger, wire, wording = Ledger.open(url), Wire(), Wording.load()
        stack.push_async_callback(ledger.dispose)
        app = {"app_id": APP["app_id"], "app_secret": APP["app_secret"]}
        feishu = Feishu(domain=domain, transport=wire, timeout=600, **app)
        stack.push_async_callback(feishu.close)
        cards = CardActivities(ledger, feishu, wording)
        settings = Settings(database_url=url, operators=(OPERATOR,), operators_chat="oc_ops")
        return cls(ledger, wire, feishu, cards, ReviewCards(ledger, feishu, wording, settings, cards))


@dataclass
class Case:
    """One frozen call: an older writer says how it stands, and a newer one what was settled."""

    older: Office
    newer: Office
    chat: Chat
    plan: Plan

    async def deliver(self) -> None:
        """The approval's card is there."""
        await self.older.cards.deliver(Delivery(approval_id=self.plan.approval_id))

    async def freeze(self) -> None:
        """The approval ends, and nobody knows what became of its call."""
        await self.newer.ledger.conclude(ended(self.plan, Status.FROZEN))

    async def say_that_it_runs(self) -> None:
        judged = Judged(
            event_id="e1",
            delivery_id="d1",
            kind=DecisionKind.APPROVE,
            actor=ME,
            verdict=VerdictKind.ACCEPTED,
            received_at=NOW,
            payload_sha256=self.plan.payload_sha256,
        )
        await self.older.cards.show(Revision(approval_id=self.plan.approval_id, decided=judged))

    async def say_how_it_ended(self) -> None:
        await self.older.cards.show(Revision(approval_id=self.plan.approval_id))

    async def ask_the_operators(self) -> None:
        await self.older.reviews.show(said(self.plan), Examined())

    async def settle(self) -> None:
        """Find out what happened, and show it to everybody."""
        ruled = await self.newer.ledger.rule(said(self.plan, RulingKind.EXECUTED, content={"id": 7}))
        examination = said(self.plan)
        frozen = examination.frozen.model_copy(update={"settlement": ruled.settlement})
        await self.newer.reviews.show(examination.model_copy(update={"frozen": frozen}), Examined(is_known=True))

    async def shown(self, kind: MessageKind) -> tuple[str, Shown | None]:
        """What the one card of this kind says in Feishu, and what the ledger says that it does."""
        record = await self.newer.ledger.record(self.plan.approval_id)
        assert record is not None
        (message,) = [each for each in record.messages if each.slot.kind is kind]
        answer = await self.chat.http.get(f"/api/messages/{message.message_id}")
        content = answer.raise_for_status().json()["content"]
        if "It did happen." in json.dumps(content):
            return "it did happen", message.shown
        return "it may be clicked" if buttons(content) else "nobody knows", message.shown


@dataclass
class Offices:
    """Two processes of one service."""

    older: Office
    newer: Office
    chat: Chat

    async def asked(self, **planned: Any) -> Case:
        """A call that was not begun."""
        team = Address(kind=AddressKind.CHAT_ID, id="oc_team")
        plan = await propose(self.newer.ledger, addresses=(team,), **planned)
        return Case(self.older, self.newer, self.chat, plan)

    async def case(self, **planned: Any) -> Case:
        """A call that may have happened."""
        case = await self.asked(**planned)
        call, running = ToolCall.of(case.plan).model_copy(update={"grant_id": None}), holder()
        await self.newer.ledger.begin(call, running)
        await self.newer.ledger.finish(call, running, 1, LOST)
        return case


@pytest.fixture(name="offices", scope="module")
async def _offices(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Offices]:
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        url = await new_database("sqlite", tmp_path_factory.mktemp("offices"))
        older, newer = [await Office.open(stack, url, chat.url) for _ in range(2)]
        yield Offices(older, newer, chat)


class Moment(Enum):
    """How far the older writer has come when the call is settled."""

    INTENDED = "it is about to note that it sends"
    READY = "it is about to send"
    UNDERWAY = "what it sends has not arrived"
    LOST = "what it sends has not arrived, and the answer will be lost"
    ARRIVED = "what it sends has arrived, and was not answered"
    ANSWERED = "it is about to note what is there"
    CHECKED = "it is about to note what is shown"


CHANGING = (Moment.READY, Moment.UNDERWAY, Moment.LOST, Moment.ARRIVED)
SENDING = (Moment.INTENDED, *CHANGING, Moment.ANSWERED)


class HeldUp:
    """Holds up the first of some steps."""

    def __init__(self) -> None:
        self.is_there, self.goes_on = asyncio.Event(), asyncio.Event()

    async def wait(self) -> bool:
        """Wait where one is held up; tells whether it is the first."""
        is_first = not self.is_there.is_set()
        self.is_there.set()
        await self.goes_on.wait()
        return is_first

    def before(self, step: Step) -> Step:
        async def held(*given: Any, **named: Any) -> Any:
            await self.wait()
            return await step(*given, **named)

        return held

    def after(self, step: Step) -> Step:
        async def held(*given: Any, **named: Any) -> Any:
            answer = await step(*given, **named)
            await self.wait()
            return answer

        return held

    def losing(self, step: Step) -> Step:
        async def held(*given: Any, **named: Any) -> Any:
            is_first = await self.wait()
            answer = await step(*given, **named)
            if is_first:
                await answer.aclose()
                raise httpx.ReadError("its answer was lost")
            return answer

        return held


Hold = Callable[[Office, Moment], HeldUp]


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Hold up what an office does next, at a moment."""

    def at(office: Office, moment: Moment) -> HeldUp:
        held = HeldUp()
        places: dict[Moment, tuple[object, tuple[str, ...], Callable[[Step], Step]]] = {
            Moment.INTENDED: (office.ledger, ("intend",), held.before),
            Moment.READY: (office.feishu, ("send", "patch"), held.before),
            Moment.UNDERWAY: (office.wire, ("handle_async_request",), held.before),
            Moment.LOST: (office.wire, ("handle_async_request",), held.losing),
            Moment.ARRIVED: (office.wire, ("handle_async_request",), held.after),
            Moment.ANSWERED: (office.ledger, ("sent",), held.before),
            Moment.CHECKED: (office.ledger, ("shows",), held.before),
        }
        of, steps, wrap = places[moment]
        for step in steps:
            monkeypatch.setattr(of, step, wrap(getattr(of, step)))
        return held

    return at


async def crossed(older: Coroutine[Any, Any, None], held: HeldUp, *newer: Callable[[], Awaitable[None]]) -> bool:
    """The newer ones say something while the older one is held up; tells whether that one succeeded."""
    saying, there = asyncio.create_task(older), asyncio.create_task(held.is_there.wait())
    await asyncio.wait({saying, there}, return_when=asyncio.FIRST_COMPLETED)
    assert not saying.done()
    for each in newer:
        await each()
    held.goes_on.set()
    try:
        await saying
    except ApplicationError:
        return False
    return True


@pytest.mark.parametrize("moment", [*CHANGING, Moment.CHECKED])
async def test_that_nobody_knows_does_not_cover_what_was_settled(offices: Offices, hold: Hold, moment: Moment) -> None:
    case = await offices.case()
    await case.deliver()
    await case.freeze()
    if not await crossed(case.say_how_it_ended(), hold(case.older, moment), case.settle):
        await case.say_how_it_ended()
    assert await case.shown(MessageKind.CARD) == SETTLED


@pytest.mark.parametrize("moment", CHANGING)
async def test_that_it_runs_does_not_cover_what_was_settled(offices: Offices, hold: Hold, moment: Moment) -> None:
    case = await offices.case()
    await case.deliver()
    if not await crossed(case.say_that_it_runs(), hold(case.older, moment), case.freeze, case.settle):
        await case.say_how_it_ended()
    assert await case.shown(MessageKind.CARD) == SETTLED


@pytest.mark.parametrize("moment", SENDING)
async def test_whom_only_the_ending_is_told_sees_what_was_settled(offices: Offices, hold: Hold, moment: Moment) -> None:
    """A remembered decision stood in for them."""
    case = await offices.case(grant=GRANT)
    await case.freeze()
    if not await crossed(case.say_how_it_ended(), hold(case.older, moment), case.settle):
        await case.say_how_it_ended()
    assert await case.shown(MessageKind.CARD) == SETTLED


async def test_of_two_who_tell_an_ending_at_once_the_one_who_knows_is_heard(offices: Offices, hold: Hold) -> None:
    """Feishu takes what they send for one message, and keeps what came first."""
    case = await offices.case(grant=GRANT)
    await case.freeze()
    older, newer = hold(case.older, Moment.INTENDED), hold(case.newer, Moment.INTENDED)
    saying = asyncio.create_task(case.say_how_it_ended())
    await older.is_there.wait()
    settling = asyncio.create_task(case.settle())
    await newer.is_there.wait()
    older.goes_on.set()
    await saying
    newer.goes_on.set()
    await settling
    assert await case.shown(MessageKind.CARD) == SETTLED


async def test_what_was_settled_is_said_once_in_each_step(offices: Offices, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the step is tried; what was said before it may have come later."""
    case = await offices.case()
    await case.deliver()
    await case.freeze()
    await case.settle()
    patch, told = case.older.feishu.patch, list[str]()

    async def patched(message_id: str, card: str) -> None:
        told.append(message_id)
        await patch(message_id, card)

    monkeypatch.setattr(case.older.feishu, "patch", patched)
    for count in (1, 2):
        step = ActivityEnvironment()
        unlimited = replace(step.info, start_to_close_timeout=None, schedule_to_close_timeout=None)
        step.info = replace(unlimited, activity_id=f"step-{count}")
        for _ in range(3):
            await step.run(case.older.cards.show, Revision(approval_id=case.plan.approval_id))
            assert len(told) == count
    assert await case.shown(MessageKind.CARD) == SETTLED


async def test_the_card_that_follows_one_that_is_too_old_says_what_was_settled(
    offices: Offices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: also where it said before that nobody knows."""
    case = await offices.case()
    await case.deliver()
    (card,) = await case.chat.cards(case.plan.approval_id)
    for office in (case.older, case.newer):
        monkeypatch.setattr(office.feishu, "patch", refusing(office.feishu.patch, card["message_id"]))
    await case.freeze()
    await case.say_how_it_ended()
    await case.settle()
    await case.say_how_it_ended()
    _, follows = await case.chat.cards(case.plan.approval_id)
    assert "It did happen." in json.dumps(follows["content"])


def refusing(patch: Step, too_old: str) -> Step:
    async def patched(message_id: str, card: str) -> None:
        if message_id == too_old:
            raise FeishuRefused(230031, "it is too old")
        await patch(message_id, card)

    return patched


@pytest.mark.parametrize("moment", CHANGING)
async def test_a_review_that_is_shown_again_does_not_cover_what_was_settled(
    offices: Offices, hold: Hold, moment: Moment
) -> None:
    """Nobody tries again to show an open review that was settled."""
    case = await offices.case()
    await case.freeze()
    await case.ask_the_operators()
    await crossed(case.ask_the_operators(), hold(case.older, moment), case.settle)
    assert await case.shown(MessageKind.REVIEW) == SETTLED


@pytest.mark.parametrize("moment", SENDING)
async def test_a_review_that_reaches_the_operators_late_says_what_was_settled(
    offices: Offices, hold: Hold, moment: Moment
) -> None:
    case = await offices.case()
    await case.freeze()
    await crossed(case.ask_the_operators(), hold(case.older, moment), case.settle)
    assert await case.shown(MessageKind.REVIEW) == SETTLED


async def test_what_is_settled_before_the_operators_are_asked_is_no_question_to_them(offices: Offices) -> None:
    case = await offices.case()
    await case.freeze()
    await case.settle()
    await case.ask_the_operators()
    assert not await case.chat.cards(case.plan.approval_id, MessageKind.REVIEW)


@pytest.mark.parametrize(("status", "reads"), [(Status.REJECTED, 1), (Status.FROZEN, 2)])
async def test_only_where_something_may_be_settled_the_ledger_is_read_again(
    offices: Offices, monkeypatch: pytest.MonkeyPatch, status: Status, reads: int
) -> None:
    case = await offices.case() if status is Status.FROZEN else await offices.asked()
    await case.deliver()
    await case.newer.ledger.conclude(ended(case.plan, status))
    read, seen = case.older.ledger.record, list[str]()

    async def counted(approval_id: str) -> Any:
        seen.append(approval_id)
        return await read(approval_id)

    monkeypatch.setattr(case.older.ledger, "record", counted)
    await case.say_how_it_ended()
    assert len(seen) == reads


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_is_noted_as_settled_stays_so(tmp_path: Path, kind: str) -> None:
    ledger = Ledger.open(await new_database(kind, tmp_path))
    try:
        plan = await propose(ledger)
        slot = Slot(approval_id=plan.approval_id, kind=MessageKind.CARD, generation=1, place=0)
        await ledger.intend(slot)
        for said_now, noted in (
            (Shown.PENDING, Shown.PENDING),
            (Shown.FINAL, Shown.FINAL),
            (Shown.SETTLED, Shown.SETTLED),
            (Shown.FINAL, Shown.SETTLED),
        ):
            await ledger.shows(slot, said_now)
            record = await ledger.record(plan.approval_id)
            assert record is not None
            assert [each.shown for each in record.messages] == [noted]
    finally:
        await ledger.dispose()
