"""A question from asking to its answer, on both ledgers."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assent import Identity, InvalidRequest, QuestionConflict, QuestionNotFound, names
from assent.client.question import QuestionHandle
from assent.contracts.answers import Answer, AnswerVerdict
from assent.contracts.asking import QuestionState
from tests.conftest import ME, Service
from tests.support.questions import ALL, GOOD, SURE, WHERE, WHY
from tests.support.temporal_operations import forget
from tests.support.waiting import until
from workers.sweeping import end_gone_questions

PATIENCE = timedelta(minutes=1)
STRANGER = Identity(open_id="ou_stranger")


async def ask(service: Service, *questions: Any, **more: Any) -> QuestionHandle:
    return await service.gate.ask(questions or ALL, requester=ME, **more)


async def submit(handle: QuestionHandle, answers: dict[str, Any] | None = None, **said: Any) -> AnswerVerdict:
    """Answer what is shown."""
    fields: dict[str, Any] = {
        "question_id": handle.id,
        "questions_sha256": said.get("questions_sha256") or (await handle.state()).questions_sha256,
        "answers": GOOD if answers is None else answers,
        "actor": ME,
        "event_id": uuid.uuid4().hex,
        "delivery_id": uuid.uuid4().hex,
        "received_at": datetime.now(UTC),
    }
    return await handle.submit(Answer(**{**fields, **said}), answer_within=PATIENCE)


async def test_a_question_is_answered_once_and_all_of_it_is_on_record(service: Service) -> None:
    handle = await ask(service, thread_id="t-1", reason="the release")
    state = await handle.state()
    assert (state.status, state.questions, state.thread_id, state.awaits(ME)) == ("pending", ALL, "t-1", True)
    assert not state.awaits(STRANGER)
    verdict = await handle.respond(GOOD, actor=ME, questions_sha256=state.questions_sha256)
    assert (verdict.kind, verdict.status, verdict.answered_by) == ("accepted", "resolved", ME)
    outcome = await handle.answer()
    assert (outcome.status, outcome.answers, outcome.answered_by) == ("resolved", GOOD, ME)
    assert (await handle.state()).answers == GOOD
    record = names.question_workflow(handle.id)
    assert await service.events(record) == ["ask", "answer"]
    assert await service.ledger.verify() == []
    assert [entry.entry.event for entry in await handle.audit()] == ["ask", "answer"]


async def test_refused_answers_are_told_why_and_change_nothing(service: Service) -> None:
    handle = await ask(service)
    told = [
        await submit(handle, {**GOOD, "where": "moon"}),
        await submit(handle, actor=STRANGER),
        await submit(handle, questions_sha256="0" * 64),
        await submit(handle, question_id="another"),
        await submit(handle, message_id="om_foreign"),
    ]
    assert [verdict.kind for verdict in told] == ["invalid", "forbidden", "tampered", "tampered", "tampered"]
    assert told[0].reason == "where: that is not one of the options"
    assert (await handle.state()).status == "pending"
    again = uuid.uuid4().hex
    assert (await submit(handle, event_id=again, delivery_id="first")).kind == "accepted"
    assert (await submit(handle, event_id=again, delivery_id="first")).kind == "accepted"
    assert (await submit(handle, event_id=again, delivery_id="second")).kind == "duplicate"
    late = await submit(handle)
    assert (late.kind, late.answered_by) == ("already_decided", ME)
    assert (await submit(handle, actor=STRANGER)).kind == "forbidden"
    assert (await submit(handle, questions_sha256="0" * 64)).kind == "tampered"
    events = Counter(await service.events(names.question_workflow(handle.id)))
    assert events == {"ask": 1, "answer": 1, "forbid": 2, "tamper": 4}
    assert await service.ledger.verify() == []


async def test_of_fifty_answers_at_once_from_ten_people_one_counts(service: Service) -> None:
    people = [Identity(open_id=f"ou_p{n}") for n in range(10)]
    handle = await ask(service, WHERE, people=people)
    answers = ["staging", "production"]
    seen = (await handle.state()).questions_sha256
    told = await asyncio.gather(
        *(submit(handle, {"where": answers[n % 2]}, actor=people[n % 10], questions_sha256=seen) for n in range(50))
    )
    counted = Counter(verdict.kind.value for verdict in told)
    assert counted == {"accepted": 1, "already_decided": 49}
    winner = told[[verdict.kind.value for verdict in told].index("accepted")].answered_by
    outcome = await handle.answer()
    assert {verdict.answered_by for verdict in told} == {winner} == {outcome.answered_by}
    assert (await service.events(names.question_workflow(handle.id))).count("answer") == 1


async def test_what_nobody_answers_expires(service: Service) -> None:
    handle = await ask(service, SURE, ttl=timedelta(seconds=1))
    outcome = await handle.answer()
    assert (outcome.status, outcome.answers, outcome.is_answered) == ("expired", None, False)
    assert (await submit(handle, {"sure": True})).kind == "expired"
    assert (await service.events(names.question_workflow(handle.id)))[:2] == ["ask", "expire"]


async def test_a_question_can_be_withdrawn_until_it_is_answered(service: Service) -> None:
    handle = await ask(service, SURE)
    await handle.cancel("no longer needed", actor=ME)
    outcome = await handle.answer()
    assert (outcome.status, outcome.reason) == ("cancelled", "no longer needed")
    late = await submit(handle, {"sure": True})
    assert (late.kind, late.status) == ("already_decided", "cancelled")
    await handle.cancel("again")
    assert (await handle.answer()).reason == "no longer needed"


async def test_the_same_id_attaches_and_another_question_under_it_is_refused(service: Service) -> None:
    first = await ask(service, SURE, question_id=f"q-{uuid.uuid4()}")
    again = await ask(service, SURE, question_id=first.id)
    with pytest.raises(QuestionConflict):
        await ask(service, WHY, question_id=first.id)
    await submit(again, {"sure": False})
    assert (await first.answer()).answers == {"sure": False}
    with pytest.raises(QuestionConflict):
        await ask(service, WHY, question_id=first.id)


async def test_what_temporal_has_forgotten_the_ledger_still_knows(service: Service) -> None:
    handle = await ask(service, SURE, question_id=f"q-{uuid.uuid4()}")
    await submit(handle, {"sure": True})
    await handle.answer()
    await forget(service, names.question_workflow(handle.id))
    assert (await handle.answer()).answers == {"sure": True}
    assert (await submit(handle, {"sure": False})).kind == "already_decided"
    again = await ask(service, SURE, question_id=handle.id)
    assert (await again.answer()).answers == {"sure": True}, "nobody is asked again"
    with pytest.raises(QuestionConflict):
        await ask(service, WHY, question_id=handle.id)


async def test_it_is_answered_in_temporals_own_page_by_a_signal(service: Service) -> None:
    handle = await ask(service, WHERE)
    state = await handle.state()
    workflow = service.client.get_workflow_handle(names.question_workflow(handle.id))
    await workflow.signal("answer", "nonsense")
    await workflow.signal(
        "answer",
        {
            "question_id": handle.id,
            "questions_sha256": state.questions_sha256,
            "answers": {"where": "production"},
            "actor": {"open_id": "ou_me", "union_id": "on_me"},
            "event_id": "by-hand",
        },
    )
    assert (await handle.answer()).answers == {"where": "production"}
    assert (await handle.state()).decisions[0].event_id == "by-hand"


async def test_lists_and_inboxes_know_it_by_person_and_conversation(service: Service) -> None:
    asked_of = Identity(open_id=f"ou_{uuid.uuid4().hex}")
    thread = f'thread "{uuid.uuid4()}"'
    mine = await ask(service, SURE, people=[asked_of], thread_id=thread)
    await ask(service, SURE, people=[STRANGER])

    async def listed() -> bool:
        lines = service.gate.questions(thread_id=thread, status="pending")
        return [line.question_id async for line in lines] == [mine.id]

    await until(listed)

    async def waiting() -> list[str]:
        """The questions in the inbox, where calls that anyone may decide are too."""
        return [state.question_id async for state in service.gate.inbox(asked_of) if isinstance(state, QuestionState)]

    assert await waiting() == [mine.id]
    assert [state async for state in service.gate.inbox(asked_of, thread_id="another")] == []
    await submit(mine, {"sure": True}, actor=asked_of)
    assert await waiting() == []


async def test_what_was_ended_by_hand_is_cancelled_in_the_ledger(service: Service) -> None:
    handle = await ask(service, SURE)
    await service.client.get_workflow_handle(names.question_workflow(handle.id)).terminate()
    await end_gone_questions(service.client, service.ledger)
    outcome = await handle.answer()
    assert (outcome.status, outcome.reason) == (
        "cancelled",
        "its workflow was terminated in Temporal before it had ended",
    )
    assert (await submit(handle, {"sure": True})).kind == "already_decided"


@pytest.mark.parametrize(
    ("questions", "why"),
    [
        ("What?", "a list is needed"),
        ([{"prompt": "What?", "kind": "text", "multiselect": True}], "multiselect: there is no such field"),
        ([{"prompt": "What?", "kind": "choice", "options": [{"value": "a", "name": "b"}]}], "name: there is no"),
        ([{"prompt": "What?"}], "kind"),
        ([], "questions"),
    ],
)
async def test_what_cannot_be_asked_is_refused_before_anything_starts(
    service: Service, questions: Any, why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why):
        await service.gate.ask(questions, requester=ME)


async def test_what_needs_feishu_is_refused_where_there_is_none(service: Service) -> None:
    with pytest.raises(InvalidRequest, match="sends no cards"):
        await ask(service, SURE, chat_id="oc_1")
    with pytest.raises(QuestionNotFound):
        await service.gate.question(f"nobody-{uuid.uuid4()}").state()
