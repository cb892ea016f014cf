"""A program that asks twice, with a worker that is killed on the way; every line that it reads is counted outside."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from temporalio.client import Client

from assent import ApprovalHandle, QuestionNotFound, Unavailable
from assent.types import State
from tests.conftest import Service, new_database, open_service
from tests.support.dying_worker import RUN_STEPS
from tests.support.feishu_service import REQUESTER, FeishuService, settings_of, simulated
from tests.support.file_deaths import running_worker
from tests.support.programs import MANY, lines, script
from tests.support.waiting import until
from tests.support.web import TENANT

_ONE_BY_ONE = asyncio.Lock()
_SAID = ("q1", "q2")
_WRITTEN = {
    "TemporalQuestions.ask": 0,
    "Ledger.claim_line": 0,
    "ProgramProcess.write before": 0,
    "ProgramProcess.write after": 1,
    "Ledger.confirm_line": 1,
    "Ledger.end_run": 2,
}
"""How many lines a program whose worker died has read."""
_UNCONFIRMED = ("Ledger.claim_line after", "ProgramProcess.write", "Ledger.confirm_line before")
"""Steps after which nobody knows whether the line was written."""


async def killed_at(name: str, client: Client, address: str, database: str, directory: Path) -> None:
    """Run a program that asks twice and answer it, while a worker dies at a step and another comes after it.

    An approvals worker is replaced, and all goes on: each line is read once. With the tools worker its program is lost,
    and what was not confirmed is not called written.
    """
    step, counter, once = RUN_STEPS[name], directory / "read", directory / "died"
    async with AsyncExitStack() as stack:
        chat = await stack.enter_async_context(simulated(limits=False))
        async with _ONE_BY_ONE:  # migrations know one database at a time
            url = await new_database(database, directory)
            service = await open_service(stack, client, url, workers=False, **settings_of(chat.url))
        for kind in ("approvals", "tools"):
            command = ("tests.support.dying_worker", kind, name, str(once))
            worker = running_worker(kind, FeishuService(service, chat), address, directory, command)
            stack.callback(worker.cancel)
        asked = {"script": str(script(directory, MANY)), "counter": str(counter), "most": len(_SAID)}
        handle = await service.gate.request("prompted_often", asked, requester=REQUESTER)
        await _approve(handle)
        answering = asyncio.ensure_future(_answer(service))
        outcome = await handle.outcome()
        answering.cancel()
        assert once.exists(), f"nobody died at {name}"
        assert outcome.status == ("frozen" if step.freezes else "executed"), (name, outcome)
        wanted = next((n for prefix, n in _WRITTEN.items() if name.startswith(prefix)), len(_SAID))
        read = lines(counter)
        if (
            name == "TemporalQuestions.ask after" and read
        ):  # it was answered before whoever asked heard that it is asked
            wanted = 1
        assert read == [*_SAID][:wanted], (name, read)
        await _ended_rightly(service, name, wanted)
        assert await service.ledger.verify() == []


async def _ended_rightly(service: Service, name: str, wanted: int) -> None:
    """The first interaction says what is certain of its line."""
    question_id = next(iter([line.question_id async for line in service.gate.questions() if ":q1" in line.question_id]))
    outcome = await service.gate.question(question_id).answer()
    if name.startswith(_UNCONFIRMED):
        assert (outcome.status, outcome.reason) == ("cancelled", "write: unknown"), name
    elif wanted:
        assert outcome.status == "resolved", name
    else:
        assert outcome.status == "cancelled", name
        assert outcome.reason in ("run: not active", "the call that asked has ended"), name


async def _approve(handle: ApprovalHandle) -> None:
    async def pending() -> State | None:
        try:
            state = await handle.state()
        except Unavailable:
            return None  # nobody lives just now who could tell
        return state if state.phase == "pending" else None

    shown = (await until(pending)).payload_sha256
    await handle.decide("approve", actor=REQUESTER.within(TENANT), payload_sha256=shown)


async def _answer(service: Service) -> None:
    """Answer whatever is asked, as often as it takes to be heard: it counts once."""
    while True:
        try:
            async for line in service.gate.questions(status="pending"):
                question = service.gate.question(line.question_id)
                state = await question.state()
                said = {"answer": line.question_id.rpartition(":")[2]}
                await question.respond(said, actor=REQUESTER.within(TENANT), questions_sha256=state.questions_sha256)
        except (Unavailable, QuestionNotFound):
            pass  # nobody lives just now who could tell
        await asyncio.sleep(0.2)
