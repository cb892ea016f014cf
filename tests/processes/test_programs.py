"""Programs while real processes die: at most one write, and nobody is told more than is certain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ME
from tests.support import servers
from tests.support.program_deaths import killed_at
from tests.support.programs import MANY, lines, script
from tests.support.waiting import until
from tests.support.worker_processes import WorkerProcesses


@pytest.mark.parametrize(
    ("step", "database"),
    [
        ("Ledger.sent after", "postgres"),
        ("TemporalQuestions.ask after", "sqlite"),
        ("Ledger.offer_line after", "sqlite"),
        ("Ledger.claim_line after", "postgres"),
        ("ProgramProcess.write after", "sqlite"),
    ],
)
async def test_a_worker_that_dies_while_its_program_asks_wrote_no_line_twice(
    tmp_path: Path, temporal_address: str, namespaces: Iterator[str], step: str, database: str
) -> None:
    """`make faults` acts out all steps, on both."""
    client = await servers.connect(temporal_address, next(namespaces))
    await killed_at(step, client, temporal_address, database, tmp_path)


@pytest.mark.parametrize("processes", ["postgres"], indirect=True)
async def test_an_answer_that_came_while_no_approvals_worker_ran_is_written_once(
    processes: WorkerProcesses, tmp_path: Path
) -> None:
    doomed = await processes.start("approvals")
    await processes.start("tools")
    counter = tmp_path / "read"
    asked = {"script": str(script(tmp_path, MANY)), "counter": str(counter), "most": 1}
    handle = await processes.gate.request("prompted_often", asked, requester=ME)
    await processes.approve(handle)

    async def found() -> str | None:
        async for line in processes.gate.questions(status="pending"):
            return line.question_id
        return None

    question_id = await until(found)
    sha256 = (await processes.gate.question(question_id).state()).questions_sha256
    await doomed.kill()
    workflow = processes.service.client.get_workflow_handle(f"question/{question_id}")
    for n, value in enumerate(("one", "two", "one")):
        said = {"question_id": question_id, "questions_sha256": sha256, "answers": {"answer": value}}
        await workflow.signal("answer", {**said, "actor": ME.model_dump(), "event_id": f"e{n}"})
    await processes.start("approvals")
    assert (await handle.outcome()).status == "executed"
    assert lines(counter) == ["one"]
