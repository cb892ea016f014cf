"""Questions while real processes die: one answer, none lost, and the next attempt gets it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, QuestionHandle, names
from assent.types import AskedQuestion
from tests.conftest import ME
from tests.support import servers
from tests.support.programs import MANY, lines, script
from tests.support.question_deaths import killed_at
from tests.support.questions import WHERE
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.worker_processes import WorkerProcesses


async def answer(question: QuestionHandle, answers: dict[str, Any]) -> str:
    sha256 = (await question.state()).questions_sha256
    return (await question.respond(answers, actor=ME, questions_sha256=sha256)).kind.value


async def asked_by(processes: WorkerProcesses, tool: str, but: str | None = None) -> QuestionHandle:
    gate = processes.service.gate

    async def found() -> AskedQuestion | None:
        async for line in gate.questions(status="pending"):
            if line.tool == tool and line.question_id != but:
                return line
        return None

    question = gate.question((await until(found)).question_id)
    assert (await question.state()).is_prepared
    return question


async def running(processes: WorkerProcesses, path: Path, tool: str) -> ApprovalHandle:
    handle = await processes.service.gate.request(tool, {"path": str(path / "marks")}, requester=ME)
    await processes.approve(handle)
    return handle


async def test_an_answer_that_came_while_no_worker_ran_counts_once(processes: WorkerProcesses) -> None:
    doomed = await processes.start("approvals")
    handle = await processes.service.gate.ask(WHERE, requester=ME)
    sha256 = (await handle.state()).questions_sha256
    await doomed.kill()
    workflow = processes.service.client.get_workflow_handle(names.question_workflow(handle.id))
    for n, value in enumerate(("staging", "production", "staging")):
        said = {"question_id": handle.id, "questions_sha256": sha256, "answers": {"where": value}}
        await workflow.signal("answer", {**said, "actor": ME.model_dump(), "event_id": f"e{n}"})
    doomed = await processes.start("approvals")
    async with processes.ledger_held():
        await doomed.kill()
    await processes.start("approvals")
    outcome = await handle.answer()
    assert (outcome.status, outcome.answers) == ("resolved", {"where": "staging"})
    state = await handle.state()
    assert [judged.verdict for judged in state.decisions] == ["accepted", "already_decided", "already_decided"]
    assert (await processes.service.events(names.question_workflow(handle.id))) == ["ask", "answer"]
    assert await processes.service.ledger.verify() == []


async def test_a_worker_that_dies_while_a_person_is_asked_loses_no_answer(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    """`make faults` acts out all steps, on both databases."""
    client = await servers.connect(temporal_address, next(namespaces))
    await killed_at("Ledger.conclude_question before", client, temporal_address, "sqlite", tmp_path)


@pytest.mark.parametrize("processes", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("how", "when"), [(signal.SIGKILL, "after it"), (signal.SIGTERM, "before the answer")], ids=["killed", "draining"]
)
async def test_a_worker_that_goes_while_its_tool_asks_leaves_the_answer_to_the_next(
    processes: WorkerProcesses, tmp_path: Path, how: signal.Signals, when: str
) -> None:
    await processes.start("approvals")
    doomed = await processes.start("tools")
    handle = await running(processes, tmp_path, "asks_and_dies")
    question = await asked_by(processes, "asks_and_dies")
    if when == "after it":
        assert await answer(question, {"where": "moon"}) == "accepted"
    doomed.send(how)
    await doomed.ended()
    await processes.start("tools")
    if when == "before the answer":
        assert await answer(question, {"where": "moon"}) == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content["where"]) == ("executed", "moon")
    listed = [line async for line in processes.service.gate.questions() if line.tool == "asks_and_dies"]
    assert [line.question_id for line in listed] == [question.id], "nobody is asked twice"


@pytest.mark.parametrize("processes", ["postgres"], indirect=True)
async def test_a_call_whose_worker_left_while_it_asked_is_not_known_and_its_question_withdrawn(
    processes: WorkerProcesses, tmp_path: Path
) -> None:
    await processes.start("approvals")
    doomed = await processes.start("tools")
    handle = await running(processes, tmp_path, "asks_in_vain")
    question = await asked_by(processes, "asks_in_vain")
    await doomed.kill()
    await processes.start("tools")
    assert (await handle.outcome()).status == "frozen"
    assert (await question.answer()).status == "cancelled"
    assert marks(tmp_path / "marks") == 0


@pytest.mark.parametrize("processes", ["sqlite"], indirect=True)
async def test_a_worker_that_is_told_to_leave_interrupts_what_asks_and_closes_the_input_of_its_program(
    processes: WorkerProcesses, tmp_path: Path
) -> None:
    await processes.start("approvals")
    leaving = await processes.start("tools")
    caught = await running(processes, tmp_path, "asks_until_interrupted")
    uncaught = await running(processes, tmp_path, "asks_twice")
    counter = tmp_path / "read"
    program = {"script": str(script(tmp_path, MANY)), "counter": str(counter), "most": 2}
    prompted = await processes.gate.request("prompted_often", program, requester=ME)
    await processes.approve(prompted)
    asked = [await asked_by(processes, name) for name in ("asks_until_interrupted", "asks_twice", "prompted_often")]
    assert await answer(asked[2], {"answer": "one"}) == "accepted"
    second = await asked_by(processes, "prompted_often", but=asked[2].id)
    leaving.send(signal.SIGTERM)
    assert await leaving.ended() == 0
    outcome = await caught.outcome()
    assert (outcome.status, outcome.content) == ("failed", "interrupted")
    assert (await uncaught.outcome()).status == "frozen"
    assert (await prompted.outcome()).status == "failed", (
        "its program read the end of the file, and says that it failed"
    )
    for question in (asked[0], asked[1], second):
        assert (await question.answer()).status == "cancelled"
    assert (lines(counter), marks(tmp_path / "marks")) == (["one"], 0)
    assert await processes.service.ledger.verify() == []
