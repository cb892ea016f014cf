"""Quotas: what is used up is told with 429, nobody is asked, and no race gets around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from assent import Assent, Identity, QuotaExceeded
from assent.api.door import HttpDoor
from assent.contracts.address import Address, AddressKind
from assent.contracts.quotas import AgentLimits, Limits, Quota
from assent.contracts.request import Request
from ledger import Ledger, Reader
from tests.conftest import ME, Service, new_database, open_service
from tests.support import servers
from tests.support.feishu_service import open_feishu_service
from tests.support.ledgers import NOW, propose
from tests.support.waiting import until
from tests.support.web import Web
from workers.rates import Rates

RIGHTS = {"tools": ["*"], "on_behalf_of": ["*"]}
AGENTS: dict[str, dict[str, Any]] = {
    "agent": RIGHTS,
    "few": {**RIGHTS, "pending": 2},
    "few_too": {**RIGHTS, "pending": 2, "principal": "few"},
    "small": {**RIGHTS, "bytes_per_day": 2000},
    "wordy": {**RIGHTS, "bytes_per_day": 20_000},
    "slow": {**RIGHTS, "requests_per_minute": 3},
    "crowd": {**RIGHTS, "pending": 3},
    "bundler": {**RIGHTS, "pending": 3, "requests_per_minute": 30},
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    found = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("quotas")))
    await found.upgrade()
    yield found
    await found.dispose()


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("quotas")
    async with AsyncExitStack() as stack:
        service = await open_service(stack, client, await new_database("postgres", directory))
        yield Web(service, directory, AGENTS)


def call(path: Path, **more: Any) -> dict[str, Any]:
    return {
        "tool": "mark",
        "arguments": {"path": str(path / "m"), **more.pop("arguments", {})},
        "requester": {"open_id": "ou_me"},
        **more,
    }


# Where they are counted


@pytest.mark.parametrize(
    ("limits", "quota"),
    [
        (Limits(agent=AgentLimits(pending=3)), Quota.PENDING),
        (Limits(requester_pending=3), Quota.REQUESTER),
        (Limits(chat_requests_per_hour=3), Quota.CHAT),
    ],
)
async def test_of_many_at_once_as_many_are_registered_as_may_be(ledger: Ledger, limits: Limits, quota: Quota) -> None:
    name = f"{quota}-{id(ledger)}"
    chat = (Address(kind=AddressKind.CHAT_ID, id=f"oc_{name}"),)
    made = [
        await propose(ledger, requester=Identity(open_id=f"ou_{name}"), addresses=chat, register=False)
        for _ in range(12)
    ]

    async def register(plan: Any) -> Any:
        request = Request(
            approval_id=plan.approval_id, tool="send", arguments={}, requester=plan.requester, asked_by=name
        )
        return await ledger.register(request, plan, None, now=NOW, open_until=NOW + timedelta(hours=1), limits=limits)

    prepared = await asyncio.gather(*map(register, made))
    assert sum(each.plan is not None for each in prepared) == 3
    refused = [each.exceeded for each in prepared if each.exceeded]
    assert len(refused) == 9
    assert {(each.quota, each.limit) for each in refused} == {(quota, 3)}
    assert all(1 <= each.retry_after <= 3600 for each in refused)


async def test_a_person_is_counted_once_whichever_id_is_given(ledger: Ledger) -> None:
    proved = Identity(open_id=f"ou_{id(ledger)}", union_id=f"on_{id(ledger)}")
    await ledger.learn(proved)
    limits = Limits(requester_pending=1)
    first = await propose(ledger, requester=Identity(open_id=proved.open_id), register=False)
    second = await propose(ledger, requester=Identity(union_id=proved.union_id), register=False)
    until = NOW + timedelta(hours=1)
    for plan, is_refused in ((first, False), (second, True)):
        request = Request(approval_id=plan.approval_id, tool="send", arguments={}, requester=plan.requester)
        prepared = await ledger.register(request, plan, None, now=NOW, open_until=until, limits=limits)
        assert (prepared.exceeded is not None) is is_refused


async def shown(ledger: Ledger, limits: Limits, **plan: Any) -> bool:
    """Whether one more request may be shown there."""
    made = await propose(ledger, **plan, register=False)
    request = Request(approval_id=made.approval_id, tool="send", arguments={}, requester=made.requester)
    until = NOW + timedelta(hours=1)
    return (await ledger.register(request, made, None, now=NOW, open_until=until, limits=limits)).exceeded is None


async def test_a_reply_counts_where_its_message_is(ledger: Ledger) -> None:
    limits, name = Limits(chat_requests_per_hour=2), f"replies-{id(ledger)}"
    here, named = f"oc_{name}", f"oc_named_{name}"
    chat = Address(kind=AddressKind.CHAT_ID, id=here)
    reply = Address(kind=AddressKind.CHAT_ID, id=named, reply_to="om_1")
    requester = Identity(open_id=f"ou_{name}")
    unknown = {"conversation": named, "chat_is_known": False, "requester": requester}
    assert await shown(ledger, limits, addresses=(chat,))
    assert await shown(ledger, limits, addresses=(reply,), conversation=here)
    assert not await shown(ledger, limits, addresses=(reply,), conversation=here)
    assert not await shown(ledger, limits, addresses=(chat,))
    other = reply.model_copy(update={"reply_to": "om_2"})
    replies = [await shown(ledger, limits, addresses=(each,), **unknown) for each in (reply, other, other)]
    assert replies == [True, True, False], "while nobody knows the chat, they count for who asked"
    innocent = chat.model_copy(update={"id": named})
    assert await shown(ledger, limits, addresses=(innocent,)), "a chat that was only named has seen nothing"


async def test_private_cards_count_for_the_person_whichever_id_they_go_to(ledger: Ledger) -> None:
    limits, name = Limits(chat_requests_per_hour=2), f"private-{id(ledger)}"
    await ledger.learn(Identity(open_id=f"ou_{name}", union_id=f"on_{name}"))
    by_open = Address(kind=AddressKind.OPEN_ID, id=f"ou_{name}")
    by_union = Address(kind=AddressKind.UNION_ID, id=f"on_{name}")
    assert await shown(ledger, limits, addresses=(by_open,))
    assert await shown(ledger, limits, addresses=(by_union,))
    assert not await shown(ledger, limits, addresses=(by_open,))
    passing_for_it = Address(kind=AddressKind.CHAT_ID, id=f"person:open_id:ou_{name}")
    assert await shown(ledger, limits, addresses=(passing_for_it,)), "a chat is no person, whatever it is called"


async def test_bytes_are_counted_by_the_day(ledger: Ledger) -> None:
    name = f"bytes-{id(ledger)}"
    limits = Limits(agent=AgentLimits(bytes_per_day=3000))

    async def register(now: datetime) -> bool:
        plan = await propose(ledger, register=False)
        request = Request(
            approval_id=plan.approval_id, tool="send", arguments={"x": "y" * 1500}, requester=ME, asked_by=name
        )
        until = now + timedelta(hours=1)
        return (await ledger.register(request, plan, None, now=now, open_until=until, limits=limits)).exceeded is None

    assert await register(NOW)
    assert not await register(NOW)
    assert await register(NOW + timedelta(days=1, seconds=1))


async def test_who_is_at_the_limit_is_let_in_again_when_something_ends(ledger: Ledger) -> None:
    assert await Reader(ledger).exceeded("nobody", AgentLimits(pending=1, bytes_per_day=10), size=5, more=1) is None
    over = await Reader(ledger).exceeded("nobody", AgentLimits(pending=1), size=5, more=2)
    assert over is not None
    assert (over.quota, over.limit) == (Quota.PENDING, 1)


# How they are told


async def test_too_many_open_requests_are_429_and_nobody_is_asked(web: Web, tmp_path: Path) -> None:
    async with web.http("few") as http, web.http("few_too") as rotated:
        asked = [await http.post("/v1/approvals", json=call(tmp_path)) for _ in range(2)]
        assert [answer.status_code for answer in asked] == [201, 201]
        for door in (http, rotated):  # another token of the same principal is no way around it
            over = await door.post("/v1/approvals", json=call(tmp_path, approval_id=f"over-{tmp_path.name}"))
            problem = over.json()
            assert (over.status_code, problem["code"], problem["quota"]) == (429, "quota_exceeded", "pending")
            assert (problem["limit"], over.headers["Retry-After"]) == (2, str(problem["retry_after"]))
        known = asked[0].json()["approval_id"]
        again = await http.post("/v1/approvals", json=call(tmp_path, approval_id=known))
        assert again.status_code == 200, "a request that is repeated attaches"
        assert await web.service.ledger.state(f"over-{tmp_path.name}") is None
        await http.post(f"/v1/approvals/{known}/cancel")

        async def let_in() -> bool:
            return (await http.post("/v1/approvals", json=call(tmp_path))).status_code == 201

        await until(let_in)


async def test_of_many_at_once_through_two_processes_no_more_are_open_than_may_be(web: Web, tmp_path: Path) -> None:
    async with web.http("crowd") as one, web.http("crowd", web.another(tmp_path)) as two:
        doors = [one, two] * 6
        answers = await asyncio.gather(*(door.post("/v1/approvals", json=call(tmp_path)) for door in doors))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [201] * 3 + [429] * 9, [answer.text for answer in answers]
    over = [answer.json() for answer in answers if answer.status_code == 429]
    assert {problem["quota"] for problem in over} == {"pending"}


async def test_a_bundle_is_as_many_requests_as_it_has_calls(web: Web, tmp_path: Path) -> None:
    async with web.http("bundler") as http:
        many = await http.post("/v1/bundles", json={"calls": [call(tmp_path)] * 4})
        assert (many.status_code, many.json()["quota"]) == (429, "pending")
        hurried = await http.post("/v1/bundles", json={"calls": [call(tmp_path)] * 40})
        assert (hurried.status_code, hurried.json()["quota"]) == (429, "requests_per_minute")
        some = await http.post("/v1/bundles", json={"calls": [call(tmp_path)] * 3})
        assert some.status_code == 201


async def test_bytes_are_429_before_anything_starts(web: Web, tmp_path: Path) -> None:
    async with web.http("small") as http:
        over = await http.post("/v1/approvals", json=call(tmp_path, arguments={"note": "n" * 3000}))
        assert (over.status_code, over.json()["quota"]) == (429, "bytes_per_day")
        assert (await http.post("/v1/approvals", json=call(tmp_path))).status_code == 201


async def test_a_chat_that_was_shown_enough_is_429_and_shown_no_more(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, tmp_path, chat_requests_per_hour=2)
        http = await stack.enter_async_context(Web(feishu.service, tmp_path, AGENTS).http("agent"))
        requester = {"open_id": "ou_requester"}
        asked = [
            await http.post("/v1/approvals", json=call(tmp_path, requester=requester, chat_id="oc_team"))
            for _ in range(2)
        ]
        assert [answer.status_code for answer in asked] == [201, 201], [answer.text for answer in asked]
        first = asked[0].json()["approval_id"]
        await feishu.chat.card(first)
        await http.post(f"/v1/approvals/{first}/cancel")  # it was shown all the same
        third = call(tmp_path, requester=requester, chat_id="oc_team", approval_id="third")
        over = await http.post("/v1/approvals", json=third)
        problem = over.json()
        assert (over.status_code, problem["code"], problem["quota"]) == (
            429,
            "quota_exceeded",
            "chat_requests_per_hour",
        )
        assert (problem["limit"], over.headers["Retry-After"]) == (2, str(problem["retry_after"]))
        assert 1 <= problem["retry_after"] <= 3600
        elsewhere = await http.post("/v1/approvals", json={**third, "chat_id": "oc_ops"})
        assert elsewhere.status_code == 201, "the id was still free, and another chat is counted apart"

        for answer in (*asked, elsewhere):
            await feishu.chat.card(answer.json()["approval_id"])
        assert [len(await feishu.chat.messages(chat)) for chat in ("oc_team", "oc_ops")] == [2, 1]


async def test_bytes_that_are_refused_when_they_are_prepared_are_counted_too(web: Web, tmp_path: Path) -> None:
    asked = {"thread_id": tmp_path.name, "when_pending": "fail", "arguments": {"note": "n" * 5000}}
    async with web.http("wordy") as http:
        first = await http.post("/v1/approvals", json=call(tmp_path, **asked))
        assert first.status_code == 201
        known = call(tmp_path, **asked, approval_id=first.json()["approval_id"])
        again = [(await http.post("/v1/approvals", json=known)).status_code for _ in range(5)]
        assert again == [200] * 5, "what attaches stores nothing"
        busy = [await http.post("/v1/approvals", json=call(tmp_path, **asked)) for _ in range(4)]
        assert [answer.status_code for answer in busy] == [409, 409, 429, 429]
        assert busy[-1].json()["quota"] == "bytes_per_day"
        assert (await http.post("/v1/approvals", json=known)).status_code == 200
        more = await http.post("/v1/approvals", json=call(tmp_path, **asked))
        assert more.status_code == 429, "what attached at the limit gives nothing back"


async def test_who_hurries_is_told_when_to_come_back_and_our_client_waits(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web.http("slow") as http:
        answers = [await http.get("/v1/tools") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        problem = answers[-1].json()
        assert (problem["quota"], problem["limit"]) == ("requests_per_minute", 3)
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 20
    door = HttpDoor("http://127.0.0.1", "secret-slow", transport=web.transport())
    monkeypatch.setattr(HttpDoor._insist, "__kwdefaults__", {"patience": 0.5})  # shorter than it is told to wait
    with pytest.raises(QuotaExceeded) as exceeded:
        await Assent(door).request("mark", {"path": str(tmp_path)}, requester=ME)
    assert (exceeded.value.quota, exceeded.value.limit) == ("requests_per_minute", 3)
    await door.close()


async def test_a_quota_of_the_house_ends_a_request_of_a_trusted_client_too(
    temporal_address: str, namespaces: Iterator[str], tmp_path: Path
) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", tmp_path)
        service: Service = await open_service(stack, client, url, requester_pending=1)
        asked = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
        await asked.state()
        with pytest.raises(QuotaExceeded) as exceeded:
            await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, approval_id="second")
        assert exceeded.value.quota == "requester_pending"
        await asked.cancel()
        await asked.outcome()
        second = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, approval_id="second")
        assert (await second.state()).phase == "pending", "the id was still free"


def test_a_minute_is_counted_as_it_passes() -> None:
    now = 0.0
    rates = Rates(lambda: now)
    assert [rates.take("a", 2) for _ in range(3)] == [None, None, 30]
    assert rates.take("b", 2) is None, "another's are counted apart"
    now = 29.0
    assert rates.take("a", 2) == 1
    now = 30.0
    assert rates.take("a", 2) is None
    now = 10_000.0
    assert rates.take("a", 2, 2) is None, "at most a minute's worth is saved up"
    assert rates.take("a", 2, 5) == 60
    rates.give_back("a", 2)
    assert rates.take("a", 2, 2) is None
    by_the_day = Rates(lambda: now, window=86400)
    assert [by_the_day.take("a", 100, 60) for _ in range(2)] == [None, 17280]
