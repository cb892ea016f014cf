"""The bridge: lines for running programs over HTTP, once whatever is retried, and only from whom they may come."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from standardwebhooks import Webhook

from assent import ApprovalHandle, names
from assent.api.problems import Code
from assent.contracts.questions import Question, QuestionKind, QuestionRequest
from assent.contracts.runs import AnswerType, AskingRun, RunHolder, RunNews, RunStart
from assent.temporal import questions as temporal_questions
from assent.temporal.questions import TemporalQuestions
from assent.temporal.runs import tell_run
from assent.temporal.talking import Talking
from tests.conftest import ME, new_database, open_service
from tests.support import servers
from tests.support.feishu_service import Agent
from tests.support.programs import MANY, PROMPTS, lines, script
from tests.support.simulated_feishu import served
from tests.support.waiting import until
from tests.support.web import Web, is_problem
from workers import interactions
from workers.approvals import approvals_worker

ONE = ["open_id:ou_me"]
AGENTS: dict[str, dict[str, Any]] = {
    "agent": {"tools": ["*"], "on_behalf_of": ["*"]},
    "bridge": {"on_behalf_of": ["*"], "may_bridge": True},
    "host": {"on_behalf_of": ["*"], "may_bridge": True, "callbacks": ["http://127.0.0.1/"]},
    "narrow": {"on_behalf_of": ["open_id:ou_narrow"], "may_bridge": True},
    "approver": {"tools": ["*"], "on_behalf_of": ["*"], "may_decide": True},
    "asks_and_bridges": {"tools": ["*"], "on_behalf_of": ["*"], "may_bridge": True},
    "person": {"on_behalf_of": ONE},
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def web(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    temporal_address: str,
    namespaces: Iterator[str],
) -> AsyncIterator[Web]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("bridge")
    async with AsyncExitStack() as stack:
        url = await new_database(request.param, directory)
        yield Web(await open_service(stack, client, url, callback_secret="whsec_c2VjcmV0"), directory, AGENTS)


class Running:
    """A program that a call runs, and what it waits for."""

    def __init__(self, web: Web, handle: ApprovalHandle, counter: Path) -> None:
        self.web, self.handle, self.counter = web, handle, counter
        self.run_id = ""

    async def pending(self, request_id: str) -> str:
        async def found() -> str | None:
            async for line in self.web.service.gate.questions(status="pending"):
                known = await self.web.service.ledger.question(line.question_id)
                mine = known is not None and known.approval_id == self.handle.id
                if mine and line.question_id.endswith(f":{request_id}"):
                    return line.question_id
            return None

        question_id = await until(found)
        self.run_id = question_id.partition(":")[0]
        return question_id


async def running(web: Web, path: Path, text: str = PROMPTS, token: str = "agent", **more: Any) -> Running:
    counter = path / "read"
    tool = "prompted_often" if more else "prompted"
    async with web.gate(token) as agent:
        asked = {"script": str(script(path, text)), "counter": str(counter), **more}
        handle = await agent.request(tool, asked, requester=ME)
    state = await web.service.gate.approval(handle.id).state()
    gate = web.service.gate.approval(handle.id)
    assert (await gate.decide("approve", actor=ME, payload_sha256=state.payload_sha256)).kind == "accepted"
    return Running(web, gate, counter)


def line(request_id: str, text: str, event_id: str | None = None, actor: str = "ou_me") -> dict[str, Any]:
    event = event_id or uuid.uuid4().hex
    source = {"channel": "lark", "event_id": event, "actor_id": actor}
    return {"interaction_request_id": request_id, "stdin_text": text, "source": source, "idempotency_key": event}


def is_refused(response: httpx.Response, code: Code) -> bool:
    return is_problem(response, int(code.split("-")[2]), code.value)


async def test_a_line_is_written_once_whatever_is_sent_again(web: Web, tmp_path: Path) -> None:
    run = await running(web, tmp_path)
    await run.pending("where")
    path = f"/internal/tool-runs/{run.run_id}/stdin"
    async with web.http("bridge") as http:
        first = line("where", "staging\n")
        answers = await asyncio.gather(*(http.post(path, json=first) for _ in range(5)))
        assert [each.status_code for each in answers] == [200] * 5, [each.text for each in answers]
        found = [each.json() for each in answers]
        assert {each["status"] for each in found} <= {"ACCEPTED", "NOOP_IDEMPOTENT"}
        assert {*found[0]} == {"status", "run_id", "interaction_request_id", "written_bytes", "processed_at"}
        assert {each["written_bytes"] for each in found} == {8}
        again = (await http.post(path, json=first)).json()
        assert (again["status"], again["run_id"]) == ("NOOP_IDEMPOTENT", run.run_id)
        assert is_refused(await http.post(path, json=line("where", "production\n")), Code.ANSWER_ALREADY_CONSUMED)
        await run.pending("who")
        written = (await http.post(path, json=line("who", "刘备\n"))).json()
        assert (written["status"], written["written_bytes"]) == ("ACCEPTED", 7)
        await run.pending("input-3")
        seen = (await http.get(f"/internal/interactions/{run.run_id}:who")).json()
        assert (seen["status"], seen["answer"]) == ("RESOLVED", {"answer_type": "text", "answer_value": "刘备"})
        assert (seen["write"], seen["answered_by"]) == ("written", {"actor_type": "user", "actor_id": "ou_me"})
        assert seen["tool_session_id"] == run.handle.id
        listed = (await http.get("/internal/interactions", params={"run_id": run.run_id})).json()["interactions"]
        assert [each["interaction_request_id"] for each in listed] == ["where", "who", "input-3"]
        assert (await http.post(path, json=line("input-3", "no"))).json()["status"] == "ACCEPTED"
        assert (await run.handle.outcome()).status == "executed"
        assert lines(run.counter) == ["staging", "刘备", "no"]
        late = await http.post(path, json=line("input-3", "yes\n"))
        assert is_refused(late, Code.ANSWER_ALREADY_CONSUMED)
    assert await web.service.ledger.verify() == []


async def test_only_a_line_of_that_run_from_whom_it_may_come(web: Web, tmp_path: Path) -> None:
    run = await running(web, tmp_path, token="asks_and_bridges")
    (tmp_path / "other").mkdir()
    other = await running(web, tmp_path / "other", MANY, most=1)
    question_id = await run.pending("where")
    await other.pending("q1")
    path = f"/internal/tool-runs/{run.run_id}/stdin"
    good = line("where", "staging\n")
    async with web.http("bridge") as http:
        strange = await http.post(f"/internal/tool-runs/{other.run_id}/stdin", json=good)
        assert is_refused(strange, Code.INTERACTION_NOT_FOUND)
        assert is_refused(await http.post(path, json=line("q1", "x\n")), Code.INTERACTION_NOT_FOUND)
        assert is_refused(await http.post("/internal/tool-runs/none/stdin", json=good), Code.INTERACTION_NOT_FOUND)
        for flawed in ("a\nb\n", "\x1b[31m\n", "\n", "mars\n", "a\r\n", "staging\n\n"):
            refused = await http.post(path, json=line("where", flawed))
            assert is_problem(refused, 422, "invalid_request"), (flawed, refused.text)
        outsider = await http.post(path, json=line("where", "staging\n", actor="ou_stranger"))
        assert is_problem(outsider, 403, "forbidden")
    async with web.http("narrow") as http:
        assert is_problem(await http.post(path, json=good), 403, "forbidden")
        assert is_refused(await http.get(f"/internal/interactions/{question_id}"), Code.INTERACTION_NOT_FOUND)
    for token in ("agent", "approver", "asks_and_bridges"):  # may not bridge; or asked for the call itself
        async with web.http(token) as http:
            assert is_problem(await http.post(path, json=good), 403, "forbidden")
    async with web.http("asks_and_bridges") as http:
        assert is_refused(await http.get(f"/internal/interactions/{question_id}"), Code.INTERACTION_NOT_FOUND)
    assert lines(run.counter) == []
    for each in (run, other):
        tool = web.service.gate.question(await each.pending("where" if each is run else "q1"))
        sha256 = (await tool.state()).questions_sha256
        said = "staging" if each is run else "x"
        assert (await tool.respond({"answer": said}, actor=ME, questions_sha256=sha256)).kind == "accepted"


async def test_a_program_that_has_ended_takes_nothing(web: Web, tmp_path: Path) -> None:
    go = tmp_path / "go"
    asks = 'echo \'NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "interaction_request_id": "left"}\''
    run = await running(web, tmp_path, f"{asks}\nwhile [ ! -e '{go}' ]; do sleep 0.05; done\n")
    question_id = await run.pending("left")
    go.touch()
    assert (await run.handle.outcome()).status == "executed"
    async with web.http("bridge") as http:
        path = f"/internal/tool-runs/{run.run_id}/stdin"
        assert is_refused(await http.post(path, json=line("left", "x\n")), Code.RUN_NOT_ACTIVE)
        seen = (await http.get(f"/internal/interactions/{question_id}", params={"wait": 5})).json()
        assert seen["status"] == "CANCELLED"


async def hosted(web: Web, run_id: str, request_id: str | None = "ir", **more: Any) -> httpx.Response:
    asked = {"run_id": run_id, "answer_type": "text", "prompt": "Which?", "requester": {"open_id": "ou_me"}, **more}
    if request_id:
        asked["interaction_request_id"] = request_id
    async with web.http("host") as http:
        return await http.post("/internal/interactions", json=asked)


async def test_a_host_asks_and_another_token_hands_in_the_answer(web: Web) -> None:
    host, run_id = Agent(), uuid.uuid4().hex
    async with served(host.app) as url, web.http("host") as http, web.http("bridge") as bridge:
        asked = {"callback_url": f"{url}/hook", "collab_session_id": "thread-9", "tool_session_id": "s-1"}
        refused = await hosted(web, run_id, **asked)
        assert is_problem(refused, 403, "forbidden"), "its port is another one"
        asked.pop("callback_url")
        made = await hosted(web, run_id, **asked)
        assert (made.status_code, made.json()["status"], made.json()["collab_session_id"]) == (
            201,
            "PENDING",
            "thread-9",
        )
        assert (await hosted(web, run_id, **asked)).status_code == 200
        assert is_problem(await hosted(web, run_id, "other", **asked), 422, "invalid_request"), "one at a time"
        mine = await http.post(f"/internal/tool-runs/{run_id}/stdin", json=line("ir", "x\n"))
        assert is_problem(mine, 403, "forbidden"), "it asked itself"
        event = line("ir", "blue\n", "event-1")
        taken = (await bridge.post(f"/internal/tool-runs/{run_id}/stdin", json=event)).json()
        assert (taken["status"], taken["written_bytes"]) == ("ACCEPTED", 5)
        seen = (await http.get("/internal/interactions/ir", params={"run_id": run_id})).json()
        assert (seen["status"], seen["answer"]["answer_value"]) == ("RESOLVED", "blue")


async def test_an_id_may_hold_whatever_a_path_cannot(web: Web) -> None:
    run_id, request_id = uuid.uuid4().hex, "a/b%2Fc?d#e:f"
    assert (await hosted(web, run_id, request_id)).status_code == 201
    for named, query in ((f"{run_id}:{request_id}", {}), (request_id, {"run_id": run_id})):
        path = f"/internal/interactions/{quote(named, safe='')}"
        async with web.http("host") as http:
            found = await http.get(path, params=query)
            assert (found.status_code, found.json()["interaction_request_id"]) == (200, request_id), found.text
            cancelled = await http.post(f"{path}/cancel", params=query)
            assert cancelled.json()["status"] == "CANCELLED", cancelled.text


async def test_what_is_asked_while_nobody_works_is_never_called_not_found(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever named no id is told the one that it was asked under: sent again with it, nobody is asked twice."""
    run_id = uuid.uuid4().hex
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", tmp_path)
        web = Web(await open_service(stack, client, url, workers=False), tmp_path, AGENTS)
        with monkeypatch.context() as hasty:
            hasty.setattr(interactions, "_ON_RECORD_WITHIN", timedelta(milliseconds=200))
            hasty.setattr(temporal_questions, "_PREPARED_WITHIN", timedelta(milliseconds=200))
            unseen = await hosted(web, run_id, None)
        assert is_problem(unseen, 503, "unavailable"), unseen.text
        (request_id,) = re.findall(r"interaction_request_id='(\w+)'", unseen.json()["detail"])
        await stack.enter_async_context(approvals_worker(client, web.service.ledger, web.service.settings, None))
        found = await hosted(web, run_id, request_id)
        assert (found.status_code, found.json()["status"]) == (200, "PENDING"), found.text
        async with web.http("host") as http:
            asked = (await http.get("/internal/interactions", params={"run_id": run_id})).json()["interactions"]
            assert [each["interaction_request_id"] for each in asked] == [request_id]


