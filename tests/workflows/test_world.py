"""The generated world: what must hold, held against the truth; see tests/world."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assent.contracts.answers import QuestionStatus
from assent.contracts.request import WhenPending
from assent.contracts.runs import ClaimedLine, LineClaim, LineQuestion, LineReport, LineState
from ledger import runs
from ledger.engine import Connection
from tests.support.questions import answer_to, question_plan
from tests.world import clock
from tests.world.answers import Answers
from tests.world.history import acted_out
from tests.world.oracle import Oracle
from tests.world.outside import Execution
from tests.world.plans import (
    FLAWS,
    HOLDERS,
    KINDS,
    REQUESTERS,
    RUN_FLAWS,
    Answered,
    Asked,
    Blow,
    End,
    Needed,
    Plan,
    Questioned,
    Ran,
    Script,
    drawn,
)
from tests.world.stories import STORIES, Story

SAMPLE = range(1, 31)
"""The seeds of every run; `make world` draws others."""


@pytest.mark.parametrize("name", STORIES)
def test_what_was_once_broken_holds(name: str) -> None:
    history = acted_out(STORIES[name].plan)
    assert history.violations == [], "\n".join(history.notes)
    assert STORIES[name].untold(history.notes) == [], "\n".join(history.notes)


def test_a_sample_of_histories_violates_nothing() -> None:
    for seed in SAMPLE:
        history = acted_out(drawn(seed))
        assert history.violations == [], f"{drawn(seed)}\n" + "\n".join(history.notes)


def test_a_seed_makes_the_same_history_again() -> None:
    for seed in (3, 7):
        first, second = acted_out(drawn(seed)), acted_out(drawn(seed))
        assert first.notes == second.notes
        assert first.outside.effects == second.outside.effects


def test_seeds_draw_everything_there_is() -> None:
    plans = [drawn(seed) for seed in range(600)]
    assert plans == [drawn(seed) for seed in range(600)]
    assert {plan.tool for plan in plans} == set(KINDS)
    assert {fault.blow for plan in plans for fault in plan.faults} == set(Blow)
    assert {script.end for plan in plans for script in plan.scripts} == set(End)
    assert {said.kind for plan in plans for said in plan.said} == {"retry", "truth", "executed", "not_executed"}
    assert {asked.requester for plan in plans for asked in plan.asked} == set(REQUESTERS)
    assert {asked.when_pending for plan in plans for asked in plan.asked} == set(WhenPending)
    questions = [question for plan in plans for question in plan.questions]
    assert {answer.flaw for question in questions for answer in question.answers} == {None, *FLAWS}
    assert {question.is_left_alone for question in questions} == {True, False}
    runs = [run for plan in plans for run in plan.runs]
    assert {run.holder for run in runs} == set(HOLDERS)
    needs = [need for run in runs for need in run.needs]
    assert {answer.flaw for need in needs for answer in need.answers} == {None, *RUN_FLAWS}
    assert {need.dies for need in needs} == {None, "claimed", "written"}
    assert {run.killed_after is None for run in runs} == {run.ends_after is None for run in runs} == {True, False}
    assert any(script.weighs for plan in plans for script in plan.scripts)
    assert any(plan.continues_after for plan in plans)


def test_a_story_that_goes_another_way_is_noticed() -> None:
    story = Story(Plan(seed=0, tool="plain", asked=()), ("it begins", "it ends"))
    assert story.untold(["0.1  it begins", "0.2  and so on", "0.3  it ends"]) == []
    assert story.untold(["0.1  it ends", "0.2  it begins"]) == ["it ends"]


def test_the_oracle_notices_what_is_wrong() -> None:
    """An effect that nobody in the service knows of, after everybody was told that there was none."""
    plan = Plan(seed=0, tool="plain", asked=(Asked(0.0, 0.5),), scripts=(Script(0.5, None),), calm=True)
    history = acted_out(plan)
    assert history.violations == []
    assert [note.split("TOLD ")[1] for note in history.notes if "TOLD" in note] == [
        "a0: failed (the tool ended with failed)"
    ]
    (execution,) = history.outside.executions
    assert isinstance(execution, Execution)
    assert isinstance(history.oracle, Oracle)
    assert _wrong_after_all(plan) == ["it took effect after an approval of its key was called failed"]


def _wrong_after_all(plan: Plan) -> list[str]:
    from dataclasses import replace

    liar = replace(plan, scripts=(Script(0.5, 100.0, End.FAILS),))
    return acted_out(liar).violations


def test_a_plan_is_cut_down_one_thing_at_a_time() -> None:
    plan = drawn(5)
    for smaller in plan.smaller():
        assert smaller != plan
        assert len(str(smaller)) <= len(str(plan)) + 10


def _questioned(*answers: Answered, **more: Any) -> list[str]:
    plan = Plan(seed=0, tool="plain", asked=(), questions=(Questioned(0.0, 60.0, answers, **more),), calm=True)
    history = acted_out(plan)
    assert history.violations == [], "\n".join(history.notes)
    return [note.partition("TOLD ")[2] for note in history.notes if "TOLD" in note]


@pytest.mark.parametrize("flaw", FLAWS)
def test_of_answers_to_a_question_the_first_that_can_count_does(flaw: str) -> None:
    answers = (Answered(5.0, "production", flaw), Answered(6.0, "staging", times=3), Answered(7.0, "production"))
    assert _questioned(*answers) == ["q0: resolved {'where': 'staging'}"]
    assert _questioned(answers[0]) == ["q0: expired {}"]
    assert _questioned(Answered(61.5, "staging")) == ["q0: expired {}"]
    assert _questioned(*answers, cancelled_after=3.0) == ["q0: cancelled {}"]


def test_the_oracle_notices_an_answer_that_nobody_gave_or_that_was_lost() -> None:
    history = acted_out(Plan(seed=0, tool="plain", asked=(), calm=True, questions=(Questioned(0.0, 60.0),)))
    wrong: list[str] = []
    answers = Answers(SimpleNamespace(note=wrong.append), history.oracle._looking, wrong.append)  # type: ignore[arg-type]
    expired = history.oracle.questions._outcomes["q0"]
    given = answer_to(question_plan(), {"where": "staging"}, received_at=clock.EPOCH)
    answers.ask("q0", Questioned(0.0, 60.0), clock.EPOCH)
    answers.hear("q0", Answered(0.0, flaw="outsider"), given, is_shown=True)
    answers.told(expired)
    answers.told(expired.model_copy(update={"status": QuestionStatus.RESOLVED, "answers": {"where": "staging"}}))
    answers.hear("q0", Answered(0.0), given, is_shown=True)
    answers.at_the_end()
    assert [each for each in wrong if "TOLD" not in each] == [
        "a question was called expired, then resolved",
        "an answer to a question was lost",
    ]
    answers._outcomes.clear()
    answers.told(expired.model_copy(update={"status": QuestionStatus.RESOLVED, "answers": {"where": "production"}}))
    assert wrong[-1] == "a question was answered with what nobody said who may"


YES, NO = Answered(1.0, "staging"), Answered(2.0, "production")


def _ran(holder: str, *needs: Needed, **more: float) -> tuple[list[str], list[str]]:
    """How the interactions of a run ended, and what its program read; and what was wrong."""
    plan = Plan(seed=0, tool="plain", asked=(), runs=(Ran(0.0, holder, needs, **more),), calm=True)
    history = acted_out(plan)
    said = [note.partition("run0:")[2] for note in history.notes if "has ended: " in note or "LINE of" in note]
    return said, history.violations


@pytest.mark.parametrize("holder", ["worker", "client"])
def test_of_answers_to_a_program_the_first_that_can_count_is_read_once(holder: str) -> None:
    flawed = tuple(Answered(0.5, "production", flaw) for flaw in RUN_FLAWS)
    needs = (Needed(60.0, (*flawed, YES, NO), takers=2), Needed(60.0, (NO,)), Needed(60.0, flawed))
    assert _ran(holder, *needs) == (
        [
            "input-0: staging",
            "input-0 has ended: resolved (None)",
            "input-1: production",
            "input-1 has ended: resolved (None)",
            "input-2 has ended: expired (None)",
        ],
        [],
    )


@pytest.mark.parametrize(
    ("holder", "need", "more", "ended"),
    [
        ("worker", Needed(60.0, (YES,), dies="claimed"), {}, ["cancelled (write: unknown)"]),
        ("client", Needed(60.0, (YES,), dies="claimed"), {}, ["cancelled (write: unknown)"]),
        ("worker", Needed(60.0, (YES,), dies="written"), {}, ["staging", "cancelled (write: unknown)"]),
        ("client", Needed(60.0, (YES,), dies="written"), {}, ["staging", "cancelled (write: unknown)"]),
        ("worker", Needed(60.0, (YES,)), {"killed_after": 0.5}, ["cancelled (run: not active)"]),
        ("client", Needed(60.0, (YES,)), {"killed_after": 0.5}, ["cancelled (run: not active)"]),
        ("worker", Needed(60.0, (NO,)), {"ends_after": 0.5}, ["cancelled (the call that asked has ended)"]),
        ("client", Needed(60.0, (NO,)), {"ends_after": 0.5}, ["cancelled (run: not active)"]),
        ("host", Needed(60.0, (YES, NO)), {}, ["resolved (None)"]),
    ],
)
def test_what_becomes_of_a_line_whose_holder_dies(
    holder: str, need: Needed, more: dict[str, float], ended: list[str]
) -> None:
    said, wrong = _ran(holder, need, **more)
    assert ([each.partition("ended: ")[2] or each.partition(": ")[2] for each in said], wrong) == (ended, [])


def test_the_oracle_notices_a_line_that_is_given_away_twice_or_called_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def given_to_all(connection: Connection, wish: LineClaim) -> ClaimedLine:
        claimed = await claim(connection, wish)
        return claimed if claimed.text else ClaimedLine(text="staging\n")

    async def called_read(connection: Connection, asked: LineQuestion) -> LineReport:
        return (await close(connection, asked)).model_copy(update={"state": LineState.WRITTEN})

    claim, close = runs.claim, runs.close
    with monkeypatch.context() as patch:
        patch.setattr("ledger.runs.claim", given_to_all)
        assert "an answer was written to a program twice" in _ran("client", Needed(60.0, (YES,), takers=2))[1]
    with monkeypatch.context() as patch:
        patch.setattr("ledger.runs.close", called_read)
        said, wrong = _ran("client", Needed(60.0, (YES,)), killed_after=0.5)
    assert "an interaction is resolved whose line nobody has read" in wrong, said
