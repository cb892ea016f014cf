"""A worker that dies while its program asks: acted out on real processes, and seen from outside."""

from __future__ import annotations

import os
from pathlib import Path

from assent import QuestionHandle
from tests.conftest import ME
from tests.support.programs import DIE_AT, PROMPTS, Moment, Seen, lines, script
from tests.support.waiting import until
from tests.support.worker_processes import WorkerProcesses


async def died(processes: WorkerProcesses, path: Path, moment: Moment) -> Seen:
    """What is seen once the worker has died at this moment, and another has come."""
    counter = path / "read"
    os.environ[DIE_AT] = moment.value
    try:
        doomed = await processes.start("tools")
    finally:
        del os.environ[DIE_AT]
    asked = {"script": str(script(path, PROMPTS)), "counter": str(counter)}
    handle = await processes.gate.request("prompted", asked, requester=ME)
    await processes.approve(handle)
    question = await _asked(processes, handle.id)
    sha256 = (await question.state()).questions_sha256
    if moment is Moment.ASKED:
        await doomed.kill()
    else:
        await question.respond({"answer": "staging"}, actor=ME, questions_sha256=sha256)
        await doomed.ended()
    await processes.start("tools")
    outcome, answered = await handle.outcome(), await question.answer()
    late = await question.respond({"answer": "production"}, actor=ME, questions_sha256=sha256)
    assert late.kind == "already_decided", late
    assert await processes.ledger.verify() == []
    return Seen(outcome.status.value, answered.status.value, answered.reason, len(lines(counter)))


async def _asked(processes: WorkerProcesses, approval_id: str) -> QuestionHandle:
    async def found() -> str | None:
        async for line in processes.gate.questions(status="pending"):
            known = await processes.ledger.question(line.question_id)
            if known is not None and known.approval_id == approval_id:
                return line.question_id
        return None

    return processes.gate.question(await until(found))
