"""The paths of approvals that are shown on cards; `tests.record_histories` lives them with the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from temporalio.testing import TimeSkipper

from assent import ApprovalHandle, Assent, Identity, names
from ledger import MessageKind
from tests import test_bundles
from tests.conftest import OPERATOR
from tests.feishu import OUTSIDER, REQUESTER, Agent, Office
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


@path
async def resolved(office: Office, directory: Path) -> str:
    """Feishu says who asks before the plan is made."""
    handle = await office.ask(directory, requester=Identity(union_id="on_outsider"), message_id="om_resolved")
    card = await office.chat.card(handle.id)
    assert await office.click(handle, card, who=OUTSIDER) == "accepted"
    assert (await handle.outcome()).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def resolved_to_nobody(office: Office, directory: Path) -> str:
    handle = await office.ask(directory, requester=Identity(open_id="ou_nobody"), message_id="om_nobody")
    assert (await handle.outcome()).status == "failed"
    return names.approval_workflow(handle.id)


@path
async def resolving_in_vain(office: Office, directory: Path) -> str:
    await office.chat.misbehave({"on": "users", "kind": "5xx"})
    nobody_yet = Identity(user_id="u_operator")
    handle = await office.ask(directory, requester=nobody_yet, message_id="om_vain", ttl=timedelta(seconds=3))
    assert (await handle.outcome()).status == "expired"
    await office.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def resolving_cancelled(office: Office, directory: Path) -> str:
    """It is withdrawn while Feishu does not answer."""
    await office.chat.misbehave({"on": "users", "kind": "5xx"})
    handle = await office.ask(directory, requester=Identity(user_id="u_operator"), message_id="om_cancelled")
    assert (await office.service.as_it_stands(handle)).phase == "preparing"
    await handle.cancel()
    assert (await handle.outcome()).status == "cancelled"
    await office.chat.behave()
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
        query = f'WorkflowType = "{names.RECORDING}" AND WorkflowId STARTS_WITH "recording/{handle.id}/"'
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
        query = f'WorkflowType = "{names.SHOW_SETTLED}" AND WorkflowId STARTS_WITH "show-settled/{handle.id}/"'
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


async def bundled_calls(office: Office, directory: Path) -> tuple[ApprovalHandle, str]:
    """Two calls that share a card: one is rejected there, one approved and long enough for its card to say so."""
    gate = {"path": str(directory / "marks"), "gate": str(directory / "gate")}
    calls = ({"tool": "gated", "arguments": gate}, {"tool": "mark", "arguments": {"path": str(directory / "marks")}})
    slow, other = await office.service.gate.request_many(calls, requester=REQUESTER)
    card = await test_bundles.shared_card(office, slow)
    assert await test_bundles.decide(office, other, card, "reject") == "accepted"
    await other.outcome()
    assert await test_bundles.decide(office, slow, card) == "accepted"
    await test_bundles.shared_card(office, slow, "It is running now")
    (directory / "gate").touch()
    await slow.outcome()
    await test_bundles.finished(office, slow)
    return slow, names.bundle_workflow(await test_bundles.bundle_of(office, slow))


@path
async def bundled(office: Office, directory: Path) -> str:
    return names.approval_workflow((await bundled_calls(office, directory))[0].id)


@path
async def bundle(office: Office, directory: Path) -> str:
    return (await bundled_calls(office, directory))[1]


@path
async def bundle_in_vain(office: Office, directory: Path) -> str:
    """Its card does not come, so that the calls send their own."""
    await office.chat.misbehave({"on": "send", "kind": "5xx"})
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    handles = await office.service.gate.request_many(calls, requester=REQUESTER)
    bundle_id = await test_bundles.bundle_of(office, handles[0])

    async def given_up() -> bool:
        return all([await own(office, each) for each in handles])

    await until(given_up)
    await office.chat.behave()
    for handle in handles:
        await clicked(office, handle)
    await test_bundles.finished(office, handles[0])
    return names.bundle_workflow(bundle_id)


@path
async def bundled_alone(office: Office, directory: Path) -> str:
    """It does not fit on the card that it should share."""
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name), "note": name * 12_000}} for name in "abc"]
    handles = await office.service.gate.request_many(calls, requester=REQUESTER)
    for handle in handles:
        await clicked(office, handle)
    return names.approval_workflow(handles[0].id)


@path
async def bundle_revived(office: Office, directory: Path) -> str:
    """Its bundle was ended by hand after the card was sent."""
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    first, second = await office.service.gate.request_many(calls, requester=REQUESTER)
    card = await test_bundles.shared_card(office, first)
    workflow = names.bundle_workflow(await test_bundles.bundle_of(office, first))
    assert await test_bundles.decide(office, first, card) == "accepted"
    await first.outcome()
    await office.service.client.get_workflow_handle(workflow).terminate("by hand")
    assert await test_bundles.decide(office, second, card) == "accepted"
    await second.outcome()
    await test_bundles.finished(office, first)
    return names.approval_workflow(second.id)


@path
async def bundle_continuing_as_new(office: Office, directory: Path) -> str:
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    handles = await office.service.gate.request_many(calls, requester=REQUESTER)
    card = await test_bundles.shared_card(office, handles[0])
    bundle_id = await test_bundles.bundle_of(office, handles[0])
    workflow = office.service.client.get_workflow_handle(names.bundle_workflow(bundle_id))
    first = (await workflow.describe()).run_id

    async def continued() -> bool:
        await workflow.signal(names.NEWS, "x" * 33_000)
        return (await workflow.describe()).run_id != first

    await until(continued)
    for handle in handles:
        assert await test_bundles.decide(office, handle, card) == "accepted"
        await handle.outcome()
    await test_bundles.finished(office, handles[0])
    assert test_bundles.values((await test_bundles.shared_card(office, handles[0]))["content"]) == []
    return f"{names.bundle_workflow(bundle_id)}#{first}"


async def own(office: Office, handle: ApprovalHandle) -> bool:
    """Whether an approval has tried to send a card of its own."""
    record = await office.service.ledger.record(handle.id)
    return record is not None and any(each.slot.kind is MessageKind.CARD for each in record.messages)
