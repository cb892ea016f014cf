"""`assent ask` and `assent answer`, as people and scripts run them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from assent.cli.questions import read_answers
from assent.errors import InvalidRequest
from tests.support.command_line import ME, CommandLine, command_line, on_terminal
from tests.support.questions import ALL, GOOD, PARTS, SURE, WHERE
from tests.support.waiting import until

AS_ME = ("--as", "open_id:ou_me")
FOR_ME = ("--requester", "open_id:ou_me")


@pytest.fixture(scope="module")
async def assent(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[CommandLine]:
    async with AsyncExitStack() as stack:
        yield await command_line(stack, tmp_path_factory.mktemp("questions"), temporal_address, next(namespaces))


async def test_a_script_asks_waits_and_gets_the_answer(assent: CommandLine) -> None:
    asked = ("ask", "Where?", "--option", "staging=Staging", "--option", "production", *FOR_ME)
    waiting = asyncio.create_task(assent(*asked, "--id", "where-1", "--wait"))
    handle = assent.service.gate.question("where-1")

    async def is_asked() -> bool:
        try:
            return (await handle.state()).is_prepared
        except Exception:
            return False

    await until(is_asked)
    refused = await assent("answer", "where-1", "moon", *AS_ME)
    assert (refused.code, refused.err) == (
        1,
        "Not counted: answer: that is not one of the options. It still waits.\n",
    )
    strange = await assent("answer", "where-1", "staging", "--as", "open_id:ou_other")
    assert (strange.code, strange.err) == (1, "Not counted: open_id:ou_other may not answer this.\n")
    done = await assent("answer", "where-1", "staging", *AS_ME)
    assert (done.code, done.out) == (0, "Answered.\n")
    finished = await waiting
    assert (finished.code, finished.out) == (0, "answer: staging\n")
    again = await assent("answer", "where-1", "production", *AS_ME, "--json")
    assert (again.code, again.data["kind"], again.data["answered_by"]["open_id"]) == (1, "already_decided", "ou_me")


async def test_several_questions_come_from_a_file_and_are_answered_by_their_ids(assent: CommandLine) -> None:
    listed = json.dumps([question.model_dump(mode="json") for question in ALL])
    asked = await assent("ask", "--questions", "-", *FOR_ME, "--json", stdin=listed.encode())
    assert asked.code == 0, asked.err
    question_id = asked.data["question_id"]
    wrong = await assent("answer", question_id, "staging", *AS_ME)
    assert (wrong.code, "write ID=VALUE" in wrong.err) == (2, True)
    given = ("where=staging", "sure=yes", "parts=jobs", "parts=web")
    other_hash = await assent("answer", question_id, *given, *AS_ME, "--hash", "0" * 64)
    assert other_hash.code == 1
    seen = asked.data["questions_sha256"][:12]
    assert (await assent("answer", question_id, *given, *AS_ME, "--hash", seen)).code == 0
    assert (await assent.service.gate.question(question_id).answer()).answers == GOOD


@pytest.mark.parametrize(
    "wrong",
    [("ask", *FOR_ME), ("ask", "x", "--confirm", "--option", "a", *FOR_ME), ("ask", "x"), ("answer", "q", "x")],
)
async def test_half_a_command_is_refused(assent: CommandLine, wrong: tuple[str, ...]) -> None:
    assert (await assent(*wrong)).code == 2


async def test_what_is_not_known_is_not_found(assent: CommandLine) -> None:
    done = await assent("answer", "nobody", "yes", *AS_ME)
    assert (done.code, "is not known" in done.err) == (4, True)


async def test_an_inbox_on_a_terminal_asks_and_answers(assent: CommandLine) -> None:
    handle = await assent.service.gate.ask([SURE, PARTS], requester=ME, reason="the release")

    async def listed() -> bool:
        return handle.id in (await assent("inbox", *AS_ME)).out

    await until(listed)
    async with on_terminal(assent, "inbox", *AS_ME) as (terminal, process):

        async def seen(text: str, times: int = 1) -> None:
            async def there() -> bool:
                return terminal.seen().count(text) >= times

            await until(there)

        for n, sure in ((1, "maybe"), (2, "yes")):
            await seen("[a]nswer", n)
            terminal.send("a")
            await seen("sure (yes or no)", n)
            terminal.send(sure)
            await seen("parts (numbers", n)
            terminal.send("1, docs")
            await seen("Answered." if n == 2 else "Not counted: sure: answer true or false")
        assert await asyncio.wait_for(process.wait(), 300) == 0
    assert (await handle.answer()).answers == {"sure": True, "parts": ("web", "docs")}


def test_what_is_typed_is_read_by_the_kind_of_question() -> None:
    assert read_answers([SURE], ["no"]) == {"sure": False}
    assert read_answers([SURE], ["sure=YES"]) == {"sure": True}
    assert read_answers([WHERE], ["a=b"]) == {"where": "a=b"}
    assert read_answers([WHERE, PARTS], ["where=staging", "parts=web"]) == {"where": "staging", "parts": ("web",)}
    with pytest.raises(InvalidRequest, match="where, parts"):
        read_answers([WHERE, PARTS], ["why=x"])
