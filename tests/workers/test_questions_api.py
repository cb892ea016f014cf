"""Questions over HTTP: who may ask whom, who sees what, and that nobody answers themselves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from standardwebhooks import Webhook

from assent import Identity, NotAllowed, QuestionConflict, QuestionHandle, QuestionNotFound, SyncAssent
from tests.conftest import ME, new_database, open_service
from tests.support import servers
from tests.support.feishu_service import Agent
from tests.support.questions import GOOD, SURE, WHERE
from tests.support.simulated_feishu import served
from tests.support.waiting import until
from tests.support.web import Web, is_problem

AGENTS: dict[str, dict[str, Any]] = {
    "agent": {"on_behalf_of": ["*"], "callbacks": []},
    "approver": {"on_behalf_of": ["*"], "may_decide": True},
    "both": {"on_behalf_of": ["*"], "may_decide": True},
    "narrow": {"on_behalf_of": ["open_id:ou_narrow"]},
    "asker": {"on_behalf_of": ["open_id:ou_narrow"], "may_ask": ["open_id:ou_expert", "chat:oc_experts"]},
    "silent": {"tools": ["*"], "on_behalf_of": ["*"], "may_ask": []},
    "expert": {"on_behalf_of": ["open_id:ou_expert"], "may_decide": True},
}
NARROW, EXPERT = Identity(open_id="ou_narrow"), Identity(open_id="ou_expert")
ASKED = [{"id": "sure", "prompt": "Sure?", "kind": "confirm"}]


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("questions")
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", directory)
        yield Web(await open_service(stack, client, url, callback_secret="whsec_c2VjcmV0"), directory, AGENTS)


async def answered(handle: QuestionHandle, answers: dict[str, Any], actor: Identity = ME) -> str:
    sha256 = (await handle.state()).questions_sha256
    return (await handle.respond(answers, actor=actor, questions_sha256=sha256)).kind.value


async def test_an_agent_asks_and_another_token_tells_the_answer(web: Web) -> None:
    async with web.gate() as asking, web.gate("approver") as deciding:
        mine = await asking.ask([WHERE, SURE], requester=ME, thread_id="t-http")
        again = await asking.ask([WHERE, SURE], requester=ME, thread_id="t-http", question_id=mine.id)
        assert again.id == mine.id
        with pytest.raises(QuestionConflict):
            await asking.ask([SURE], requester=ME, question_id=mine.id)
        theirs = deciding.question(mine.id)
        assert await answered(theirs, {"where": "moon", "sure": True}) == "invalid"
        assert await answered(theirs, {"where": "staging", "sure": True}) == "accepted"
        outcome = await mine.answer()
        assert (outcome.status, outcome.answers) == ("resolved", {"where": "staging", "sure": True})
        assert await answered(theirs, {"where": "staging", "sure": True}) == "already_decided"
        listed = [line.question_id async for line in asking.questions(thread_id="t-http")]
        assert listed == [mine.id]
        assert [record.entry.event for record in await mine.audit()][:2] == ["ask", "answer"]


async def test_the_blocking_client_asks_and_answers_too(web: Web) -> None:
    async with served(web.app) as url:

        def at_work() -> tuple[Any, str]:
            with SyncAssent.connect(url, token="secret-agent") as gate:
                handle = gate.ask(SURE, requester=ME)
                with SyncAssent.connect(url, token="secret-approver") as other:
                    there = other.question(handle.id)
                    shown = there.state().questions_sha256
                    verdict = there.respond({"sure": False}, actor=ME, questions_sha256=shown)
                    assert [each for each in other.inbox(ME) if getattr(each, "question_id", "") == handle.id] == []
                assert handle.id in [line.question_id for line in gate.questions()]
                handle.cancel("too late")
                return handle.answer().answers, verdict.kind.value

        assert await asyncio.to_thread(at_work) == ({"sure": False}, "accepted")


async def test_nobody_answers_what_they_asked_themselves(web: Web) -> None:
    async with web.gate("both") as both:
        mine = await both.ask(SURE, requester=ME)
        with pytest.raises(NotAllowed, match="asked this question"):
            await answered(mine, {"sure": True})
    async with web.gate() as agent:
        theirs = await agent.ask(SURE, requester=ME)
        with pytest.raises(NotAllowed, match="may not decide"):
            await answered(theirs, {"sure": True})
        await theirs.cancel()
        assert (await theirs.answer()).status == "cancelled"


@pytest.mark.parametrize(
    ("token", "asked", "refused"),
    [
        ("narrow", {"requester": NARROW}, None),
        ("narrow", {"requester": ME}, "on behalf of"),
        ("narrow", {"requester": NARROW, "people": [EXPERT]}, "may not ask open_id:ou_expert"),
        ("asker", {"requester": NARROW}, "may not ask open_id:ou_narrow"),
        ("asker", {"requester": NARROW, "people": [EXPERT]}, None),
        ("asker", {"requester": NARROW, "people": [EXPERT, ME]}, "may not ask"),
        ("asker", {"requester": NARROW, "members": True, "chat_id": "oc_others"}, "members of the chat"),
        ("silent", {"requester": ME}, "may not ask anybody"),
        ("agent", {"requester": ME, "callback_url": "https://elsewhere.example/"}, "called back"),
    ],
)
async def test_a_token_asks_only_whom_it_may(web: Web, token: str, asked: dict[str, Any], refused: str | None) -> None:
    async with web.gate(token) as gate:
        if refused is None:
            await (await gate.ask(SURE, **asked)).cancel()
            return
        with pytest.raises(NotAllowed, match=refused):
            await gate.ask(SURE, **asked)


async def test_others_questions_look_like_none(web: Web) -> None:
    async with web.gate("asker") as asker, web.gate("narrow") as narrow, web.gate("expert") as expert:
        handle = await asker.ask(SURE, requester=NARROW, people=[EXPERT])
        for ask in (narrow.question(handle.id).state(), narrow.question(handle.id).audit()):
            with pytest.raises(QuestionNotFound):
                await ask
        assert handle.id not in [line.question_id async for line in narrow.questions()]
        assert handle.id in [line.question_id async for line in asker.questions()]
        assert await answered(expert.question(handle.id), {"sure": True}, EXPERT) == "accepted"
        assert (await handle.answer()).answered_by == EXPERT


async def test_the_wire_is_strict(web: Web) -> None:
    async with web.http() as http:
        body = {"questions": ASKED, "requester": {"open_id": "ou_me"}}
        made = await http.post("/v1/questions", json=body)
        assert made.status_code == 201, made.text
        question_id = made.json()["question_id"]
        assert made.headers["location"] == f"/v1/questions/{question_id}"
        view = (await http.get(f"/v1/questions/{question_id}", params={"wait": 1})).json()
        assert (view["status"], view["outcome"]) == ("pending", None)
        for wrong in (
            {**body, "question": ASKED},
            {**body, "questions": [{**ASKED[0], "multiselect": True}]},
            {**body, "questions": []},
            {**body, "questions": [{"prompt": "x", "kind": "choice", "options": [{"value": "a", "text": "b"}]}]},
        ):
            assert is_problem(await http.post("/v1/questions", json=wrong), 422, "invalid_request")
        assert is_problem(await http.get("/v1/questions/nobody"), 404, "question_not_found")
        cancelled = (await http.post(f"/v1/questions/{question_id}/cancel", json={"reason": "done"})).json()
        assert (cancelled["status"], cancelled["outcome"]["reason"]) == ("cancelled", "done")
    async with web.http("approver") as http:
        told = {"answers": {"sure": True}, "questions_sha256": "0" * 64, "actor": {"open_id": "ou_me"}}
        late = (await http.post(f"/v1/questions/{question_id}/answer", json=told)).json()
        assert late["kind"] == "tampered"


async def test_an_answer_is_announced_signed(web: Web) -> None:
    agent = Agent()
    async with served(agent.app) as url, web.gate("approver") as deciding:
        mine = await web.service.gate.ask([WHERE], requester=ME, callback_url=f"{url}/hook")
        assert await answered(deciding.question(mine.id), {"where": "production"}) == "accepted"

        async def told() -> bool:
            return bool(agent.told)

        await until(told)
        headers, body = agent.told[0]
        Webhook("whsec_c2VjcmV0").verify(body, headers)
        posted = json.loads(body)
    assert (posted["question"]["question_id"], posted["question"]["answers"]) == (mine.id, {"where": "production"})
    assert posted["audit"]["approval_id"] == f"question/{mine.id}"
    assert "outcome" not in posted
    assert GOOD["where"] == "staging"
