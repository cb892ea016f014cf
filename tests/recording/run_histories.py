"""The paths of running programs' interactions, and of what says how far they are."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from assent import QuestionHandle, names
from assent.contracts.questions import Question, QuestionKind, QuestionRequest
from assent.contracts.runs import AnswerType, AskingRun, LineClaim, LineWritten, RunHolder, RunNews, RunStart
from assent.temporal.questions import TemporalQuestions
from assent.temporal.runs import claim_line, confirm_line, tell_run
from assent.temporal.talking import Talking
from ledger import MessageKind, runs
from tests.recording.question_histories import QuestionPath, ended, said
from tests.support.feishu_service import REQUESTER, FeishuService
from tests.support.programs import MANY, script
from tests.support.temporal_operations import reset
from tests.support.waiting import until

RUN_PATHS: dict[str, QuestionPath] = {}
ANSWER = {"answer": "blue"}


def path(live: QuestionPath) -> QuestionPath:
    RUN_PATHS[live.__name__] = live
    return live


async def interaction(
    feishu: FeishuService, holder: RunHolder, queue: str | None = None, **more: Any
) -> QuestionHandle:
    """What a run asks, whose pipe is held so."""
    run = AskingRun(
        run_id=uuid.uuid4().hex,
        holder=holder,
        tool="deploy.sh",
        queue=queue,
        tool_session_id="session",
        interaction_request_id="colour",
        answer_type=AnswerType.TEXT,
    )
    service = feishu.service
    await service.ledger.engine.write(runs.start, run, datetime.now(UTC))
    questions = (Question(prompt="Which colour?", kind=QuestionKind.TEXT),)
    request = QuestionRequest(
        question_id=run.question_id, questions=questions, requester=REQUESTER, run=run, ttl=timedelta(minutes=5), **more
    )
    await TemporalQuestions(Talking(service.client), None).ask(request)
    return service.gate.question(run.question_id)


async def offered(feishu: FeishuService, handle: QuestionHandle) -> None:
    """Answered, and its line waits."""
    workflow = feishu.service.client.get_workflow_handle(names.question_workflow(handle.id))
    state = await handle.state()
    about = {"question_id": handle.id, "questions_sha256": state.questions_sha256, "answers": ANSWER}
    await workflow.signal(names.ANSWER, {**about, "actor": REQUESTER.model_dump(), "event_id": uuid.uuid4().hex})

    async def waits() -> bool:
        found = await feishu.service.ledger.engine.read(runs.interaction, handle.id)
        return found is not None and found.state == "offered"

    await until(waits)


@path
async def interaction_written(feishu: FeishuService, directory: Path) -> str:
    asked = {"script": str(script(directory, MANY)), "counter": str(directory / "read"), "most": 1}
    handle = await feishu.service.gate.request("prompted_often", asked, requester=REQUESTER)
    state = await handle.state()
    await handle.decide("approve", actor=REQUESTER, payload_sha256=state.payload_sha256)

    async def found() -> str | None:
        async for line in feishu.service.gate.questions(status="pending"):
            if line.tool == "prompted_often":
                return line.question_id
        return None

    question = feishu.service.gate.question(await until(found))
    assert await said(question, ANSWER) == "accepted"
    assert (await handle.outcome()).status == "executed"
    return await ended(question, "resolved")


@path
async def interaction_of_a_lost_run(feishu: FeishuService, _: Path) -> str:
    """The worker that held the pipe is gone."""
    handle = await interaction(feishu, RunHolder.WORKER, names.run_queue("nobody"))
    await offered(feishu, handle)
    return await ended(handle, "cancelled")


@path
async def interaction_fetched(feishu: FeishuService, _: Path) -> str:
    handle = await interaction(feishu, RunHolder.CLIENT)
    await offered(feishu, handle)
    client = feishu.service.client
    assert (await claim_line(client, LineClaim(question_id=handle.id, token="t"))).text == "blue\n"
    await confirm_line(client, LineWritten(question_id=handle.id, token="t", written_bytes=5))
    return await ended(handle, "resolved")


@path
async def interaction_taken_up_again(feishu: FeishuService, _: Path) -> str:
    """Reset in Temporal once its line was taken: the answer is on record, and nobody is asked anew."""
    handle = await interaction(feishu, RunHolder.CLIENT)
    await offered(feishu, handle)
    client = feishu.service.client
    await claim_line(client, LineClaim(question_id=handle.id, token="t"))
    await reset(feishu.service, handle, nth_task=0, keep_signals=False)
    await confirm_line(client, LineWritten(question_id=handle.id, token="t", written_bytes=5))
    return await ended(handle, "resolved")


@path
async def interaction_unconfirmed(feishu: FeishuService, _: Path) -> str:
    handle = await interaction(feishu, RunHolder.CLIENT)
    await offered(feishu, handle)
    await claim_line(feishu.service.client, LineClaim(question_id=handle.id, token="t"))
    await handle.cancel("the run has ended")
    return await ended(handle, "cancelled")


@path
async def interaction_of_a_host(feishu: FeishuService, _: Path) -> str:
    handle = await interaction(feishu, RunHolder.HOST)
    assert await said(handle, ANSWER) == "accepted"
    return await ended(handle, "resolved")


async def continuing(feishu: FeishuService) -> tuple[str, str]:
    """A run that says so much that its history grows long."""
    start = RunStart(run_id=uuid.uuid4().hex, tool="deploy.sh", requester=REQUESTER, chat_id="oc_team")
    client, workflow_id = feishu.service.client, names.run_workflow(start.run_id)
    await tell_run(client, start, RunNews(summary="It begins"))
    first = (await client.get_workflow_handle(workflow_id).describe()).run_id
    said = itertools.count()

    async def continued() -> bool:
        for _ in range(50):
            await tell_run(client, start, RunNews(summary=f"{next(said)} files " + "x" * 100))
        return (await client.get_workflow_handle(workflow_id).describe()).run_id != first

    await until(continued)
    await tell_run(client, start, RunNews(has_ended=True, exit_code=0))
    await client.get_workflow_handle(workflow_id).result()
    assert len(await feishu.chat.cards(workflow_id, MessageKind.NOTICE)) == 1, "one message"
    return workflow_id, str(first)


@path
async def run_continuing_as_new(feishu: FeishuService, _: Path) -> str:
    return "#".join(await continuing(feishu))


@path
async def run_continued(feishu: FeishuService, _: Path) -> str:
    return (await continuing(feishu))[0]


@path
async def run_summarised(feishu: FeishuService, _: Path) -> str:
    start = RunStart(run_id=uuid.uuid4().hex, tool="deploy.sh", requester=REQUESTER, chat_id="oc_team")
    client = feishu.service.client
    await tell_run(client, start, RunNews(summary="It begins"))

    async def is_shown() -> bool:
        return bool(await feishu.chat.cards(names.run_workflow(start.run_id), MessageKind.NOTICE))

    await until(is_shown)
    for summary in ("half of it", "nearly all of it"):
        await tell_run(client, start, RunNews(summary=summary))
    await tell_run(client, start, RunNews(has_ended=True, exit_code=0))
    await client.get_workflow_handle(names.run_workflow(start.run_id)).result()
    return names.run_workflow(start.run_id)
