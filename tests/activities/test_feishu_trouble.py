"""Feishu misbehaves in every way that the simulator can; afterwards nothing is lost, doubled or left half said."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import activities.cards
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from assent import ApprovalHandle, Outcome, names
from assent.errors import Unavailable
from cards import Wording
from ledger import MessageKind, Slot
from ledger.engine import Connection, open_engine
from simulator.people import Chat as Room
from simulator.state import Message
from tests.conftest import new_database, open_service
from tests.support import servers
from tests.support.deployment import FeishuServiceWithWebhook, opened_feishu_service_with_webhook, said
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, FeishuService, buttons, settings_of, simulated
from tests.support.stepwise import reading, writing
from tests.support.tools import marks
from tests.support.waiting import until
from workers.approvals import approvals_worker, outbound_worker
from workflows import steps

Fault = dict[str, Any]

CALLS = ("429", "ratelimit", "5xx", "html", "lost_answer", "slow", "refuse", "disconnect", "expired_token")
"""What can happen to a call of ours and pass."""
RETRIED, FINAL = 230020, 230002
"""A code that is worth another try, and one that is not."""
PATIENCE = 300
"""Seconds after which a test that waits in vain says so; no promise of ours is measured by it."""
AGAIN = timedelta(seconds=5)
"""The longest pause between two tries here: what resisted for long need not be waited for as long."""


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuServiceWithWebhook]:
    directory = tmp_path_factory.mktemp("feishu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "_POLITE", dataclasses.replace(steps._POLITE, maximum_interval=AGAIN))
        patch.setattr(activities.cards, "_LONGEST_SILENCE", AGAIN.total_seconds())
        async with opened_feishu_service_with_webhook(
            temporal_address, next(namespaces), directory, "postgres"
        ) as opened:
            yield opened


@pytest.fixture(autouse=True)
async def well_behaved(feishu: FeishuServiceWithWebhook) -> AsyncIterator[None]:
    yield
    await feishu.chat.behave()


@dataclass
class Case:
    """One approval in a chat of its own, where one thing goes wrong."""

    name: str
    faults: list[Fault]
    how: str = "click"
    """How it is decided: `click` on its card once there is one, by `client`, or withdrawn by `cancel`."""
    asked: dict[str, Any] = field(default_factory=dict)
    ends: str = "executed"
    handle: ApprovalHandle = field(init=False)
    directory: Path = field(init=False)

    @property
    def chat_id(self) -> str:
        return f"oc_{self.name}"

    async def open(self, feishu: FeishuServiceWithWebhook, directory: Path) -> None:
        everyone = tuple(person.open_id or "" for person in (REQUESTER, OUTSIDER))
        feishu.platform.chats[self.chat_id] = Room(self.chat_id, self.name, "group", everyone)
        self.directory = directory / self.name
        self.directory.mkdir()

    async def ask(self, feishu: FeishuServiceWithWebhook) -> None:
        self.handle = await feishu.ask(self.directory, **{"chat_id": self.chat_id, **self.asked})

    async def decide(self, feishu: FeishuServiceWithWebhook) -> None:
        match self.how:
            case "click":
                await until(lambda: self._is_there(feishu), PATIENCE)
                (message,) = self.messages(feishu)
                card = feishu.platform.view(message)
                await until(lambda: self._clicked(feishu, card), PATIENCE)
            case "client":
                await until(self._approved, PATIENCE)
            case "cancel":
                await until(self._withdrawn, PATIENCE)
            case _:
                assert self.how == "nobody"

    async def _approved(self) -> bool:
        """Whether it could be decided; whoever is told that nobody answered in time tries again."""
        try:
            state = await self.handle.state()
            await self.handle.decide("approve", actor=REQUESTER, payload_sha256=state.payload_sha256)
        except Unavailable:
            return False
        return True

    async def _withdrawn(self) -> bool:
        try:
            await self.handle.cancel("no longer needed")
        except Unavailable:
            return False
        return True

    async def _is_there(self, feishu: FeishuServiceWithWebhook) -> bool:
        return bool(self.messages(feishu))

    def messages(self, feishu: FeishuServiceWithWebhook, kind: MessageKind = MessageKind.CARD) -> list[Message]:
        """What the platform holds, looked up where it is: dozens of these wait at the same time."""
        slots = (Slot(approval_id=self.handle.id, kind=kind, generation=n, place=0) for n in range(1, 4))
        uuids = {slot.uuid for slot in slots}
        return [message for message in feishu.platform.messages.values() if message.uuid in uuids]

    async def _clicked(self, feishu: FeishuServiceWithWebhook, card: dict[str, Any]) -> bool:
        """Whether the click was answered, or has counted though nobody was told: else a person tries again."""
        told = await feishu.chat.click(card, "approve")
        asked_again = bool(told["toast"]) and told["toast"]["i18n"]["en_us"] == said("toast.not_recorded")
        if told["toast"] and told["toast"]["type"] == "error" and not asked_again:
            raise AssertionError(told)
        if told["error"] is None and not asked_again:
            return True
        try:
            return (await self.handle.state()).decided_by is not None
        except Unavailable:
            return False
        finally:
            await asyncio.sleep(0.5)  # nobody clicks again faster than that

    async def ended(self, feishu: FeishuServiceWithWebhook) -> Outcome:
        outcome = await asyncio.wait_for(self.handle.outcome(), PATIENCE)
        assert outcome.status == self.ends, (self.name, outcome)
        return outcome

    async def is_told_truly(self, feishu: FeishuServiceWithWebhook) -> None:
        """One message at most, without a button, that says what came of it; and one side effect if it ran."""
        await until(lambda: self._is_buttonless(feishu), PATIENCE)
        messages = self.messages(feishu)
        assert len(messages) <= 1, self.name
        assert not any(buttons(message.content) for message in messages), self.name
        assert len(self.messages(feishu, MessageKind.FILE)) <= 1
        assert marks(self.directory / "marks") == (1 if self.ends == "executed" else 0), self.name
        events = await feishu.service.events(self.handle.id)
        ending = {"executed": ["confirm", "execute"], "cancelled": ["cancel"], "expired": ["expire"]}[self.ends]
        assert [event for event in events if event not in ("write_request", "deliver")] == ending, self.name
        assert events.count("deliver") == len(messages), self.name

    async def _is_buttonless(self, feishu: FeishuServiceWithWebhook) -> bool:
        messages = self.messages(feishu)
        is_there = bool(messages) or self.how != "click"
        return is_there and all(said(f"line.{self.ends}") in str(message.content) for message in messages)


def sick(on: str, kind: str, **more: Any) -> Case:
    """A chat in which this goes wrong."""
    name = f"{on}_{kind}_{more.get('how', 'click')}_{more.pop('code', '')}"
    return Case(name, [fault(on, kind, f"oc_{name}")], **more)


def fault(on: str, kind: str, chat_id: str | None = None, code: int | None = None) -> Fault:
    made: Fault = {"on": on, "kind": kind}
    if kind == "slow":
        made["seconds"] = 8
    if kind == "code":
        made["code"] = code or RETRIED
    if chat_id:
        made["match"] = {"chat_id": chat_id}
    return made


async def settled(feishu: FeishuServiceWithWebhook) -> None:
    """Nothing is being tried any more: every approval and whatever follows it has ended."""

    async def quiet() -> bool:
        return not (await feishu.service.client.count_workflows('ExecutionStatus = "Running"')).count

    await until(quiet, PATIENCE)
    assert await feishu.service.ledger.verify() == []


async def test_every_kind_of_trouble_at_once_and_the_healthy_are_not_held_up(
    feishu: FeishuServiceWithWebhook, tmp_path: Path
) -> None:
    kinds = (*CALLS, "code")
    hows = itertools.cycle(("click", "client"))
    cases = [sick(on, kind, how=next(hows)) for on in ("send", "patch") for kind in kinds]
    cases += [sick("send", kind, how="cancel", ends="cancelled") for kind in ("lost_answer", "slow", "5xx")]
    cases += [sick("callback", kind) for kind in ("refuse", "disconnect", "slow", "lost_answer", "duplicate_click")]
    refused = Case("refused", [{**fault("send", "code", "oc_refused"), "code": FINAL}], "nobody", ends="cancelled")
    unheard = Case("unheard", [fault("send", "refuse", "oc_unheard")], "nobody", ends="expired")
    unheard.asked["ttl"] = timedelta(seconds=2)
    healthy = [Case(f"healthy_{n}", [], "click" if n % 2 else "client") for n in range(6)]
    for case in (*cases, refused, unheard, *healthy):
        await case.open(feishu, tmp_path)
    faults = [each for case in (*cases, refused, unheard) for each in case.faults]
    await feishu.chat.misbehave(*faults)

    await asyncio.gather(*(case.ask(feishu) for case in (*cases, refused, unheard)))
    deciding = [asyncio.create_task(case.decide(feishu)) for case in cases]
    for case in healthy:
        await case.ask(feishu)
    await asyncio.gather(*(case.decide(feishu) for case in healthy))
    for case in (*healthy, refused):
        await case.ended(feishu)
        await case.is_told_truly(feishu)
    decided_elsewhere = [case for case in cases if case.how != "click"]
    await asyncio.gather(*(case.ended(feishu) for case in decided_elsewhere))
    await asyncio.gather(*(case.ended(feishu) for case in cases if case.name.startswith("patch_")))
    await unheard.ended(feishu)
    still_sick = (await feishu.chat.http.get("/api/faults")).json()
    assert len(still_sick) == len(faults)  # all of the above happened meanwhile

    await feishu.chat.behave()
    await asyncio.gather(*deciding)
    for case in cases:
        await case.ended(feishu)
    await settled(feishu)
    for case in cases:
        await case.is_told_truly(feishu)
    assert not any(buttons(message.content) for message in unheard.messages(feishu))
    assert marks(unheard.directory / "marks") == 0


async def test_changing_trouble_everywhere_loses_and_doubles_nothing(
    feishu: FeishuServiceWithWebhook, tmp_path: Path
) -> None:
    """Tokens, uploads, replies and all the rest, at random, for a while; people click and agents go on asking."""
    dice = random.Random(7)
    places = ("token", "send", "reply", "patch", "upload", "users", "any", "callback")
    kinds = dict.fromkeys(places, (*CALLS, "code")) | {"callback": ("lost_answer", "duplicate_click", "refuse")}
    every = [(place, kind) for place in places for kind in kinds[place] if (place, kind) != ("token", "code")]
    dice.shuffle(every)
    first = Case("first", [])
    await first.open(feishu, tmp_path)
    await first.ask(feishu)
    await until(lambda: first._is_there(feishu), PATIENCE)
    (message,) = first.messages(feishu)
    asked: list[dict[str, Any]] = [{}, {"reply_to": message.message_id}, {"arguments": {"note": "long " * 9000}}]
    cases = [Case(f"mixed_{n}", [], dice.choice(("click", "click", "client", "cancel"))) for n in range(16)]
    for n, case in enumerate(cases):
        case.ends = "cancelled" if case.how == "cancel" else "executed"
        case.asked = asked[n % 3]
        await case.open(feishu, tmp_path)

    async def live(case: Case) -> None:
        await case.ask(feishu)
        await case.decide(feishu)

    living: list[asyncio.Task[None]] = []
    for case in cases:
        troubles = [every.pop() for _ in range(min(5, len(every)))]
        made = [{**fault(*trouble), "probability": dice.choice((0.5, 1.0))} for trouble in troubles]
        await feishu.chat.misbehave(*[{**each, "seconds": 2} if each["kind"] == "slow" else each for each in made])
        living.append(asyncio.create_task(live(case)))
        await asyncio.sleep(0.3)  # how long this trouble lasts
    assert not every
    await feishu.chat.behave()
    await asyncio.gather(*living, first.decide(feishu))
    for case in (first, *cases):
        await case.ended(feishu)
    await settled(feishu)
    for case in (first, *cases):
        await case.is_told_truly(feishu)


async def test_two_cards_that_arrive_in_one_task_are_not_sent_again(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        url = await new_database("sqlite", tmp_path)
        service = await open_service(stack, client, url, workers=False, **settings_of(chat.url))
        feishu_client = Feishu.of(service.settings)
        assert feishu_client
        stack.push_async_callback(feishu_client.close)
        cards = CardActivities(service.ledger, feishu_client, Wording.load(None))
        feishu = FeishuService(service, chat)
        await chat.misbehave({"on": "send", "kind": "5xx"})
        async with approvals_worker(client, service.ledger, service.settings, cards):
            handle = await feishu.ask(tmp_path, "by_two")
            workflow = client.get_workflow_handle(names.approval_workflow(handle.id))

            async def on_their_way(wanted: int) -> bool:
                return len((await workflow.describe()).raw_description.pending_activities) == wanted

            await until(lambda: on_their_way(2))
        await chat.behave()
        async with outbound_worker(client, service.ledger, service.settings, cards):
            await until(lambda: on_their_way(0))
            async with approvals_worker(client, service.ledger, service.settings, cards):
                sent = await chat.cards(handle.id)
                assert await feishu.click(handle, sent[0], who=OUTSIDER) == "forbidden"
                borrowed = {**sent[0], "message_id": "om_elsewhere"}
                assert await feishu.click(handle, borrowed, who=APPROVER) == "tampered"
                assert await feishu.click(handle, sent[0], who=APPROVER) == "accepted"
                assert [card["message_id"] for card in await chat.cards(handle.id)] == [
                    card["message_id"] for card in sent
                ]


async def test_a_request_that_nobody_is_asked_about_ends_although_there_is_no_card(
    feishu: FeishuServiceWithWebhook, tmp_path: Path
) -> None:
    handle = await feishu.ask(tmp_path, "no_such_tool")
    outcome = await handle.outcome()
    assert (outcome.status, outcome.is_error) == ("failed", True)
    query = f'WorkflowId STARTS_WITH "settling/{handle.id}/"'
    assert not (await feishu.service.client.count_workflows(query)).count  # and nothing is left to be tried


_SLOW = {
    "sqlite": "WITH RECURSIVE n(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM n LIMIT 3000000) SELECT max(x) FROM n",
    "postgresql": "SELECT pg_sleep(1)",
}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_ledger_work_that_is_cut_off_holds_up_nobody(kind: str, tmp_path: Path) -> None:
    """Whatever waits for Feishu is cut off in time, also while it happens to talk to the ledger."""
    engine = open_engine(await new_database(kind, tmp_path))
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    async def write(connection: Connection, *, slowly: bool = False) -> None:
        await connection.execute(text("INSERT INTO lines VALUES (1)"))
        loop.call_soon_threadsafe(begun.set)
        if slowly:
            await connection.execute(text(_SLOW[connection.dialect.name]))

    async with writing(engine) as connection:
        await connection.execute(text("CREATE TABLE lines (number int)"))
    cut_off = asyncio.create_task(engine.write(write, slowly=True))
    await begun.wait()
    await asyncio.sleep(0.05)  # until the slow statement runs
    cut_off.cancel()
    _, waiting = await asyncio.wait([cut_off, asyncio.create_task(engine.write(write))], timeout=300)
    assert not waiting, "what was cut off still holds the lock"
    assert cut_off.cancelled()  # whoever keeps the task keeps all that its traceback holds
    async with reading(engine) as connection:
        assert (await connection.execute(text("SELECT count(*) FROM lines"))).scalar_one() == 1
    await engine.dispose()
