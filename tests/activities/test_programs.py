"""Programs that ask at a prompt: what they are answered is written once, and their end says what is certain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Identity, QuestionHandle, names
from assent.types import AskedQuestion
from ledger.results import claim_of
from ledger.runs import interactions_of
from tests.conftest import ME, Service
from tests.support.programs import MANY, PROMPTS, lines, script
from tests.support.waiting import until
from workers.sweeping import end_gone_questions


async def running(service: Service, name: str, **arguments: Any) -> ApprovalHandle:
    handle = await service.gate.request(name, {key: _text(value) for key, value in arguments.items()}, requester=ME)
    state = await handle.state()
    assert (await handle.decide("approve", actor=ME, payload_sha256=state.payload_sha256)).kind == "accepted"
    return handle


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


async def asked(service: Service, handle: ApprovalHandle, request_id: str) -> QuestionHandle:
    """The interaction that a run calls so."""

    async def found() -> AskedQuestion | None:
        async for line in service.gate.questions(status="pending"):
            if line.question_id.endswith(f":{request_id}") and await _is_of(service, line, handle):
                return line
        return None

    return service.gate.question((await until(found)).question_id)


async def _is_of(service: Service, line: AskedQuestion, handle: ApprovalHandle) -> bool:
    known = await service.ledger.question(line.question_id)
    return known is not None and known.approval_id == handle.id


async def answer(question: QuestionHandle, said: str, actor: Identity = ME) -> str:
    sha256 = (await question.state()).questions_sha256
    return (await question.respond({"answer": said}, actor=actor, questions_sha256=sha256)).kind.value


async def test_a_program_with_three_prompts_gets_three_lines(service: Service, tmp_path: Path) -> None:
    counter = tmp_path / "read"
    handle = await running(service, "prompted", script=script(tmp_path, PROMPTS), counter=counter)
    where = await asked(service, handle, "where")
    assert await answer(where, "staging") == "accepted"
    assert (await where.answer()).is_answered
    assert await answer(await asked(service, handle, "who"), "  the team  ") == "accepted"
    assert await answer(await asked(service, handle, "input-3"), "没有") == "accepted"
    outcome = await handle.outcome()
    assert outcome.status == "executed"
    run_id = where.id.partition(":")[0]
    assert outcome.content == {"run_id": run_id, "exit_code": 0, "summary": "Anything else? ✓"}
    assert lines(counter) == ["staging", "the team", "没有"]
    assert await service.events(names.question_workflow(where.id)) == ["ask", "answer", "write_input"]
    assert await service.ledger.verify() == []
    output, code = await service.ledger.run_output(run_id) or (b"", None)
    assert (code, b"a secret of the transcript" in output) == (0, True)


@pytest.mark.parametrize(
    ("program", "status", "says"),
    [
        ("exit 0", "executed", None),
        ("exit 3", "failed", None),
        ("exit 4", "frozen", "exit code 4"),
        ("kill -9 $$", "frozen", "exit code -9"),
        ("sleep 60", "frozen", "did not end within"),
        ("while :; do echo too much too much too much too much; done", "frozen", "said more than it may"),
        ("echo 'NEED_USER_INPUT {}'; read line || exit 3", "failed", None),
    ],
)
async def test_an_exit_code_says_what_is_certain(
    service: Service, tmp_path: Path, program: str, status: str, says: str | None
) -> None:
    handle = await running(service, "programmed", script=script(tmp_path, f"{program}\n"))
    outcome = await handle.outcome()
    assert outcome.status == status, outcome
    if says is None:
        assert outcome.content["exit_code"] in (0, 3)
        assert "output" not in outcome.content
    else:
        claim = await service.ledger.engine.read(claim_of, handle.id)
        assert claim is not None
        assert says in claim.error


async def test_what_cannot_be_started_did_not_run(service: Service, tmp_path: Path) -> None:
    outcome = await (await running(service, "absent", target="x")).outcome()
    assert (outcome.status, outcome.content) == (
        "failed",
        "It could not be started, so it did not run (FileNotFoundError).",
    )


async def test_an_argument_stays_one_argument_and_no_option(service: Service, tmp_path: Path) -> None:
    echoing = script(tmp_path, 'printf "%s|" "$@"\n')
    outcome = await (await running(service, "talkative", script=echoing)).outcome()
    assert outcome.content["output"] == "|"
    refused = await (await running(service, "talkative", script="-c")).outcome()
    assert (refused.status, "would be an option" in refused.content) == ("failed", True)
    hostile = script(tmp_path, "echo safe\n", "a; touch hacked `id` $(id) 'b.sh")
    outcome = await (await running(service, "talkative", script=hostile)).outcome()
    assert outcome.content["output"] == "safe\n"


@pytest.mark.parametrize("said", ["two\nlines", "\x1b[2J", "tab\there", "a\u2028b", "yes\r", "\x9b31m"])
async def test_what_is_more_than_a_line_is_invalid_and_the_program_still_waits(
    service: Service, tmp_path: Path, said: str
) -> None:
    counter = tmp_path / "read"
    handle = await running(service, "prompted_often", script=script(tmp_path, MANY), counter=counter, most=1)
    question = await asked(service, handle, "q1")
    assert await answer(question, said) == "invalid"
    assert await answer(question, "fine") == "accepted"
    assert (await handle.outcome()).status == "executed"
    assert lines(counter) == ["fine"]


async def test_an_interaction_that_nobody_answers_closes_the_input(service: Service, tmp_path: Path) -> None:
    asks = 'NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "expires_in": 0.5}'
    handle = await running(service, "programmed", script=script(tmp_path, f"echo '{asks}'\nread line || exit 3\n"))
    outcome = await handle.outcome()
    assert (outcome.status, outcome.content["exit_code"]) == ("failed", 3)
    found = [line async for line in service.gate.questions(status="expired")]
    assert [line.tool for line in found if line.question_id.startswith(outcome.content["run_id"])] == ["programmed"]


async def test_a_program_that_ends_without_reading_leaves_nothing_to_answer(service: Service, tmp_path: Path) -> None:
    asks = 'NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "interaction_request_id": "left"}'
    go = tmp_path / "go"
    handle = await running(
        service, "programmed", script=script(tmp_path, f"echo '{asks}'\nwhile [ ! -e '{go}' ]; do sleep 0.05; done\n")
    )
    question = await asked(service, handle, "left")
    go.touch()
    assert (await handle.outcome()).status == "executed"
    assert (await question.answer()).status == "cancelled"
    assert await answer(question, "late") == "already_decided"


async def test_what_a_program_leaves_running_goes_on_and_what_is_stopped_leaves_nothing(
    service: Service, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    starts = f"(sleep 1; echo on >> '{left}') >/dev/null 2>&1 &\n"
    outcome = await (await running(service, "programmed", script=script(tmp_path, f"{starts}exit 0\n"))).outcome()
    assert outcome.status == "executed"

    async def went_on() -> bool:
        return lines(left) == ["on"]

    await until(went_on)
    stopped = tmp_path / "stopped"
    ticks = f"(while :; do echo tick >> '{stopped}'; sleep 0.1; done) &\nsleep 60\n"
    outcome = await (await running(service, "programmed", script=script(tmp_path, ticks, "ticks.sh"))).outcome()
    assert outcome.status == "frozen"
    known = len(lines(stopped))
    await asyncio.sleep(0.5)  # nothing more may come
    assert len(lines(stopped)) <= known + 1


async def test_a_question_ended_by_hand_closes_the_input_of_its_program(service: Service, tmp_path: Path) -> None:
    asks = 'NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "interaction_request_id": "gone"}'
    program = script(tmp_path, f"echo '{asks}'\nread line || exit 3\n")
    handle = await running(service, "prompted", script=program, counter=tmp_path / "read")
    question = await asked(service, handle, "gone")
    assert (await question.state()).is_prepared
    await service.client.get_workflow_handle(names.question_workflow(question.id)).terminate()
    assert (await handle.outcome()).status == "failed", "its input was closed"
    await end_gone_questions(service.client, service.ledger)
    found = await service.ledger.question(question.id)
    assert found is not None
    assert found.status == "cancelled"


ASKS = """ask() { echo 'NEED_USER_INPUT {"answer_type": "text", "prompt": "Now?", "interaction_request_id": "'$1'"}'; }
"""


async def test_what_was_answered_is_not_asked_again_under_its_id(service: Service, tmp_path: Path) -> None:
    text = f'{ASKS}ask same\nread a || exit 3\nask same\nread b && exit 0\n[ "$a" = yes ] && exit 3\n'
    handle = await running(service, "programmed", script=script(tmp_path, text))
    assert await answer(await asked(service, handle, "same"), "yes") == "accepted"
    assert (await handle.outcome()).status == "failed", "it reads the end of the file, and waits for nothing"


async def test_nobody_is_asked_for_a_program_that_cannot_be_answered(service: Service, tmp_path: Path) -> None:
    text = f"{ASKS}ask first\necho NEED_USER_INPUT x\nask third\nread a\nread b && exit 0\n[ $a = yes ] && exit 3\n"
    handle = await running(service, "programmed", script=script(tmp_path, text))
    first = await asked(service, handle, "first")
    assert await answer(first, "yes") == "accepted", "what cannot be read is no one's answer but its own"
    assert (await first.answer()).is_answered
    assert (await handle.outcome()).status == "failed"
    run_id = first.id.partition(":")[0]
    assert [each.run.interaction_request_id for each in await service.ledger.engine.read(interactions_of, run_id)] == [
        "first"
    ]
