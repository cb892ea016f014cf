"""Those who answer are kept apart from those who do not. What hangs here hangs until it is released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest
from pydantic import SecretStr
from temporalio.exceptions import ApplicationError

from activities import announcements
from activities.announcements import AnnouncementActivities
from activities.callback_secrets import CallbackSecrets
from activities.feishu.breaker import Breaker, NoAnswer, hurried
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuSilent
from activities.lanes import Lanes, TurnedAway
from assent import Outcome, Status
from assent.contracts.address import Address, AddressKind
from assent.contracts.audit import ClosingHead
from assent.contracts.conclude import Announcement
from assent.settings import Settings
from tests.support.waiting import until

SOON = 0.05


def breaker(*, hurried: int = 2, silent: int = 2) -> Breaker:
    return Breaker(soon=SOON, hurried=hurried, silent=silent)


async def hang() -> None:
    await asyncio.Event().wait()


async def fallen_silent(broken: Breaker, destination: str) -> None:
    with hurried(), pytest.raises(NoAnswer):
        async with broken.answered(destination, 600):
            await hang()


class Waiting:
    """One who waits patiently for an answer."""

    def __init__(self, broken: Breaker, destination: str) -> None:
        self.begun, self.answer = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._wait(broken, destination))

    async def _wait(self, broken: Breaker, destination: str) -> None:
        async with broken.answered(destination, 600):
            self.begun.set()
            await self.answer.wait()


async def test_who_is_in_a_hurry_waits_a_moment_and_not_at_all_for_who_is_known_not_to_answer() -> None:
    broken = breaker()
    await fallen_silent(broken, "sick")
    with hurried(), pytest.raises(TurnedAway):
        async with broken.answered("sick", 600):
            raise AssertionError("nobody is asked")
    with hurried():
        async with broken.answered("well", 600):
            pass


async def test_all_calls_of_one_hurry_share_its_moment() -> None:
    broken = breaker()
    with hurried():
        with pytest.raises(NoAnswer):
            async with broken.answered("sick", 600):
                await hang()
        with pytest.raises(TurnedAway):
            async with broken.answered("well", 600):
                raise AssertionError("there is no time left")
    with hurried():
        async with broken.answered("well", 600):
            pass  # that one was not at fault


async def test_few_workflow_tasks_wait_at_the_same_time_whoever_is_asked() -> None:
    broken = Breaker(soon=600, hurried=2, silent=2)
    answer = asyncio.Event()

    async def wait(destination: str) -> None:
        with hurried():
            async with broken.answered(destination, 600):
                await answer.wait()

    waiting = [asyncio.create_task(wait(f"chat {n}")) for n in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TurnedAway):
        await wait("chat 2")
    answer.set()
    await asyncio.gather(*waiting)
    await wait("chat 2")


async def test_one_call_at_a_time_waits_for_who_does_not_answer_and_an_answer_ends_that() -> None:
    broken = breaker()
    await fallen_silent(broken, "sick")
    first = Waiting(broken, "sick")
    await first.begun.wait()
    with pytest.raises(TurnedAway):
        broken.check("sick")
    await asyncio.sleep(2 * SOON)
    assert not first.task.done()  # it may wait for longer than those who are well need
    first.answer.set()
    await first.task
    with hurried():
        broken.check("sick")


async def test_those_who_do_not_answer_are_waited_for_by_a_few_and_the_others_go_on() -> None:
    broken = breaker(silent=2)
    waiting = [Waiting(broken, f"sick {n}") for n in range(6)]
    given_up = [each.task for each in waiting]

    async def only_two_wait() -> bool:
        return sum(not task.done() for task in given_up) == 2

    await until(only_two_wait)
    with pytest.raises(TurnedAway):
        broken.check("sick 5")
    async with broken.answered("well", 600):
        broken.check("another")
    for each in waiting:
        each.answer.set()
    ended = await asyncio.gather(*given_up, return_exceptions=True)
    assert sorted(type(each).__name__ for each in ended) == ["NoAnswer"] * 4 + ["NoneType"] * 2


async def test_what_is_cut_off_gives_its_place_back() -> None:
    broken = breaker(silent=1)
    await fallen_silent(broken, "sick")
    waiting = Waiting(broken, "sick")
    await waiting.begun.wait()
    waiting.task.cancel()
    await asyncio.wait([waiting.task])
    broken.check("sick")


def test_lanes_are_counted_for_each_and_for_all() -> None:
    lanes = Lanes(each=1, overall=2)
    with lanes.taken("a"):
        assert not lanes.has_room("a")
        with lanes.taken("b"), pytest.raises(TurnedAway), lanes.taken("c"):
            pass
        assert lanes.has_room("c")
    assert lanes.has_room("a")


# Feishu


@asynccontextmanager
async def hanging_feishu(asked: list[str]) -> AsyncIterator[Feishu]:
    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/internal"):
            return httpx.Response(200, json={"code": 0, "tenant_access_token": "t", "expire": 7200})
        asked.append(request.url.path)
        if b"oc_sick" in request.content:
            await hang()
        return httpx.Response(200, json={"code": 0, "data": {"message_id": "om_1"}})

    transport = httpx.MockTransport(answer)
    feishu = Feishu(app_id="a", app_secret="s", domain="https://open.feishu.cn", transport=transport, timeout=600)
    try:
        yield feishu
    finally:
        await feishu.close()


async def test_a_chat_that_did_not_answer_is_not_asked_again_in_a_hurry() -> None:
    asked: list[str] = []
    sick, well = (Address(kind=AddressKind.CHAT_ID, id=f"oc_{name}") for name in ("sick", "well"))
    async with hanging_feishu(asked) as feishu:
        await feishu.send(well, "text", "{}", uuid="0")
        for uuid in ("1", "2", "3"):
            with hurried(), pytest.raises(FeishuSilent):
                await feishu.send(sick, "text", "{}", uuid=uuid)
        assert len(asked) == 2
        with hurried(), pytest.raises(FeishuSilent):
            feishu.check(sick)
        feishu.check(sick)  # patiently it may be asked
        with hurried():
            feishu.check(well)


# Agents


async def _closed(approval_id: str) -> ClosingHead:
    return ClosingHead(approval_id=approval_id, entries=1, head="0" * 64)


async def test_an_agent_that_does_not_answer_takes_no_place_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcements, "_WITHIN", 600.0)
    asked: list[str] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "sick":
            await hang()
        return httpx.Response(204)

    posting = AnnouncementActivities(
        CallbackSecrets(Settings(callback_secret=SecretStr("secret"))), _closed, httpx.MockTransport(answer)
    )

    def announce(host: str) -> asyncio.Task[None]:
        outcome = Outcome(approval_id="a", status=Status.EXECUTED)
        announcement = Announcement(url=f"https://{host}/hook", outcome=outcome, ended_at=datetime.now(UTC))
        return asyncio.create_task(posting.announce(announcement))

    waiting = [announce("sick") for _ in range(announcements._EACH)]

    async def all_wait() -> bool:
        return len(asked) == len(waiting)

    await until(all_wait)
    with pytest.raises(ApplicationError, match="not asked"):
        await announce("sick")
    await announce("well")
    assert asked.count("sick") == announcements._EACH
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await posting.close()
