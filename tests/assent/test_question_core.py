"""What becomes of a question, decided without Temporal, a clock or a database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assent.contracts.answers import AcceptedAnswer, Answer, FlawKind, QuestionOutcome, QuestionStatus
from assent.contracts.approvers import Approvers
from assent.contracts.audit import AuditEvent
from assent.contracts.decision import VerdictKind
from assent.contracts.deliver import Delivered
from assent.contracts.identity import Identity
from assent.contracts.questions import MOST_BYTES, Option, Question, QuestionRequest
from assent.contracts.runs import LineReport, LineState
from assent.contracts.signals import VerdictQuestion, Withdrawal
from assent.contracts.weigh import Weighed
from assent.core import questions
from assent.core.questions import Opened, Unopened
from assent.core.questions.judging import flaws_in, normalised
from tests.support.hypothesis_settings import unhurried
from tests.support.questions import (
    ALL,
    ASKER,
    DEADLINE,
    GOOD,
    NOW,
    PARTS,
    SURE,
    WHERE,
    WHY,
    answer_to,
    asking_run,
    question_plan,
)

OTHER = Identity(open_id="ou_other")
THIRD = Identity(open_id="ou_third")


def opened(plan: Any = None, **update: Any) -> Opened:
    plan = plan or question_plan()
    request = QuestionRequest(question_id=plan.question_id, questions=plan.questions, requester=plan.requester)
    question = questions.open_with(Unopened(request=request), plan, NOW)
    question, _ = questions.send(question)
    return questions.arrive(question, Delivered(message_id="om_1"), NOW).model_copy(update=update)


def kind_of(question: Opened, answer: Answer) -> VerdictKind:
    judged = question.notes.verdict_on(answer.event_id)
    assert judged is not None
    return judged.verdict


# What can be asked


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "choice"},
        {"kind": "text", "options": [{"value": "a"}]},
        {"kind": "confirm", "multi_select": True},
        {"kind": "text", "allow_input": True},
        {"kind": "choice", "options": [{"value": "a"}, {"value": "a"}]},
        {"kind": "choice", "options": [{"value": str(n)} for n in range(21)]},
        {"kind": "text", "max_length": 1001},
        {"kind": "text", "prompt": ""},
    ],
)
def test_what_nobody_could_answer_cannot_be_asked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Question.model_validate({"id": "a", "prompt": "What?", **wrong})


@pytest.mark.parametrize(
    "asked",
    [(), (SURE, SURE), tuple(SURE.model_copy(update={"id": str(n)}) for n in range(11))],
)
def test_a_card_asks_one_to_ten_questions_each_with_its_own_id(asked: tuple[Question, ...]) -> None:
    with pytest.raises(ValidationError):
        QuestionRequest(question_id="q", questions=asked, requester=ASKER)


def test_all_questions_together_have_a_size() -> None:
    long = tuple(Question(id=str(n), prompt="x" * 2000, kind="text") for n in range(5))
    with pytest.raises(ValidationError, match=str(MOST_BYTES)):
        QuestionRequest(question_id="q", questions=long, requester=ASKER)


# What is an answer


@pytest.mark.parametrize(
    ("given_answers", "question", "kind"),
    [
        ({**GOOD, "else": "x"}, "else", FlawKind.UNKNOWN_QUESTION),
        ({**GOOD, "where": "moon"}, "where", FlawKind.NOT_AN_OPTION),
        ({**GOOD, "where": True}, "where", FlawKind.NOT_AN_OPTION),
        ({**GOOD, "where": ("staging", "production")}, "where", FlawKind.NOT_ONE),
        ({**GOOD, "where": ""}, "where", FlawKind.MISSING),
        ({**GOOD, "sure": "yes"}, "sure", FlawKind.NOT_YES_OR_NO),
        ({"where": "staging", "parts": ("web",)}, "sure", FlawKind.MISSING),
        ({**GOOD, "why": "x" * 21}, "why", FlawKind.TOO_LONG),
        ({**GOOD, "why": True}, "why", FlawKind.NOT_TEXT),
        ({**GOOD, "why": "a\x1b[2J"}, "why", FlawKind.NOT_STORABLE),
        ({**GOOD, "parts": ()}, "parts", FlawKind.MISSING),
        ({**GOOD, "parts": ("web", "own words that are far too long")}, "parts", FlawKind.TOO_LONG),
        ({**GOOD, "parts": ("mine", "yours")}, "parts", FlawKind.NOT_AN_OPTION),
    ],
)
def test_what_is_wrong_with_an_answer_is_said_and_the_question_stays_open(
    given_answers: dict[str, Any], question: str, kind: FlawKind
) -> None:
    asked = opened()
    wrong = answer_to(asked.plan, given_answers)
    after = questions.answer(asked, wrong, NOW)
    verdict = questions.verdict(after, VerdictQuestion(event_id="event-1", delivery_id="delivery-1"))
    assert (verdict.kind, [(flaw.question, flaw.kind) for flaw in verdict.flaws]) == (
        VerdictKind.INVALID,
        [(question, kind)],
    )
    assert verdict.reason is not None
    assert question in verdict.reason
    assert after.ending is None
    right = questions.answer(after, answer_to(asked.plan, event_id="event-2"), NOW)
    assert right.ending is not None
    assert right.ending.status is QuestionStatus.RESOLVED


def test_an_option_or_own_words_and_not_both() -> None:
    either = WHERE.model_copy(update={"allow_input": True})
    assert flaws_in([either], {"where": ("staging", "the moon")})[0].kind is FlawKind.NOT_BOTH
    assert normalised([either], {"where": " the moon "}) == {"where": "the moon"}


def test_an_answer_has_one_form() -> None:
    given_answers: dict[str, Any] = {
        "where": ("staging",),
        "sure": False,
        "why": "  ",
        "parts": ("my own", "jobs", "web", "jobs"),
    }
    assert normalised(ALL, given_answers) == {"where": "staging", "sure": False, "parts": ("web", "jobs", "my own")}


def test_an_option_is_the_one_that_was_chosen_with_the_spaces_around_it() -> None:
    padded = WHERE.model_copy(update={"options": (Option(value="a"), Option(value="a "), Option(value=" b"))})
    for chosen in ("a", "a ", " b", ("a ",)):
        assert not flaws_in([padded], {"where": chosen})
        assert normalised([padded], {"where": chosen}) == {"where": chosen[0] if isinstance(chosen, tuple) else chosen}


_given = st.booleans() | st.text(max_size=30) | st.lists(st.text(max_size=30), max_size=4).map(tuple)
_likely = st.fixed_dictionaries(
    {},
    optional={
        "where": st.sampled_from(["staging", "production"]) | _given,
        "sure": st.booleans() | _given,
        "why": st.text(max_size=30) | _given,
        "parts": st.lists(st.sampled_from(["web", "api", "jobs", "own"]), max_size=4).map(tuple) | _given,
        "other": _given,
    },
)


def _fits(question: Question, answer: Any) -> bool:
    """What the documents say of an answer, said once more and differently."""
    if answer is None:
        return not question.required
    if question.kind == "confirm":
        return answer is True or answer is False
    values = {option.value for option in question.options}
    chosen = list(answer) if isinstance(answer, tuple) else [answer]
    own = [each for each in chosen if each not in values]
    fitting = all(isinstance(each, str) and 0 < len(each) <= question.max_length for each in own)
    if question.kind == "text":
        return isinstance(answer, str) and fitting
    several = question.multi_select or len(chosen) == 1
    return several and bool(chosen) and len(own) <= question.allow_input and fitting


@unhurried
@given(_likely)
def test_what_has_no_flaw_fits_and_what_fits_has_none(answers: dict[str, Any]) -> None:
    flaws = flaws_in(ALL, answers)
    if not flaws:
        found = normalised(ALL, answers)
        assert all(_fits(question, found.get(question.id)) for question in ALL)
        assert normalised(ALL, found) == found
        assert not flaws_in(ALL, found)
    for flaw in flaws:
        assert flaw.question in {"other", *(question.id for question in ALL)}


# Who, when, about what


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, VerdictKind.ACCEPTED),
        ({"message_id": "om_1"}, VerdictKind.ACCEPTED),
        ({"message_id": "om_foreign"}, VerdictKind.TAMPERED),
        ({"question_id": "q-2"}, VerdictKind.TAMPERED),
        ({"questions_sha256": "1" * 64}, VerdictKind.TAMPERED),
        ({"questions_sha256": None}, VerdictKind.TAMPERED),
        ({"actor": OTHER}, VerdictKind.FORBIDDEN),
        ({"received_at": DEADLINE + timedelta(seconds=1)}, VerdictKind.EXPIRED),
        ({"received_at": DEADLINE}, VerdictKind.ACCEPTED),
    ],
)
def test_verdicts(said: dict[str, Any], expected: VerdictKind) -> None:
    asked = opened()
    answer = answer_to(asked.plan, **said)
    after = questions.answer(asked, answer, DEADLINE + timedelta(seconds=2))
    assert kind_of(after, answer) is expected
    assert (after.ending is not None) == (expected is VerdictKind.ACCEPTED)
    assert [entry.event for entry in (after.ending.entries if after.ending else ())] == (
        ["answer"] if expected is VerdictKind.ACCEPTED else []
    )
    assert [entry.event for entry in after.notes.unwritten] == {
        VerdictKind.ACCEPTED: [],
        VerdictKind.TAMPERED: ["tamper"],
        VerdictKind.FORBIDDEN: ["forbid"],
        VerdictKind.EXPIRED: [],
    }[expected]


def test_changed_questions_are_no_longer_those_that_were_shown() -> None:
    asked = opened()
    plan = asked.plan.model_copy(update={"questions": (WHY,)})
    after = questions.answer(asked.model_copy(update={"plan": plan}), answer_to(asked.plan, {"why": "x"}), NOW)
    assert kind_of(after, answer_to(asked.plan)) is VerdictKind.TAMPERED


def test_of_fifty_answers_by_ten_people_one_counts_and_the_others_are_told_whose() -> None:
    people = tuple(Identity(open_id=f"ou_{n}") for n in range(10))
    asked = opened(question_plan(approvers=Approvers.of(people)))
    for n in range(50):
        asked = questions.answer(asked, answer_to(asked.plan, actor=people[n % 10], event_id=f"e{n}"), NOW)
    outcome = questions.conclude(asked, NOW).outcome
    asked = questions.close(asked, outcome)
    verdicts = [
        questions.verdict(asked, VerdictQuestion(event_id=f"e{n}", delivery_id="delivery-1")) for n in range(50)
    ]
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.ACCEPTED, *[VerdictKind.ALREADY_DECIDED] * 49]
    assert {verdict.answered_by for verdict in verdicts} == {people[0]}


def test_the_audit_keeps_what_was_answered_as_a_hash() -> None:
    asked = opened(question_plan(WHY))
    answered = questions.answer(asked, answer_to(asked.plan, {"why": "hunter2"}), NOW)
    assert not questions.batch(answered).entries, "an answer is in the audit together with the ending, never before"
    (entry,) = questions.conclude(answered, NOW).ending
    assert entry.content_sha256 is not None
    assert "hunter2" not in entry.model_dump_json()


def test_nobody_is_told_of_an_ending_before_the_ledger_has_it() -> None:
    asked = questions.answer(opened(), answer_to(question_plan()), NOW)
    question = VerdictQuestion(event_id="event-1", delivery_id="delivery-1")
    assert questions.verdict(asked, question).kind is VerdictKind.RECEIVED
    assert questions.state(asked).status is QuestionStatus.PENDING
    asked = questions.close(asked, questions.conclude(asked, NOW).outcome)
    assert questions.verdict(asked, question).kind is VerdictKind.ACCEPTED
    assert questions.state(asked).answers == GOOD


# Any history

_actors = st.sampled_from([ASKER, OTHER, THIRD])
_answers = st.builds(
    lambda **said: ("answer", said),
    actor=_actors,
    event=st.integers(0, 12),
    good=st.booleans(),
    at=st.integers(-1, 20),
    about=st.sampled_from(["this", "this", "this", "hash", "message", "known message", "other"]),
)
_happenings = st.one_of(
    _answers,
    _answers,
    _answers,
    st.just(("withdraw", {})),
    st.just(("expire", {})),
    st.just(("remind", {})),
    st.builds(lambda gone: ("weighed", {"gone": gone}), st.booleans()),
    st.builds(lambda there: ("arrive", {"there": there}), st.booleans()),
    st.just(("carried", {})),
)
_approvers = st.sampled_from(
    [
        Approvers(),
        Approvers.of((ASKER, OTHER)),
        Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1"),
    ]
)


def _live(question: Opened, name: str, said: dict[str, Any], minute: int) -> Opened:
    now = NOW + timedelta(minutes=minute)
    plan = question.plan
    match name:
        case "answer":
            about = {
                "hash": {"questions_sha256": "2" * 64},
                "message": {"message_id": "om_strange"},
                "known message": {"message_id": "om_1"},
                "other": {"question_id": "q-9"},
            }.get(said["about"], {})
            answers = GOOD if said["good"] else {"where": "moon"}
            received = NOW + timedelta(minutes=said["at"])
            event = {"actor": said["actor"], "event_id": f"e{said['event']}", "received_at": received}
            return questions.answer(question, answer_to(plan, answers, **event, **about), now)
        case "withdraw":
            return questions.withdraw(question, Withdrawal(), now)
        case "expire":
            return questions.expire(question, now)
        case "remind":
            question, _ = questions.send(questions.remind(question, now))
            return question
        case "weighed":
            if question.asking is None:
                return question
            gone = (question.asking.actor,) if said["gone"] else ()
            return questions.weighed(question, question.asking, Weighed(outsiders=gone), now)
        case "arrive":
            sent = Delivered(message_id="om_1") if said["there"] else Delivered(refused="no bot")
            return questions.arrive(question, sent, now) if question.cards.on_their_way else question
        case _:
            return questions.resume(Opened.model_validate_json(question.model_dump_json()))


@unhurried
@given(_approvers, st.lists(_happenings, max_size=25))
def test_whatever_happens_one_answer_counts_and_an_end_is_an_end(
    approvers: Approvers, happenings: list[tuple[str, dict[str, Any]]]
) -> None:
    question, before = opened(question_plan(approvers=approvers)), None
    for minute, (name, said) in enumerate(happenings):
        ended, question = question.ending, _live(question, name, said, minute)
        assert ended is None or question.ending == ended
        verdicts = {each.event_id: each.verdict for each in question.notes.judged}
        assert before is None or before.items() <= verdicts.items()
        before = verdicts
    accepted = [each for each in question.notes.judged if each.verdict is VerdictKind.ACCEPTED]
    resolved = question.ending is not None and question.ending.status is QuestionStatus.RESOLVED
    assert len(accepted) == resolved
    entries = question.ending.entries if question.ending else ()
    assert [entry.event for entry in entries].count(AuditEvent.ANSWER) == resolved
    assert AuditEvent.ANSWER not in [entry.event for entry in question.notes.unwritten]
    if accepted and question.ending is not None:
        assert question.ending.answers == GOOD
        assert approvers.kind is Approvers.Kind.CHAT or accepted[0].actor in (ASKER, *approvers.people)
        assert accepted[0].received_at <= DEADLINE
    if question.ending is not None:
        assert question.asking is None
        assert not question.early


def test_options_are_read_by_their_labels() -> None:
    assert [option.text for option in WHERE.options] == ["Staging", "production"]
    assert Option(value="a").text == "a"
    assert PARTS.takes_words


# A program's answer that is on record


def _asked_by_a_run() -> questions.Opened:
    return opened(question_plan(WHY, run=asking_run(), addresses=()))


def _kept(question: questions.Opened, words: str, event_id: str) -> AcceptedAnswer:
    offer = questions.offer(
        questions.answer(question, answer_to(question.plan, {"why": words}, event_id=event_id), NOW)
    )
    assert offer is not None
    return offer.answer


def test_a_workflow_that_begins_anew_goes_on_with_the_answer_that_is_on_record() -> None:
    asked = _asked_by_a_run()
    kept = _kept(asked, "first", "e-1")
    unopened = questions.Unopened(
        request=QuestionRequest(question_id="q-1", questions=(WHY,), requester=ASKER, ttl=timedelta(minutes=15))
    )
    for event_id, words in (("e-2", "second"), ("e-1", "first")):
        unopened = questions.answer(unopened, answer_to(asked.plan, {"why": words}, event_id=event_id), NOW)
    unopened = questions.withdraw(unopened, Withdrawal(reason="never mind"), NOW)
    anew = questions.open_with(unopened, asked.plan, NOW, kept)
    assert anew.ending is not None
    assert (anew.ending.status, anew.ending.answers) == ("resolved", {"why": "first"})
    verdicts = {each.event_id: each.verdict for each in anew.notes.judged}
    assert verdicts == {"e-1": VerdictKind.ACCEPTED, "e-2": VerdictKind.ALREADY_DECIDED}
    offer = questions.offer(anew)
    assert offer is not None
    assert offer.answer == kept
    ended = questions.written(anew, LineReport(state=LineState.WRITTEN, written_bytes=6), NOW)
    assert [entry.event for entry in questions.conclude(ended, NOW).ending] == ["answer", "write_input"]


def test_an_answer_that_was_kept_before_takes_the_place_of_one_that_came_since() -> None:
    asked = _asked_by_a_run()
    first = _kept(asked, "first", "e-1")
    since = questions.answer(asked, answer_to(asked.plan, {"why": "second"}, event_id="e-2"), NOW)
    stands = questions.stand_by(since, first)
    assert stands.ending is not None
    assert stands.ending.answers == {"why": "first"}
    assert [entry.event_id for entry in stands.ending.entries] == ["e-1"]
    assert kind_of(stands, answer_to(asked.plan, event_id="e-2")) is VerdictKind.ALREADY_DECIDED
    assert questions.stand_by(stands, first) == stands


def test_an_answer_is_not_called_accepted_where_the_ledger_knew_another_end() -> None:
    asked = opened()
    answered = questions.answer(asked, answer_to(asked.plan), NOW)
    known = QuestionOutcome(question_id="q-1", status=QuestionStatus.CANCELLED, reason="gone", ended_at=NOW)
    told = questions.verdict(
        questions.close(answered, known), VerdictQuestion(event_id="event-1", delivery_id="delivery-1")
    )
    assert (told.kind, told.status, told.answered_by) == (VerdictKind.ALREADY_DECIDED, "cancelled", None)


def test_a_click_on_a_card_that_a_former_run_sent_is_late_not_forged() -> None:
    asked = _asked_by_a_run()
    kept = _kept(asked, "first", "e-1")
    plan = asked.plan.model_copy(update={"addresses": question_plan().addresses})
    unopened = questions.Unopened(request=QuestionRequest(question_id="q-1", questions=(WHY,), requester=ASKER))
    anew = questions.open_with(unopened, plan, NOW, kept)
    late = answer_to(plan, {"why": "second"}, event_id="e-2", message_id="om_of_the_former_run")
    after = questions.answer(anew, late, NOW)
    assert kind_of(after, late) is VerdictKind.ALREADY_DECIDED
    assert not after.notes.unwritten


def test_the_answer_that_is_kept_is_its_givers_whoever_sends_the_same_event_and_words_since() -> None:
    asked = _asked_by_a_run()
    kept = _kept(asked, "first", "by-hand-1")
    other = ASKER.model_copy(update={"user_id": "u_2"})
    since = questions.answer(asked, answer_to(asked.plan, {"why": "first"}, event_id="by-hand-1", actor=other), NOW)
    assert since.ending is not None
    assert since.ending.by == other
    ended = questions.written(questions.stand_by(since, kept), LineReport(state=LineState.WRITTEN), NOW)
    assert questions.conclude(ended, NOW).outcome.answered_by == ASKER
