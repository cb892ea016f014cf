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
from tests.conftest import ME, OPERATOR, Service
from tests.support.tools import HAN_MEIMEI, LI_LEI, marks
from tests.support.waiting import until

STRANGER = Identity(open_id="ou_stranger")


async def running(service: Service, name: str, path: Path, actor: Identity = ME, **asked: Any) -> ApprovalHandle:
    """A call that was approved."""
    handle = await service.gate.request(name, {"path": str(path / "marks")}, requester=ME, **asked)
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


async def held_back(service: Service, handle: ApprovalHandle, why: str) -> None:
    """Wait until a worker was asked to begin a call, and left it for later."""
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def told() -> bool:
        pending = (await workflow.describe()).raw_description.pending_activities
        return any(why in each.last_failure.message for each in pending)

    await until(told)


async def test_at_most_half_of_the_places_wait_for_people_and_the_others_go_on(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.tools.SLOTS", 2)
    first = await running(service, "asks_where", tmp_path, LI_LEI)
    question = await asked_by(service, "asks_where")
    second = await running(service, "asks_where", tmp_path, LI_LEI, message_id="another")
    await held_back(service, second, "half of this worker's places")
    assert (await (await running(service, "mark", tmp_path)).outcome()).status == "executed"
    assert await answer(question, {"where": "staging"}, LI_LEI) == "accepted"
    assert (await first.outcome()).status == "executed"
    next_one = await asked_by(service, "asks_where", but=(question.id,))
    assert await answer(next_one, {"where": "moon"}, LI_LEI) == "accepted"
    assert (await second.outcome()).content["where"] == "moon"


async def test_a_call_that_got_no_place_in_time_is_told_so_and_one_that_began_waits_for_one(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = await running(service, "asks_and_dies", tmp_path)
    question = await asked_by(service, "asks_and_dies")
    monkeypatch.setattr("activities.tools.SLOTS", 0)
    monkeypatch.setattr("activities.tools._may_start", lambda _: lambda: False)
    late = await running(service, "asks_where", tmp_path, LI_LEI)
    outcome = await late.outcome()
    assert (outcome.status, outcome.reason) == ("failed", "half of this worker's places are taken by tools that ask")
    assert await answer(question, {"where": "moon"}, ME) == "accepted"
    await held_back(service, began, "half of this worker's places")
    monkeypatch.undo()
    assert (await began.outcome()).content == {"where": "moon", "attempt": 2}


@pytest.mark.parametrize("is_answered", [True, False], ids=["which runs", "which does not run"])
async def test_who_waits_too_long_for_a_call_that_asks_only_learns_how_it_ended(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    scope = {"idempotency_scope": str(tmp_path)}
    before = {line.question_id async for line in service.gate.questions() if line.tool == "asks_where"}
    first = await running(service, "asks_where", tmp_path, LI_LEI, **scope)
    question = await asked_by(service, "asks_where")
    monkeypatch.setattr("activities.tools._may_start", lambda _: lambda: False)
    monkeypatch.setattr("activities.tools.WAIT_LIMIT", timedelta(seconds=0.1))
    second = await running(service, "asks_where", tmp_path, LI_LEI, **scope)
    await held_back(service, second, "another approval runs the same call")
    if is_answered:
        assert await answer(question, {"where": "staging"}, LI_LEI) == "accepted"
    else:
        await question.cancel()
    ended, met = await first.outcome(), await second.outcome()
    asked = {line.question_id async for line in service.gate.questions() if line.tool == "asks_where"}
    assert asked - before == {question.id}
    assert marks(tmp_path / "marks") == int(is_answered)
    if is_answered:
        assert (ended.status, met.status, met.content) == ("executed", "replayed", ended.content)
    else:
        assert (ended.status, met.status, met.reason) == ("failed", "failed", "it could not begin in time")


async def test_what_an_operator_has_tried_again_asks_anew(service: Service, tmp_path: Path) -> None:
    handle = await running(service, "asks_and_freezes", tmp_path, LI_LEI)
    question = await asked_by(service, "asks_and_freezes")
    assert await answer(question, {"where": "moon"}, LI_LEI) == "accepted"
    assert (await handle.outcome()).status == "frozen"
    settling = asyncio.ensure_future(handle.settlement())
    shown = (await handle.state()).payload_sha256
    ruled = await handle.settle("retry", operator=OPERATOR, reason="once more", payload_hash=str(shown)[:12])
    assert ruled.kind == "retrying"
    again = await asked_by(service, "asks_and_freezes", but=(question.id,))
    assert await answer(again, {"where": "staging"}, ME) == "forbidden"
    assert await answer(again, {"where": "staging"}, HAN_MEIMEI) == "accepted"
    settlement = await settling
    assert (settlement.kind, settlement.content, settlement.retried) == ("executed", {"where": "staging"}, True)
    assert (await question.answer()).answers == {"where": "moon"}


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
