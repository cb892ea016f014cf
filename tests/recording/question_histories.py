"""The paths of questions, recorded with those of approvals."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import activities.questions
from assent import Identity, InvalidRequest, QuestionHandle, names
from assent.contracts.answers import Answer
from tests.support.feishu_service import APPROVER, REQUESTER, Agent, FeishuService
from tests.support.questions import ALL, GOOD, SURE, WHERE
from tests.support.simulated_feishu import served
from tests.support.temporal_operations import finished, forget
from tests.support.waiting import until

QuestionPath = Callable[[FeishuService, Path], Awaitable[str]]
QUESTION_PATHS: dict[str, QuestionPath] = {}


def path(live: QuestionPath) -> QuestionPath:
    QUESTION_PATHS[live.__name__] = live
    return live


async def ask(feishu: FeishuService, *questions: Any, **more: Any) -> QuestionHandle:
    asked = {"requester": REQUESTER, **more}
    return await feishu.service.gate.ask(questions or ALL, **asked)


async def said(handle: QuestionHandle, answers: dict[str, Any] | None = None, **more: Any) -> str:
    fields: dict[str, Any] = {
        "question_id": handle.id,
        "questions_sha256": (await handle.state()).questions_sha256,
        "answers": GOOD if answers is None else answers,
        "actor": REQUESTER,
        "event_id": uuid.uuid4().hex,
        "delivery_id": "1",
        "received_at": datetime.now(UTC),
    }
    return (await handle.submit(Answer(**{**fields, **more}), answer_within=timedelta(minutes=1))).kind.value


async def ended(handle: QuestionHandle, status: str) -> str:
    assert (await handle.answer()).status == status
    return names.question_workflow(handle.id)


@path
async def question_answered(feishu: FeishuService, _: Path) -> str:
    handle = await ask(feishu, chat_id="oc_team")
    message = await feishu.chat.card(names.question_workflow(handle.id))
    assert await said(handle, {**GOOD, "where": "moon"}) == "invalid"
    assert await said(handle, actor=APPROVER) == "forbidden"
    assert await said(handle, message_id=message["message_id"]) == "accepted"
    return await ended(handle, "resolved")


@path
async def question_answered_early(feishu: FeishuService, _: Path) -> str:
    """Before its card is there."""
    await feishu.chat.misbehave({"on": "send", "kind": "5xx"})
    handle = await ask(feishu, SURE)
    assert await said(handle, {"sure": True}) == "accepted"
    await feishu.chat.behave()
    return await ended(handle, "resolved")


@path
async def question_of_members(feishu: FeishuService, _: Path) -> str:
    handle = await ask(feishu, WHERE, chat_id="oc_ops", members=True)
    assert await said(handle, {"where": "staging"}, actor=REQUESTER) == "forbidden"
    assert await said(handle, {"where": "staging"}, actor=APPROVER) == "accepted"
    return await ended(handle, "resolved")


@path
async def question_expired(feishu: FeishuService, _: Path) -> str:
    return await ended(await ask(feishu, SURE, ttl=timedelta(seconds=1)), "expired")


@path
async def question_cancelled(feishu: FeishuService, _: Path) -> str:
    handle = await ask(feishu, SURE)
    await handle.cancel("no longer needed", actor=REQUESTER)
    return await ended(handle, "cancelled")


@path
async def question_undeliverable(feishu: FeishuService, _: Path) -> str:
    return await ended(await ask(feishu, SURE, chat_id="oc_nowhere"), "cancelled")


@path
async def question_reminded(feishu: FeishuService, _: Path) -> str:
    kept, activities.questions._WORTH_REMINDING = activities.questions._WORTH_REMINDING, timedelta(0)
    handle = await ask(feishu, SURE, ttl=timedelta(seconds=8))
    activities.questions._WORTH_REMINDING = kept

    async def again() -> bool:
        return len(await feishu.chat.cards(names.question_workflow(handle.id))) == 2

    await until(again)
    assert await said(handle, {"sure": False}) == "accepted"
    return await ended(handle, "resolved")


@path
async def question_refused(feishu: FeishuService, _: Path) -> str:
    question_id = uuid.uuid4().hex
    try:
        await ask(feishu, SURE, question_id=question_id, callback_url="https://agent.example/", people=[OTHER_TENANT])
    except InvalidRequest:
        return names.question_workflow(question_id)
    raise AssertionError("it was not refused")


OTHER_TENANT = Identity(open_id="ou_foreign", tenant_key="tenant_2")


@path
async def question_as_before(feishu: FeishuService, _: Path) -> str:
    """Asked again after Temporal has forgotten it."""
    handle = await ask(feishu, SURE, question_id=uuid.uuid4().hex)
    assert await said(handle, {"sure": True}) == "accepted"
    await handle.answer()
    await forget(feishu.service, names.question_workflow(handle.id))
    return await ended(await ask(feishu, SURE, question_id=handle.id), "resolved")


@path
async def question_shown_as_before(feishu: FeishuService, _: Path) -> str:
    """The ledger had its end, and nobody came to show it: its card loses its button when it is asked again."""
    question_id = uuid.uuid4().hex
    handle, workflow_id = await ask(feishu, SURE, question_id=question_id), names.question_workflow(question_id)
    await feishu.chat.card(workflow_id)
    await feishu.service.client.get_workflow_handle(workflow_id).terminate()
    assert await feishu.service.ledger.end_gone_question(handle.id, "it is gone") is not None
    await forget(feishu.service, workflow_id)
    told = await ended(await ask(feishu, SURE, question_id=question_id), "cancelled")
    await feishu.chat.final(workflow_id)
    return told


@path
async def question_announced_as_before(feishu: FeishuService, _: Path) -> str:
    """The ledger had its end, and Temporal forgot it before anybody was told: whoever asked to be is."""
    host = Agent(204)
    async with served(host.app) as url:
        named = {"question_id": uuid.uuid4().hex, "callback_url": f"{url}/hook"}
        asking = names.question_workflow(named["question_id"])
        announcing = names.announcing_workflow(asking)
        handle = await ask(feishu, SURE, **named)
        assert await said(handle, {"sure": True}) == "accepted"
        await finished(feishu.service, asking, announcing)
        await forget(feishu.service, asking)
        await forget(feishu.service, announcing)
        told = await ended(await ask(feishu, SURE, **named), "resolved")
        await finished(feishu.service, asking, announcing)
    assert len(host.told) == 2
    return told


@path
async def question_resolved(feishu: FeishuService, _: Path) -> str:
    """Feishu is asked first whether two ids are one person's."""
    named = Identity(union_id="on_approver", user_id="u_approver")
    handle = await ask(feishu, SURE, requester=named)
    assert await said(handle, {"sure": True}, actor=Identity(open_id="ou_approver")) == "accepted"
    return await ended(handle, "resolved")