async def test_what_was_ended_by_hand_before_it_was_asked_is_said_to_be(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = uuid.uuid4().hex
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        url = await new_database("sqlite", tmp_path)
        web = Web(await open_service(stack, client, url, workers=False), tmp_path, AGENTS)
        monkeypatch.setattr(interactions, "_ON_RECORD_WITHIN", timedelta(milliseconds=200))
        monkeypatch.setattr(temporal_questions, "_PREPARED_WITHIN", timedelta(milliseconds=200))
        assert is_problem(await hosted(web, run_id, "first"), 503, "unavailable")
        await client.get_workflow_handle(names.question_workflow(f"{run_id}:first")).terminate("by hand")
        for _ in range(2):
            ended = await hosted(web, run_id, "first")
            assert is_problem(ended, 409, "question_interrupted"), ended.text
        await stack.enter_async_context(approvals_worker(client, web.service.ledger, web.service.settings, None))
        monkeypatch.undo()
        assert is_problem(await hosted(web, run_id, "first"), 409, "question_interrupted")
        assert (await hosted(web, run_id, "second")).status_code == 201


async def test_an_interaction_is_withdrawn_or_expires_and_then_takes_nothing(web: Web) -> None:
    run_id = uuid.uuid4().hex
    await hosted(web, run_id, "first")
    async with web.http("host") as http, web.http("bridge") as bridge:
        path = f"/internal/tool-runs/{run_id}/stdin"
        gone = await http.post(f"/internal/interactions/{run_id}:first/cancel", json={"reason": "not needed"})
        assert (gone.json()["status"], gone.json()["reason"]) == ("CANCELLED", "not needed")
        assert (await http.post(f"/internal/interactions/{run_id}:first/cancel")).json()["status"] == "CANCELLED"
        assert is_refused(await bridge.post(path, json=line("first", "x\n")), Code.INTERACTION_NOT_PENDING)
        await hosted(web, run_id, "second", expires_in=0.2)
        expired = await http.get(f"/internal/interactions/{run_id}:second", params={"wait": 20})
        assert expired.json()["status"] == "EXPIRED"
        assert is_refused(await bridge.post(path, json=line("second", "x\n")), Code.INTERACTION_EXPIRED)
        refused = await http.post(f"/internal/interactions/{run_id}:second/cancel")
        assert is_refused(refused, Code.INTERACTION_EXPIRED)


async def test_a_run_of_ones_own_fetches_each_line_once(web: Web) -> None:
    run_id = uuid.uuid4().hex
    base = f"/v1/runs/{run_id}/interactions"
    asked = {"answer_type": "text", "prompt": "Which?", "requester": {"open_id": "ou_me"}}
    async with web.http("person") as http, web.http("bridge") as bridge, web.http("agent") as stranger:
        made = await http.post(base, json={**asked, "interaction_request_id": "a"})
        assert (made.status_code, made.json()["status"]) == (201, "PENDING"), made.text
        assert (await http.post(f"{base}/a/claim", json={"token": "t-1"})).json()["stdin_text"] is None
        answering = asyncio.ensure_future(
            bridge.post(f"/internal/tool-runs/{run_id}/stdin", json=line("a", "one\n", "e-own"))
        )
        offered = (await http.get(f"{base}/a", params={"wait": 20})).json()
        assert (offered["status"], offered["is_answered"], offered["answer"]) == ("PENDING", True, None)
        other = await bridge.post(f"/internal/tool-runs/{run_id}/stdin", json=line("a", "two\n"))
        assert is_refused(other, Code.ANSWER_ALREADY_CONSUMED)
        assert (await stranger.post(f"{base}/a/claim", json={"token": "t"})).status_code == 404
        first = (await http.post(f"{base}/a/claim", json={"token": "t-2"})).json()
        again = (await http.post(f"{base}/a/claim", json={"token": "t-2"})).json()
        late = (await http.post(f"{base}/a/claim", json={"token": "t-3"})).json()
        assert (first["stdin_text"], again["stdin_text"], late["stdin_text"]) == ("one\n", "one\n", None)
        done = await http.post(f"{base}/a/written", json={"token": "t-2", "written_bytes": 4})
        assert (done.json()["state"], done.json()["written_bytes"]) == ("written", 4)
        assert (await answering).json()["status"] == "ACCEPTED"


async def test_a_line_that_was_claimed_and_never_confirmed_is_unknown_and_never_written_again(web: Web) -> None:
    run_id = uuid.uuid4().hex
    base = f"/v1/runs/{run_id}/interactions"
    asked = {"answer_type": "text", "prompt": "Which?", "requester": {"open_id": "ou_me"}}
    about = {"requester": {"open_id": "ou_me"}, "has_ended": True, "exit_code": 1}
    async with web.http("person") as http, web.http("bridge") as bridge:
        await http.post(base, json={**asked, "interaction_request_id": "a"})
        event = line("a", "one\n", "e-lost")
        path = f"/internal/tool-runs/{run_id}/stdin"
        answering = asyncio.ensure_future(bridge.post(path, json=event))
        await http.get(f"{base}/a", params={"wait": 20})
        assert (await http.post(f"{base}/a/claim", json={"token": "t"})).json()["stdin_text"] == "one\n"
        assert (await http.post(f"/v1/runs/{run_id}/progress", json=about)).status_code == 200  # it dies here
        assert is_refused(await answering, Code.INTERACTION_NOT_PENDING)
        seen = (await http.get(f"{base}/a", params={"wait": 20})).json()
        assert (seen["status"], seen["write"], seen["reason"]) == ("CANCELLED", "unknown", "write: unknown")
        assert (await http.post(f"{base}/a/claim", json={"token": "t"})).json()["stdin_text"] is None
        assert (await http.post(f"{base}/a/written", json={"token": "t", "written_bytes": 4})).json()[
            "state"
        ] == "unknown"


async def test_a_run_belongs_to_the_token_that_speaks_of_it_first(web: Web) -> None:
    run_id = uuid.uuid4().hex
    path, asked = f"/v1/runs/{run_id}/progress", {"requester": {"open_id": "ou_me"}}
    async with web.http("person") as http, web.http("agent") as stranger:
        assert (await http.post(path, json={**asked, "summary": "half of it"})).json() == {"heard": True}

        async def is_noted() -> bool:
            return await web.service.ledger.run_output(run_id) is not None

        await until(is_noted)
        ended = {**asked, "has_ended": True, "exit_code": 9}
        assert is_refused(await stranger.post(path, json=ended), Code.INTERACTION_NOT_FOUND)
        start = RunStart(run_id=run_id, tool="x", requester=ME, asked_by="another")
        assert await tell_run(web.service.client, start, RunNews(has_ended=True, exit_code=9, told_by="another"))
        question = {**asked, "answer_type": "text", "prompt": "Which?"}
        refused = await stranger.post(f"/v1/runs/{run_id}/interactions", json=question)
        assert (refused.status_code, "somebody else" in refused.text) == (422, True), refused.text
        assert (await http.post(path, json={**ended, "exit_code": 0})).json() == {"heard": True}
        await web.service.client.get_workflow_handle(names.run_workflow(run_id)).result()
    assert await web.service.ledger.run_output(run_id) == (b"", 0)


async def test_a_run_that_has_ended_is_not_active_from_then_on(web: Web) -> None:
    run_id = uuid.uuid4().hex
    asked = {"requester": {"open_id": "ou_me"}}
    question = {**asked, "answer_type": "text", "prompt": "Which?", "interaction_request_id": "a"}
    async with web.http("person") as http, web.http("bridge") as bridge:
        await http.post(f"/v1/runs/{run_id}/interactions", json=question)
        await http.post(f"/v1/runs/{run_id}/progress", json={**asked, "has_ended": True, "exit_code": 0})
        for _ in range(3):
            late = await bridge.post(f"/internal/tool-runs/{run_id}/stdin", json=line("a", "one\n"))
            assert is_refused(late, Code.RUN_NOT_ACTIVE), late.text
        seen = (await http.get(f"/v1/runs/{run_id}/interactions/a")).json()
        assert (seen["status"], seen["reason"], seen["write"]) == ("CANCELLED", "run: not active", None)


async def test_what_a_host_is_posted_has_all_fields(web: Web) -> None:
    host, run_id = Agent(), uuid.uuid4().hex
    run = AskingRun(
        run_id=run_id,
        holder=RunHolder.HOST,
        tool="deploy.sh",
        tool_session_id="session-1",
        collab_session_id="thread-9",
        interaction_request_id="ir",
        answer_type=AnswerType.TEXT,
    )
    async with served(host.app) as url, web.http("bridge") as bridge:
        request = QuestionRequest(
            question_id=run.question_id,
            questions=(Question(prompt="Which?", kind=QuestionKind.TEXT),),
            requester=ME,
            run=run,
            callback_url=f"{url}/hook",
        )
        await TemporalQuestions(Talking(web.service.client), None).ask(request)
        taken = await bridge.post(f"/internal/tool-runs/{run_id}/stdin", json=line("ir", "blue\n", "event-7"))
        assert taken.json()["status"] == "ACCEPTED"

        async def told() -> bool:
            return bool(host.told)

        await until(told)
    headers, body = host.told[0]
    Webhook("whsec_c2VjcmV0").verify(body, headers)
    posted = json.loads(body)
    assert posted.pop("occurred_at")
    assert posted == {
        "event_id": "event-7",
        "event_type": "interaction.answer.submitted",
        "collab_session_id": "thread-9",
        "tool_session_id": "session-1",
        "interaction_request_id": "ir",
        "run_id": run_id,
        "answered_by": {"actor_type": "user", "actor_id": "ou_me"},
        "answer": {"answer_type": "text", "answer_value": "blue"},
        "idempotency_key": f"{run_id}:ir",
    }
