"""Programs: what their lines mean, how a tool of one is declared, and what an answer to them must be."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from assent import InvalidTool, Registry, program_tool
from assent.contracts.answers import Answer
from assent.contracts.questions import Option, Question, QuestionKind, QuestionRequest
from assent.contracts.runs import SIGNATURE_INVALID, AnswerType, AskingRun, LineReport, LineState, RunHolder
from assent.core import questions as core
from assent.core.questions import Opened
from assent.errors import InvalidRequest
from assent.programs.lines import Need, Progress, Unreadable, read_line
from assent.programs.summaries import Summaries
from assent.tools.programs import filled
from tests.support.questions import NOW, answer_to, question_plan
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?"}', Need),
        ('  NEED_USER_INPUT {"answer_type": "choice", "prompt": "Now?", "options": ["a", {"value": "b"}]}\r', Need),
        ('NEED_USER_INPUT\t{"answer_type": "text", "prompt": "Now?"}', Need),
        ('PROGRESS {"summary": "half"}', Progress),
        ("", type(None)),
        ("NEED_USER_INPUT", Unreadable),
        ("NEED_USER_INPUT []", Unreadable),
        ('NEED_USER_INPUT {"answer_type": "choice", "prompt": "Now?"}', Unreadable),
        ('NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "expires_in": -1}', Unreadable),
        ('NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "interaction_request_id": "a b"}', Unreadable),
        ('PROGRESS {"summary": 1}', Unreadable),
        ('I say NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?"}', type(None)),
        ("NEED_USER_INPUTS {}", type(None)),
    ],
)
def test_lines_mean_what_they_say(line: str, kind: type) -> None:
    assert isinstance(read_line(line), kind)


def test_a_summary_is_one_line_of_at_most_150_characters() -> None:
    found = read_line('PROGRESS {"summary": "' + "x" * 400 + '\\nsecret"}')
    assert isinstance(found, Progress)
    assert len(found.summary) <= 150
    need = read_line('NEED_USER_INPUT {"answer_type": "text", "prompt": "' + "p" * 300 + '"}')
    assert isinstance(need, Need)
    assert len(need.answered("my password")) <= 150
    assert "my password" not in need.answered("my password"), "nobody's own words are told"


async def test_summaries_come_one_at_a_time_and_the_latest_counts() -> None:
    sent: list[str] = []

    async def send(summary: str) -> None:
        sent.append(summary)

    summaries = Summaries(send, pace=0.05)
    for n in range(50):
        summaries.tell(f"step {n}")

    async def last() -> bool:
        return bool(sent) and sent[-1] == "step 49"

    await until(last)
    assert len(sent) <= 2


# Declaring


@pytest.mark.parametrize(
    ("vector", "more", "says"),
    [
        ("./rebuild.sh", {}, "list of texts"),
        ([], {}, "list of texts"),
        (["{program}"], {}, "which program runs"),
        (["sh", "{a b}"], {}, "not the name of an argument"),
        (["sh", "a\0b"], {}, "list of texts"),
        (["sh"], {"parameters": {"unused": str}}, "does not use unused"),
        (["sh"], {"failure_codes": [0]}, "from 1 to 255"),
        (["sh"], {"max_output": 0}, "max_output"),
        (["sh"], {"retry_safe": True}, "retry_safe cannot be said"),
    ],
)
def test_a_program_that_cannot_be_run_safely_is_refused(vector: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidTool, match=says):
        program_tool("bad", vector, registry=Registry(), **more)


def test_consent_rests_on_all_that_is_said_of_a_program() -> None:
    def declared(**more: Any) -> str:
        said: dict[str, Any] = {
            "vector": ["sh", "{target}"],
            "cwd": "/srv",
            "env": ["PATH"],
            "failure_codes": [3],
            **more,
        }
        return program_tool("p", registry=Registry(), **said).manifest.shown_sha256

    others: list[dict[str, Any]] = [
        {"vector": ["bash", "{target}"]},
        {"cwd": "/tmp"},
        {"env": ["PATH", "HOME"]},
        {"failure_codes": [4]},
        {"max_output": 5},
        {"returns_output": True},
        {"parameters": {"target": int}},
    ]
    assert len({declared(), *(declared(**each) for each in others)}) == len(others) + 1
    assert declared() == declared()


def test_a_value_stays_within_its_argument() -> None:
    program = program_tool(
        "p",
        ["run", "--to={target}", "{n}", "{target}"],
        parameters={"n": int},
        registry=Registry(),
    ).program
    assert program is not None
    assert filled(program, {"target": "a b; rm *", "n": -1}) == ["run", "--to=a b; rm *", "-1", "a b; rm *"]
    for hostile in ("-rf", "--force", "a\0b"):
        with pytest.raises(InvalidRequest):
            filled(program, {"target": hostile, "n": 1})


# Answering


def opened(answer_type: AnswerType = AnswerType.TEXT) -> Opened:
    run = AskingRun(
        run_id="r",
        holder=RunHolder.WORKER,
        tool="p",
        tool_session_id="s",
        interaction_request_id="i",
        answer_type=answer_type,
    )
    plan = question_plan(
        Question(prompt="Which?", kind=QuestionKind.TEXT), question_id=run.question_id, run=run, addresses=()
    )
    return Opened(plan=plan, opened_at=NOW)


def said(question: Opened, text: str, **more: Any) -> Answer:
    return answer_to(question.plan, {"answer": text}, message_id=None, **more)


def test_an_answer_by_a_callback_that_nobody_signed_is_refused_by_its_code() -> None:
    question = opened()
    for proof, verdict in (("feishu-token", "tampered"), ("feishu-connection", "accepted")):
        question = core.answer(question, said(question, "blue", proof=proof, event_id=proof), NOW)
        judged = question.notes.judged[-1]
        assert judged.verdict == verdict
        assert judged.problem == (SIGNATURE_INVALID if verdict == "tampered" else None)
    assert [entry.error for entry in question.notes.unwritten if entry.event == "tamper"] == [SIGNATURE_INVALID]


@pytest.mark.parametrize("value", ["a\x9b31m", "a\u2028b", "a\x7f"])
def test_no_option_of_a_run_is_more_than_a_line(value: str) -> None:
    question, chosen = opened(), Question(prompt="Which?", kind=QuestionKind.CHOICE, options=(Option(value=value),))
    with pytest.raises(ValidationError, match="one line"):
        QuestionRequest(
            question_id="r:i", questions=(chosen,), requester=question.plan.requester, run=question.plan.run
        )
    plan = question_plan(chosen, question_id="r:i", run=question.plan.run, addresses=())
    question = question.model_copy(update={"plan": plan})
    for given in ({"answers": {"answer": (value,)}}, {"answers": {}, "numbered": {"answer": (1,)}}):
        answer = said(question, "").model_copy(update={**given, "event_id": str(given)})
        assert core.answer(question, answer, NOW).notes.judged[-1].verdict == "invalid"


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        (LineState.WRITTEN, "resolved", None),
        (LineState.UNKNOWN, "cancelled", "write: unknown"),
        (LineState.CLOSED, "cancelled", "run: not active"),
    ],
)
def test_a_line_that_was_not_written_for_certain_is_no_answer(
    state: LineState, status: str, reason: str | None
) -> None:
    question = opened()
    assert core.offer(question) is None
    question = core.answer(question, said(question, "  blue "), NOW)
    line = core.offer(question)
    assert line is not None
    assert line.text == "blue\n"
    question = core.written(question, LineReport(state=state), NOW)
    outcome = core.conclude(question, NOW).outcome
    assert (outcome.status, outcome.reason, outcome.answers is None) == (status, reason, status == "cancelled")
    told = core.event(question.plan, outcome)
    assert told is not None
    assert told.event_type == ("interaction.answer.submitted" if status == "resolved" else "interaction.cancelled")
