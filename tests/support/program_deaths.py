"""A program that asks twice, with a worker that is killed on the way; every line that it reads is counted outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from temporalio.client import Client

from assent import ApprovalHandle, QuestionNotFound, Unavailable
from assent.contracts.runs import WRITE_UNKNOWN
from assent.types import State
from tests.conftest import Service
from tests.support.dying_worker import RUN_STEPS
from tests.support.feishu_service import REQUESTER
from tests.support.file_deaths import dying_service
from tests.support.programs import MANY, lines, script
from tests.support.waiting import until
from tests.support.web import TENANT

_SAID = ("q1", "q2")


class Seen(NamedTuple):
    """What was seen of a call whose program asks twice."""

    call: str
    interaction: str
    """How the first of the two ended, and what is said of its line where nobody knows."""
    lines: str
    """How many lines the program has read."""


_LIVES, _UNKNOWN = Seen("executed", "resolved", "2"), "cancelled, write: unknown"
ROWS = {
    **{name: _LIVES for name, step in RUN_STEPS.items() if step.kind == "approvals"},
    "TemporalQuestions.ask after": Seen("frozen", "cancelled", "0"),
    "Ledger.claim_line before": Seen("frozen", "cancelled", "0"),
    "Ledger.claim_line after": Seen("frozen", _UNKNOWN, "0"),
    "ProgramProcess.write before": Seen("frozen", _UNKNOWN, "0"),
    "ProgramProcess.write after": Seen("frozen", _UNKNOWN, "1"),
    "Ledger.confirm_line before": Seen("frozen", _UNKNOWN, "1"),
    "Ledger.confirm_line after": Seen("frozen", "resolved", "1"),
    "Ledger.end_run after": Seen("frozen", "resolved", "2"),
}
"""What must be seen after each death."""
_ANSWERED_AT_ONCE = Seen("frozen", "resolved", "1")
"""What may be seen instead where whoever asked dies before it hears that it is asked: somebody was as fast."""


async def killed_at(name: str, client: Client, address: str, database: str, directory: Path) -> None:
    """Run a program that asks twice and answer it, while a worker dies at a step and another comes after it.

    An approvals worker is replaced, and all goes on: each line is read once. With the tools worker its program is lost,
    and what was not confirmed is not called written.
    """
    counter = directory / "read"
    async with dying_service(name, client, address, database, directory) as feishu:
        service = feishu.service
        asked = {"script": str(script(directory, MANY)), "counter": str(counter), "most": len(_SAID)}
        handle = await service.gate.request("prompted_often", asked, requester=REQUESTER)
        await approve(handle)
        answering = asyncio.ensure_future(
            answer_all(service, "answer", lambda question_id: question_id.rpartition(":")[2])
        )
        outcome = await handle.outcome()
        answering.cancel()
        read = lines(counter)
        assert read == [*_SAID][: len(read)], (name, read)
        seen = Seen(outcome.status.value, await _first(service), str(len(read)))
        may_be = {ROWS[name], _ANSWERED_AT_ONCE} if name == "TemporalQuestions.ask after" else {ROWS[name]}
        assert seen in may_be, (name, seen, outcome.reason)
        assert await service.ledger.verify() == []


async def _first(service: Service) -> str:
    """What is said of the first interaction."""
    (question_id,) = [line.question_id async for line in service.gate.questions() if ":q1" in line.question_id]
    outcome = await service.gate.question(question_id).answer()
    return f"cancelled, {WRITE_UNKNOWN}" if outcome.reason == WRITE_UNKNOWN else outcome.status.value


async def approve(handle: ApprovalHandle) -> None:
    async def pending() -> State | None:
        try:
            state = await handle.state()
        except Unavailable:
            return None  # nobody lives just now who could tell
        return state if state.phase == "pending" else None

    shown = (await until(pending)).payload_sha256
    await handle.decide("approve", actor=REQUESTER.within(TENANT), payload_sha256=shown)


async def answer_all(service: Service, question: str, says: Callable[[str], str]) -> None:
    """Answer whatever is asked with a card, as often as it takes to be heard: it counts once."""
    while True:
        try:
            async for line in service.gate.questions(status="pending"):
                known = await service.ledger.question_record(line.question_id)
                if known is None or not any(card.message_id for card in known.messages):
                    continue  # as fast as no person is, and then there never is one
                asked = service.gate.question(line.question_id)
                sha256 = (await asked.state()).questions_sha256
                said = {question: says(line.question_id)}
                await asked.respond(said, actor=REQUESTER.within(TENANT), questions_sha256=sha256)
        except (Unavailable, QuestionNotFound):
            pass  # nobody lives just now who could tell
        await asyncio.sleep(0.2)
