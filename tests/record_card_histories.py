"""The paths of approvals that are shown on cards; `tests.record_histories` lives them with the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from temporalio.testing import TimeSkipper

from assent import ApprovalHandle, Assent, names
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.feishu import REQUESTER, Agent, Office
from tests.parts import until
from tests.simulated import served

CardPath = Callable[[Office, Path], Awaitable[str]]
CARD_PATHS: dict[str, CardPath] = {}


def path(live: CardPath) -> CardPath:
    CARD_PATHS[live.__name__] = live
    return live


async def clicked(office: Office, handle: ApprovalHandle) -> str:
    """Approve on the card, and see the approval end."""
    assert await office.click(handle, await office.chat.card(handle.id)) == "accepted"
    await handle.outcome()
    await office.chat.final(handle.id)
    return names.approval_workflow(handle.id)


@path
async def carded(office: Office, directory: Path) -> str:
    return await clicked(office, await office.ask(directory))


@path
async def carded_twice(office: Office, directory: Path) -> str:
    """One card for each of two approvers."""
    handle = await office.ask(directory, "by_two")

    async def both() -> bool:
        return len(await office.chat.cards(handle.id)) == 2

    await until(both)
    await handle.cancel()
    await handle.outcome()
    return names.approval_workflow(handle.id)


@path
async def carded_running(office: Office, directory: Path) -> str:
    handle = await office.ask(directory, "gated", arguments={"gate": str(directory / "gate")})
    assert await office.click(handle, await office.chat.card(handle.id)) == "accepted"
    await office.chat.final(handle.id)
    (directory / "gate").touch()
    await handle.outcome()
    return names.approval_workflow(handle.id)


@path
async def carded_undeliverable(office: Office, directory: Path) -> str:
    handle = await office.ask(directory, chat_id="oc_elsewhere")
    assert (await handle.outcome()).status == "cancelled"
    return names.approval_workflow(handle.id)


@path
async def carded_late(office: Office, directory: Path) -> str:
    """Feishu was down when the card was sent, and the first click came before its message was known."""
    await office.chat.misbehave({"on": "send", "kind": "lost_answer"})
    handle = await office.ask(directory)
    card = await office.chat.card(handle.id)
    assert await office.click(handle, card, patience=timedelta(seconds=8)) == "received"
    await office.chat.behave()
    assert (await handle.outcome()).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def carded_in_vain(office: Office, directory: Path) -> str:
    await office.chat.misbehave({"on": "send", "kind": "5xx"})
    handle = await office.ask(directory, ttl=timedelta(seconds=3))
    assert (await handle.outcome()).status == "expired"
    await office.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def carded_for_weeks(office: Office, directory: Path) -> str:
    gate = await Assent.connect(client=TimeSkipper(office.service.client).client)
    asked = {"path": str(directory / "marks")}
    handle = await gate.request("mark", asked, requester=REQUESTER, ttl=timedelta(days=30))
    assert (await handle.outcome()).status == "expired"
    return names.approval_workflow(handle.id)


async def handed_over(office: Office, directory: Path) -> tuple[str, str]:
    """Feishu is down as the approval ends."""
    handle = await office.ask(directory)
    card = await office.chat.card(handle.id)
    await office.chat.misbehave({"on": "patch", "kind": "5xx"})
    assert await office.click(handle, card) == "accepted"
    assert (await handle.outcome()).status == "executed"
    await office.chat.behave()
    await office.chat.final(handle.id)

    async def child() -> str | None:
        query = f'WorkflowType = "{names.SETTLING}" AND WorkflowId STARTS_WITH "settling/{handle.id}/"'
        async for found in office.service.client.list_workflows(query, limit=1):
            return found.id
        return None

    settling = await until(child)
    await office.service.client.get_workflow_handle(settling).result()
    return names.approval_workflow(handle.id), settling


@path
async def carded_handed_over(office: Office, directory: Path) -> str:
    return (await handed_over(office, directory))[0]


@path
async def settling_cards(office: Office, directory: Path) -> str:
    return (await handed_over(office, directory))[1]


@path
async def announced(office: Office, directory: Path) -> str:
    async with served(Agent(204).app) as url:
        handle = await office.ask(directory, callback_url=f"{url}/hook")
        told = await clicked(office, handle)
        await office.service.client.get_workflow_handle(names.announcing_workflow(handle.id)).result()
    return told


@path
async def announcing(office: Office, directory: Path) -> str:
    """Nobody wants to know any more."""
    async with served(Agent(410).app) as url:
        handle = await office.ask(directory, callback_url=f"{url}/hook")
        await clicked(office, handle)
        workflow = names.announcing_workflow(handle.id)
        await office.service.client.get_workflow_handle(workflow).result()
    return workflow


async def reviewed(office: Office, directory: Path) -> tuple[str, str]:
    """A frozen call that the operators see and settle while Feishu is down."""
    handle = await office.ask(directory, "raises")
    assert await office.click(handle, await office.chat.card(handle.id)) == "accepted"
    outcome = await handle.outcome()

    async def shown() -> bool:
        return bool(await office.chat.cards(handle.id, MessageKind.REVIEW))

    await until(shown)
    await office.chat.misbehave({"on": "any", "kind": "5xx"})
    await handle.settle("executed", operator=OPERATOR, reason="it was looked up")
    await handle.settlement()
    review = names.review_workflow(str(outcome.idempotency_key))
    await office.service.client.get_workflow_handle(review).result()
    await office.chat.behave()

    async def child() -> str | None:
        query = f'WorkflowType = "{names.SHOWING}" AND WorkflowId STARTS_WITH "showing/{handle.id}/"'
        async for found in office.service.client.list_workflows(query, limit=1):
            return found.id
        return None

    showing = await until(child)
    await office.service.client.get_workflow_handle(showing).result()
    return review, showing


@path
async def review_shown(office: Office, directory: Path) -> str:
    return (await reviewed(office, directory))[0]


@path
async def showing(office: Office, directory: Path) -> str:
    return (await reviewed(office, directory))[1]
