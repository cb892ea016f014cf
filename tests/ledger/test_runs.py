"""The line that answers a run: taken by one, written once, and never again where nobody knows."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assent import names
from assent.contracts.answers import AcceptedAnswer, JudgedAnswer, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionConclusion, QuestionPrepared
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import VerdictKind
from assent.contracts.questions import Question, QuestionKind, QuestionRequest
from assent.contracts.runs import (
    MOST_INTERACTIONS,
    WRITE_UNKNOWN,
    LineClaim,
    LineOffer,
    LineQuestion,
    LineState,
    LineWritten,
    RunHolder,
)
from ledger import Ledger, runs
from tests.conftest import new_database
from tests.support.questions import ASKER, NOW, asking_run, question_plan

ASKED = Question(prompt="Which?", kind=QuestionKind.TEXT)


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    opened = Ledger.open(await new_database(request.param, tmp_path))
    await opened.upgrade()
    yield opened
    await opened.dispose()


async def ask(
    ledger: Ledger, run_id: str, request_id: str, holder: RunHolder = RunHolder.CLIENT, asked_by: str | None = None
) -> tuple[str, QuestionPrepared]:
    run = asking_run(run_id, request_id, holder)
    request = QuestionRequest(question_id=run.question_id, questions=(ASKED,), requester=ASKER, run=run)
    plan = question_plan(ASKED, question_id=run.question_id, request_sha256=request.sha256, run=run, asked_by=asked_by)
    return run.question_id, await ledger.register_question(request, plan, now=NOW)


async def end(ledger: Ledger, question_id: str, status: QuestionStatus = QuestionStatus.CANCELLED) -> None:
    outcome = QuestionOutcome(question_id=question_id, status=status, ended_at=NOW)
    await ledger.conclude_question(QuestionConclusion(outcome=outcome, entries=(), judged=(), closed_at=NOW))


def offer(question_id: str, event_id: str = "e-1", text: str = "blue\n") -> LineOffer:
    judged = JudgedAnswer(
        event_id=event_id, delivery_id=None, actor=ASKER, verdict=VerdictKind.ACCEPTED, received_at=NOW
    )
    entry = AuditEntry(event=AuditEvent.ANSWER, at=NOW, once=f"answer:{event_id}", actor=ASKER, event_id=event_id)
    answer = AcceptedAnswer(judged=judged, answers={ASKED.id: text.strip()}, at=NOW, entry=entry)
    return LineOffer(question_id=question_id, answer=answer, text=text)


async def test_of_many_who_would_write_a_line_one_gets_it(ledger: Ledger) -> None:
    question_id, _ = await ask(ledger, uuid.uuid4().hex, "a")
    early = LineClaim(question_id=question_id, token="early")
    assert (await ledger.claim_line(early)).text is None
    await ledger.offer_line(offer(question_id))
    await ledger.offer_line(offer(question_id, "e-2", "red\n"))
    claims = [LineClaim(question_id=question_id, token=f"t{n}") for n in range(10)]
    taken = await asyncio.gather(*map(ledger.claim_line, claims))
    (winner,) = [claim for claim, line in zip(claims, taken, strict=True) if line.text is not None]
    assert (await ledger.claim_line(winner)).text == "blue\n", "its answer may have been lost"
    strange = LineWritten(question_id=question_id, token="t-other", written_bytes=5)
    assert (await ledger.confirm_line(strange)).state is LineState.CLAIMED
    done = await ledger.confirm_line(LineWritten(question_id=question_id, token=winner.token, written_bytes=5))
    assert (done.state, done.written_bytes) == (LineState.WRITTEN, 5)
    assert (await ledger.claim_line(winner)).text is None
    assert (await ledger.close_line(LineQuestion(question_id=question_id))).state is LineState.WRITTEN


async def test_what_was_given_up_on_is_never_taken_and_never_confirmed(ledger: Ledger) -> None:
    run_id = uuid.uuid4().hex
    first, _ = await ask(ledger, run_id, "a")
    await ledger.offer_line(offer(first))
    assert (await ledger.close_line(LineQuestion(question_id=first))).state is LineState.CLOSED
    assert (await ledger.claim_line(LineClaim(question_id=first, token="t"))).text is None
    await end(ledger, first)
    second, _ = await ask(ledger, run_id, "b")
    await ledger.offer_line(offer(second))
    await ledger.claim_line(LineClaim(question_id=second, token="t"))
    assert (await ledger.close_line(LineQuestion(question_id=second))).state is LineState.UNKNOWN
    late = LineWritten(question_id=second, token="t", written_bytes=5)
    assert (await ledger.confirm_line(late)).state is LineState.UNKNOWN
    await end(ledger, second)
    found = await ledger.engine.read(runs.interaction, second)
    assert found is not None
    assert (found.state, found.written_bytes) == (LineState.UNKNOWN, None)


async def test_a_program_that_read_its_line_asks_the_next_thing_before_anybody_is_told(ledger: Ledger) -> None:
    run_id = uuid.uuid4().hex
    first, _ = await ask(ledger, run_id, "a")
    await ledger.offer_line(offer(first))
    await ledger.claim_line(LineClaim(question_id=first, token="t"))
    assert (await ask(ledger, run_id, "b"))[1].refused, "it may still be written"
    await ledger.confirm_line(LineWritten(question_id=first, token="t", written_bytes=5))
    assert (await ask(ledger, run_id, "b"))[1].plan is not None
    assert (await ask(ledger, run_id, "c"))[1].refused
    await end(ledger, first, QuestionStatus.RESOLVED)
    assert (await ask(ledger, run_id, "c"))[1].refused, "b is pending still"


async def test_one_is_pending_and_a_hundred_are_all(ledger: Ledger) -> None:
    run_id = uuid.uuid4().hex
    first, prepared = await ask(ledger, run_id, "q0")
    assert prepared.plan is not None
    asked = await asyncio.gather(*(ask(ledger, run_id, f"other{n}") for n in range(5)))
    assert {each.refused for _, each in asked} == {"the run waits for an answer already; it asks one thing at a time"}
    _, again = await ask(ledger, run_id, "q0")
    assert again.plan == prepared.plan
    await end(ledger, first)
    for n in range(1, MOST_INTERACTIONS):
        question_id, prepared = await ask(ledger, run_id, f"q{n}")
        assert prepared.plan is not None, prepared
        await end(ledger, question_id)
    _, refused = await ask(ledger, run_id, "one-more")
    assert "100 times" in (refused.refused or "")


async def test_a_run_belongs_to_whoever_began_it_and_asks_until_it_ends(ledger: Ledger) -> None:
    run_id = uuid.uuid4().hex
    question_id, prepared = await ask(ledger, run_id, "a", asked_by="mine")
    assert prepared.plan is not None
    await end(ledger, question_id)
    _, foreign = await ask(ledger, run_id, "b", asked_by="theirs")
    assert foreign.refused == "the run belongs to somebody else"
    _, lost = await ask(ledger, uuid.uuid4().hex, "a", RunHolder.WORKER)
    assert "has ended" in (lost.refused or ""), "only a worker begins a run of its own"
    await ledger.end_run(run_id, 0, b"x" * 100_000)
    await ledger.end_run(run_id, 1, b"later")
    _, late = await ask(ledger, run_id, "c", asked_by="mine")
    assert "has ended" in (late.refused or "")
    output, code = await ledger.run_output(run_id) or (b"", None)
    assert (len(output), code) == (64 * 1024, 0)


EXPIRED = QuestionOutcome(question_id="-", status=QuestionStatus.EXPIRED, ended_at=NOW)
AT_ITS_END = AuditEntry(event=AuditEvent.EXPIRE, at=NOW, once="expire")


async def expire(ledger: Ledger, question_id: str) -> QuestionOutcome:
    """What a workflow says that was reset, and heard no answer since."""
    outcome = EXPIRED.model_copy(update={"question_id": question_id})
    said = QuestionConclusion(outcome=outcome, ending=(AT_ITS_END,), entries=(), judged=(), closed_at=NOW)
    return await ledger.conclude_question(said)


async def events_of(ledger: Ledger, question_id: str) -> list[str]:
    return [entry.event for entry in await ledger.entries(names.question_workflow(question_id))]


@pytest.mark.parametrize("taken", ["claimed", "written"])
async def test_an_answer_that_a_program_may_have_read_decides_how_its_question_ended(
    ledger: Ledger, taken: str
) -> None:
    run_id = uuid.uuid4().hex
    question_id, _ = await ask(ledger, run_id, "a")
    await ledger.offer_line(offer(question_id))
    await ledger.claim_line(LineClaim(question_id=question_id, token="t"))
    if taken == "written":
        await ledger.confirm_line(LineWritten(question_id=question_id, token="t", written_bytes=5))
    outcome = await expire(ledger, question_id)
    if taken == "written":
        assert (outcome.status, outcome.answers, outcome.answered_by) == ("resolved", {ASKED.id: "blue"}, ASKER)
        assert await events_of(ledger, question_id) == ["ask", "answer", "write_input"]
    else:
        assert (outcome.status, outcome.reason, outcome.answers) == ("cancelled", WRITE_UNKNOWN, None)
        assert await events_of(ledger, question_id) == ["ask", "answer", "cancel"]
    assert await expire(ledger, question_id) == outcome
    state = await ledger.question(question_id)
    assert state is not None
    assert [each.verdict for each in state.decisions] == [VerdictKind.ACCEPTED]
    assert await ledger.verify() == []


async def test_a_line_that_nobody_took_does_not_answer_a_question_that_expired(ledger: Ledger) -> None:
    question_id, _ = await ask(ledger, uuid.uuid4().hex, "a")
    await ledger.offer_line(offer(question_id))
    assert (await expire(ledger, question_id)).status is QuestionStatus.EXPIRED
    assert (await ledger.claim_line(LineClaim(question_id=question_id, token="t"))).text is None
    late = await ledger.offer_line(offer(question_id, "e-2", "red\n"))
    assert late.is_done
    assert await events_of(ledger, question_id) == ["ask", "expire"]


async def test_the_first_answer_that_is_kept_is_the_one_that_is_written(ledger: Ledger) -> None:
    run_id = uuid.uuid4().hex
    question_id, before = await ask(ledger, run_id, "a")
    assert before.answer is None
    first, second = offer(question_id), offer(question_id, "e-2", "red\n")
    assert (await ledger.offer_line(first)).answer == first.answer
    offered = await ledger.offer_line(second)
    assert (offered.answer, offered.is_done) == (first.answer, False)
    _, again = await ask(ledger, run_id, "a")
    assert again.answer == first.answer, "a workflow that begins anew goes on with it"


async def test_an_ending_that_came_too_late_leaves_no_trace(ledger: Ledger) -> None:
    """A worker that was cut off records an answer, after another has recorded that nobody gave one."""
    question_id, _ = await ask(ledger, uuid.uuid4().hex, "a")
    outcome = await expire(ledger, question_id)
    late = offer(question_id).answer
    forbidden = late.judged.model_copy(update={"event_id": "e-3", "verdict": VerdictKind.FORBIDDEN})
    refusal = AuditEntry(event=AuditEvent.FORBID, at=NOW, once="forbid:e-3", event_id="e-3")
    answered = QuestionOutcome(
        question_id=question_id, status=QuestionStatus.RESOLVED, answers=late.answers, answered_by=ASKER, ended_at=NOW
    )
    said = QuestionConclusion(
        outcome=answered, ending=(late.entry,), entries=(refusal,), judged=(late.judged, forbidden), closed_at=NOW
    )
    assert await ledger.conclude_question(said) == outcome
    assert await events_of(ledger, question_id) == ["ask", "expire", "forbid"]
    state = await ledger.question(question_id)
    assert state is not None
    assert [each.verdict for each in state.decisions] == [VerdictKind.FORBIDDEN]
