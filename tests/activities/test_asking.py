"""A tool asks while it runs: who answers, what a later attempt gets, and what becomes of what nobody answered."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from activities.asking import Stopwatch
from activities.bodies import Body, TimedOut
from assent import ApprovalHandle, Identity, InvalidTool, QuestionHandle, Registry, names, tool
from assent.types import AskedQuestion
from tests.conftest import ME, Service
from tests.support.tools import HAN_MEIMEI, LI_LEI, marks
from tests.support.waiting import until

STRANGER = Identity(open_id="ou_stranger")


async def running(service: Service, name: str, path: Path, actor: Identity = ME) -> ApprovalHandle:
    """A call that was approved."""
    handle = await service.gate.request(name, {"path": str(path / "marks")}, requester=ME)
    state = await handle.state()
    verdict = await handle.decide("approve", actor=actor, payload_sha256=state.payload_sha256)
    assert verdict.kind == "accepted"
    return handle


async def asked_by(service: Service, name: str, but: tuple[str, ...] = ()) -> QuestionHandle:
    """What a tool asks just now."""

    async def found() -> AskedQuestion | None:
        async for line in service.gate.questions(status="pending"):
            if line.tool == name and line.question_id not in but:
                return line
        return None

    return service.gate.question((await until(found)).question_id)


async def answer(question: QuestionHandle, answers: dict[str, Any], actor: Identity) -> str:
    sha256 = (await question.state()).questions_sha256
    return (await question.respond(answers, actor=actor, questions_sha256=sha256)).kind.value


async def test_those_who_may_decide_the_call_answer(service: Service, tmp_path: Path) -> None:
    handle = await running(service, "asks_where", tmp_path, LI_LEI)
    question = await asked_by(service, "asks_where")
    state = await question.state()
    assert (state.approval_id, state.tool, state.awaits(HAN_MEIMEI)) == (handle.id, "asks_where", True)
    assert await answer(question, {"where": "staging"}, ME) == "forbidden"
    assert await answer(question, {"where": "mars"}, HAN_MEIMEI) == "invalid"
    assert marks(tmp_path / "marks") == 0
    assert await answer(question, {"where": "staging"}, HAN_MEIMEI) == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("executed", {"where": "staging", "marks": 1})
    assert await service.events(names.question_workflow(question.id)) == ["ask", "forbid", "answer"]


async def test_the_same_words_asked_twice_are_two_questions_and_no_time_runs(service: Service, tmp_path: Path) -> None:
    handle = await running(service, "asks_twice", tmp_path)
    first = await asked_by(service, "asks_twice")
    await asyncio.sleep(1.2)  # longer than the tool's own time
    assert await answer(first, {"answer": True}, ME) == "accepted"
    second = await asked_by(service, "asks_twice", but=(first.id,))
    assert await answer(second, {"answer": False}, ME) == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("executed", {"said": [True, False], "marks": 1})


async def test_a_later_attempt_gets_the_answer_that_was_given(service: Service, tmp_path: Path) -> None:
    handle = await running(service, "asks_and_dies", tmp_path)
    question = await asked_by(service, "asks_and_dies")
    assert await answer(question, {"where": "moon"}, ME) == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content) == ("executed", {"where": "moon", "attempt": 2})
    asked = [line async for line in service.gate.questions() if line.tool == "asks_and_dies"]
    assert [line.question_id for line in asked] == [question.id]


async def test_the_time_for_questions_is_one_for_all(service: Service, tmp_path: Path) -> None:
    handle = await running(service, "asks_briefly", tmp_path)
    assert (await handle.outcome()).content == ["expired", "expired"]
    asked = [line async for line in service.gate.questions() if line.tool == "asks_briefly"]
    assert len(asked) == 1, "for the second there was no time left"


async def test_what_is_still_open_when_the_call_ends_is_withdrawn(service: Service, tmp_path: Path) -> None:
    handle = await running(service, "asks_in_vain", tmp_path)
    question = await asked_by(service, "asks_in_vain")
    assert (await question.state()).is_prepared
    (tmp_path / "marks").touch()
    assert (await handle.outcome()).status == "executed"
    outcome = await question.answer()
    assert (outcome.status, outcome.reason) == ("cancelled", "the call that asked has ended")
    assert await answer(question, {"where": "moon"}, ME) == "already_decided"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("asks_undeclared", "this tool may not ask"),
        ("asks_in_its_probe", "a probe cannot ask"),
    ],
)
async def test_who_may_not_ask_is_told_so(service: Service, tmp_path: Path, name: str, content: str) -> None:
    outcome = await (await running(service, name, tmp_path)).outcome()
    assert str(outcome.content).startswith(content)
    assert [line async for line in service.gate.questions() if line.tool == name] == []


async def test_while_people_are_waited_for_the_time_stands_still() -> None:
    stopwatch, go_on = Stopwatch(), asyncio.Event()

    async def waits() -> str:
        with stopwatch:
            await go_on.wait()
        await asyncio.Event().wait()
        return "never"

    ending = asyncio.ensure_future(Body(waits).end_by(stopwatch, timedelta(seconds=0.05)))
    await asyncio.sleep(0.2)
    assert not ending.done()
    go_on.set()
    assert isinstance(await ending, TimedOut)
    assert stopwatch.waited > 0.1


@pytest.mark.parametrize("asks", [timedelta(0), timedelta(days=400)])
def test_the_time_for_questions_is_some_and_bounded(asks: timedelta) -> None:
    with pytest.raises(InvalidTool, match=r"asks|timeout"):
        tool(asks=asks, registry=Registry())(asked)


def asked(path: str) -> None:
    """Asks."""