async def continuing(feishu: FeishuService) -> tuple[str, str]:
    """A question whose history grew long, and its first run."""
    handle = await ask(feishu, WHERE)
    workflow_id = names.question_workflow(handle.id)
    client = feishu.service.client
    first = (await client.get_workflow_handle(workflow_id).describe()).run_id
    filler = "x" * 3000

    async def continued() -> bool:
        for _ in range(10):
            await said(handle, {"where": filler}, actor=APPROVER)
        return (await client.get_workflow_handle(workflow_id).describe()).run_id != first

    await until(continued)
    assert await said(handle, {"where": "staging"}) == "accepted"
    await handle.answer()
    return workflow_id, str(first)


@path
async def question_continuing_as_new(feishu: FeishuService, _: Path) -> str:
    return "#".join(await continuing(feishu))


@path
async def question_continued(feishu: FeishuService, _: Path) -> str:
    return (await continuing(feishu))[0]


async def handed_over(feishu: FeishuService) -> tuple[str, str]:
    handle = await ask(feishu, SURE, callback_url=None)
    workflow_id = names.question_workflow(handle.id)
    await feishu.chat.card(workflow_id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx"})
    assert await said(handle, {"sure": True}) == "accepted"
    await handle.answer()
    await feishu.chat.behave()
    await feishu.chat.final(workflow_id)
    async for found in feishu.service.client.list_workflows(f'WorkflowType = "{names.SHOW_ANSWERED}"'):
        if handle.id in found.id:
            await feishu.service.client.get_workflow_handle(found.id).result()
            return workflow_id, found.id
    raise AssertionError("nothing was handed over")


@path
async def question_handed_over(feishu: FeishuService, _: Path) -> str:
    return (await handed_over(feishu))[0]


@path
async def showing_answered(feishu: FeishuService, _: Path) -> str:
    return (await handed_over(feishu))[1]


async def asking(feishu: FeishuService, directory: Path, tool: str) -> tuple[str, str]:
    """A call whose tool asks while it runs, and its first question."""
    handle = await feishu.ask(directory, tool)
    state = await handle.state()
    await feishu.chat.card(handle.id)
    await handle.decide("approve", actor=REQUESTER, payload_sha256=state.payload_sha256)
    known: list[str] = []

    async def asked() -> str | None:
        async for line in feishu.service.gate.questions(status="pending"):
            if line.tool == tool and line.question_id not in known:
                return line.question_id
        return None

    async def waits() -> bool:
        return "waits for an answer" in str(await feishu.chat.card(handle.id))

    for answers in ({"answer": True}, {"answer": False}) if tool == "asks_twice" else ():
        known.append(await until(asked))
        await until(waits)
        assert await said(feishu.service.gate.question(known[-1]), answers) == "accepted"
    if tool == "asks_in_vain":
        known.append(await until(asked))
        await until(waits)
        (directory / "marks").touch()
    assert (await handle.outcome()).status == "executed"
    assert (await feishu.service.gate.question(known[0]).answer()).status in ("resolved", "cancelled")
    return names.approval_workflow(handle.id), names.question_workflow(known[0])


@path
async def call_that_asks(feishu: FeishuService, directory: Path) -> str:
    return (await asking(feishu, directory, "asks_twice"))[0]


@path
async def call_that_asks_in_turn(feishu: FeishuService, directory: Path) -> str:
    """That its tool asks is still being said when it is time to say that it runs."""
    await feishu.chat.misbehave({"on": "patch", "kind": "slow", "seconds": 3, "times": 1})
    return (await asking(feishu, directory, "asks_twice"))[0]


@path
async def question_of_a_call(feishu: FeishuService, directory: Path) -> str:
    return (await asking(feishu, directory, "asks_twice"))[1]


@path
async def call_that_asked_in_vain(feishu: FeishuService, directory: Path) -> str:
    return (await asking(feishu, directory, "asks_in_vain"))[0]


@path
async def question_withdrawn_with_its_call(feishu: FeishuService, directory: Path) -> str:
    return (await asking(feishu, directory, "asks_in_vain"))[1]
