"""The paths of approvals that are shown on cards; `tests.recording.histories` lives them with the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from temporalio.testing import TimeSkipper

from assent import ApprovalHandle, Assent, Identity, names
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support import bundles
from tests.support.cards import values
from tests.support.changing_cards import all_cards, says
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, Agent, FeishuService, buttons
from tests.support.shared_files import Sharing
from tests.support.simulated_feishu import served
from tests.support.temporal_operations import finished, forget, purge
from tests.support.waiting import until

CardPath = Callable[[FeishuService, Path], Awaitable[str]]
CARD_PATHS: dict[str, CardPath] = {}


def path(live: CardPath) -> CardPath:
    CARD_PATHS[live.__name__] = live
    return live


async def clicked(feishu: FeishuService, handle: ApprovalHandle) -> str:
    """Approve on the card, and see the approval end."""
    assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
    await handle.outcome()
    await feishu.chat.final(handle.id)
    return names.approval_workflow(handle.id)


@path
async def carded(feishu: FeishuService, directory: Path) -> str:
    return await clicked(feishu, await feishu.ask(directory))


@path
async def carded_twice(feishu: FeishuService, directory: Path) -> str:
    """One card for each of two approvers."""
    handle = await feishu.ask(directory, "by_two")

    async def both() -> bool:
        return len(await feishu.chat.cards(handle.id)) == 2

    await until(both)
    await handle.cancel()
    await handle.outcome()
    return names.approval_workflow(handle.id)


@path
async def carded_running(feishu: FeishuService, directory: Path) -> str:
    handle = await feishu.ask(directory, "gated", arguments={"gate": str(directory / "gate")})
    assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
    await feishu.chat.final(handle.id)
    (directory / "gate").touch()
    await handle.outcome()
    return names.approval_workflow(handle.id)


@path
async def carded_undeliverable(feishu: FeishuService, directory: Path) -> str:
    handle = await feishu.ask(directory, chat_id="oc_elsewhere")
    assert (await handle.outcome()).status == "cancelled"
    return names.approval_workflow(handle.id)


@path
async def carded_late(feishu: FeishuService, directory: Path) -> str:
    """Feishu was down when the card was sent, and the first click came before its message was known."""
    await feishu.chat.misbehave({"on": "send", "kind": "lost_answer"})
    handle = await feishu.ask(directory)
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card, patience=timedelta(seconds=8)) == "received"
    await feishu.chat.behave()
    assert (await handle.outcome()).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def carded_in_vain(feishu: FeishuService, directory: Path) -> str:
    await feishu.chat.misbehave({"on": "send", "kind": "5xx"})
    handle = await feishu.ask(directory, ttl=timedelta(seconds=3))
    assert (await handle.outcome()).status == "expired"
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


# The same, where the first cards go out together with the plan: those above were recorded when they followed it.


@path
async def carded_with_plan(feishu: FeishuService, directory: Path) -> str:
    return await carded(feishu, directory)


@path
async def carded_twice_with_plan(feishu: FeishuService, directory: Path) -> str:
    return await carded_twice(feishu, directory)


@path
async def carded_late_with_plan(feishu: FeishuService, directory: Path) -> str:
    return await carded_late(feishu, directory)


@path
async def carded_undeliverable_with_plan(feishu: FeishuService, directory: Path) -> str:
    return await carded_undeliverable(feishu, directory)


# The same, where a call is listed as running once it has done so for a moment, not at once.


@path
async def carded_listed_late(feishu: FeishuService, directory: Path) -> str:
    return await carded(feishu, directory)


@path
async def carded_running_listed_late(feishu: FeishuService, directory: Path) -> str:
    return await carded_running(feishu, directory)


@path
async def bundled_listed_late(feishu: FeishuService, directory: Path) -> str:
    return await bundled(feishu, directory)


@path
async def carded_for_weeks(feishu: FeishuService, directory: Path) -> str:
    gate = await Assent.connect(client=TimeSkipper(feishu.service.client).client)
    asked = {"path": str(directory / "marks")}
    handle = await gate.request("mark", asked, requester=REQUESTER, ttl=timedelta(days=30))
    assert (await handle.outcome()).status == "expired"
    return names.approval_workflow(handle.id)


@path
async def resolved(feishu: FeishuService, directory: Path) -> str:
    """Feishu says who asks before the plan is made."""
    handle = await feishu.ask(directory, requester=Identity(union_id="on_outsider"), message_id="om_resolved")
    card = await feishu.chat.card(handle.id)
    assert await feishu.click(handle, card, who=OUTSIDER) == "accepted"
    assert (await handle.outcome()).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def resolved_to_nobody(feishu: FeishuService, directory: Path) -> str:
    handle = await feishu.ask(directory, requester=Identity(open_id="ou_nobody"), message_id="om_nobody")
    assert (await handle.outcome()).status == "failed"
    return names.approval_workflow(handle.id)


@path
async def resolving_in_vain(feishu: FeishuService, directory: Path) -> str:
    await feishu.chat.misbehave({"on": "users", "kind": "5xx"})
    nobody_yet = Identity(user_id="u_operator")
    handle = await feishu.ask(directory, requester=nobody_yet, message_id="om_vain", ttl=timedelta(seconds=3))
    assert (await handle.outcome()).status == "expired"
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def resolving_cancelled(feishu: FeishuService, directory: Path) -> str:
    """It is withdrawn while Feishu does not answer."""
    await feishu.chat.misbehave({"on": "users", "kind": "5xx"})
    handle = await feishu.ask(directory, requester=Identity(user_id="u_operator"), message_id="om_cancelled")
    assert (await feishu.service.as_it_stands(handle)).phase == "preparing"
    await handle.cancel()
    assert (await handle.outcome()).status == "cancelled"
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


async def child_of(feishu: FeishuService, handle: ApprovalHandle) -> str | None:
    """The workflow that goes on showing the end."""
    query = f'WorkflowType = "{names.RECORDING}" AND WorkflowId STARTS_WITH "recording/{handle.id}/"'
    async for found in feishu.service.client.list_workflows(query, limit=1):
        return found.id
    return None


async def handed_over(feishu: FeishuService, directory: Path) -> tuple[str, str]:
    """Feishu is down as the approval ends."""
    handle = await feishu.ask(directory)
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx"})
    assert await feishu.click(handle, card) == "accepted"
    assert (await handle.outcome()).status == "executed"
    await feishu.chat.behave()
    await feishu.chat.final(handle.id)
    settling = await until(partial(child_of, feishu, handle))
    await feishu.service.client.get_workflow_handle(settling).result()
    return names.approval_workflow(handle.id), settling


async def ended_later(feishu: FeishuService, directory: Path) -> tuple[str, str]:
    """How far the approvers had come is still on its way to a card as the approval ends."""
    people = f'["open_id:{REQUESTER.open_id}", "open_id:{OUTSIDER.open_id}"]'
    async with feishu.service.policy(f"[[rule]]\nname = 'both'\napprovers = {{people = {people}, threshold = 2}}"):
        handle = await feishu.ask(directory)

        first, second = await all_cards(feishu, handle, 2)
        slow = {"on": "patch", "kind": "slow", "seconds": 8, "match": {"message_id": second["message_id"]}}
        await feishu.chat.misbehave(slow)
        assert await feishu.click(handle, first) == "accepted"

        async def is_told() -> bool:
            return "1 of 2" in str((await all_cards(feishu, handle, 2))[0])

        await until(is_told)  # and the other one is being told
        await handle.cancel()
        assert (await handle.outcome()).status == "cancelled"
    await feishu.chat.behave()
    await feishu.chat.final(handle.id)
    settling = await until(partial(child_of, feishu, handle))
    await feishu.service.client.get_workflow_handle(settling).result()
    return names.approval_workflow(handle.id), settling


@path
async def carded_ending_later(feishu: FeishuService, directory: Path) -> str:
    return (await ended_later(feishu, directory))[0]


@path
async def settling_cards_later(feishu: FeishuService, directory: Path) -> str:
    return (await ended_later(feishu, directory))[1]


@path
async def carded_handed_over(feishu: FeishuService, directory: Path) -> str:
    return (await handed_over(feishu, directory))[0]


@path
async def settling_cards(feishu: FeishuService, directory: Path) -> str:
    return (await handed_over(feishu, directory))[1]


@path
async def carded_in_doubt(feishu: FeishuService, directory: Path) -> str:
    """How far a stage had come was given up for the next one, and Feishu did not say whether it landed."""
    stage = f'{{people = ["open_id:{REQUESTER.open_id}", "open_id:{OUTSIDER.open_id}"], threshold = 2}}'
    stages = f'[{stage}, {{people = ["open_id:{OPERATOR.open_id}"]}}]'
    async with feishu.service.policy(f"[[rule]]\nname = 'stages'\napprovers = {stages}"):
        handle = await feishu.ask(directory)
        first, second = await all_cards(feishu, handle, 2)
        slow = {"on": "patch", "kind": "slow", "seconds": 12, "times": 1, "match": {"message_id": second["message_id"]}}
        await feishu.chat.misbehave(slow)
        assert await feishu.click(handle, first) == "accepted"

        async def is_told() -> bool:
            return "1 of 2" in str(
                next(each for each in await feishu.chat.cards(handle.id) if each["uuid"] == second["uuid"])
            )

        await until(is_told)
        assert await feishu.click(handle, second, who=OUTSIDER) == "accepted"
        workflow = feishu.service.client.get_workflow_handle(names.approval_workflow(handle.id))

        async def is_looked_at_again() -> bool:
            happened = [each async for each in workflow.fetch_history_events()]
            shown = [
                each.event_id
                for each in happened
                if each.activity_task_scheduled_event_attributes.activity_type.name == names.SHOW
            ]
            ended = {each.activity_task_completed_event_attributes.scheduled_event_id for each in happened}
            return len(shown) == 2 and shown[-1] in ended

        await until(is_looked_at_again)
        assert await feishu.click(handle, (await all_cards(feishu, handle, 3))[-1], who=OPERATOR) == "accepted"
        await handle.outcome()
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def carded_too_late(feishu: FeishuService, directory: Path) -> str:
    """A reminder was on its way when somebody approved; it loses its buttons while the call runs."""
    async with feishu.service.policy("[[rule]]\nname = 'remind'\nremind_after = 0.05\nttl = '60s'"):
        handle = await feishu.ask(directory, "gated", arguments={"gate": str(directory / "gate")})
        (card,) = await all_cards(feishu, handle, 1)
        await feishu.chat.misbehave({"on": "send", "kind": "slow", "seconds": 5})
        await all_cards(feishu, handle, 2)
        assert await feishu.click(handle, card) == "accepted"

        async def is_told() -> bool:
            return not any(buttons(each["content"]) for each in await all_cards(feishu, handle, 2))

        await until(is_told)
        (directory / "gate").touch()
        assert (await handle.outcome()).status == "executed"
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def carded_running_in_vain(feishu: FeishuService, directory: Path) -> str:
    """Its card can only be told after a while that its call runs."""
    handle = await feishu.ask(directory, "gated", arguments={"gate": str(directory / "gate")})
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "times": 2, "match": {"message_id": card["message_id"]}})
    assert await feishu.click(handle, card) == "accepted"
    await feishu.chat.final(handle.id)
    (directory / "gate").touch()
    assert (await handle.outcome()).status == "executed"
    return names.approval_workflow(handle.id)


@path
async def carded_ending_while_told(feishu: FeishuService, directory: Path) -> str:
    """Feishu takes its time to say that its card says that the call runs; the call ends meanwhile."""
    handle = await feishu.ask(directory, "gated", arguments={"gate": str(directory / "gate")})
    card = await feishu.chat.card(handle.id)
    slow = {"on": "patch", "kind": "slow", "seconds": 8, "times": 1, "match": {"message_id": card["message_id"]}}
    await feishu.chat.misbehave(slow)
    assert await feishu.click(handle, card) == "accepted"
    await feishu.chat.final(handle.id)
    (directory / "gate").touch()
    assert (await handle.outcome()).status == "executed"
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def carded_result_in_vain(feishu: FeishuService, directory: Path) -> str:
    """Its card can only be told after a while that its result waits."""
    handle = await feishu.ask(directory, "looked_at", arguments={"say": "a private matter", "secret": "private"})
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "times": 1, "match": {"message_id": card["message_id"]}})
    assert await feishu.click(handle, card) == "accepted"
    await feishu.chat.final(handle.id)
    (result,) = await feishu.chat.cards(handle.id, MessageKind.RESULT)
    assert await feishu.click(handle, result) == "accepted"
    await handle.outcome()
    return names.approval_workflow(handle.id)


# The same, where nothing waits for a chat that does not answer.


@path
async def carded_result_beside(feishu: FeishuService, directory: Path) -> str:
    return await carded_result_in_vain(feishu, directory)


@path
async def carded_past_a_silent_chat(feishu: FeishuService, directory: Path) -> str:
    """One of two approvers takes no card; the other one approves, and the next stage is asked."""
    people = f'["open_id:{APPROVER.open_id}", "open_id:{REQUESTER.open_id}"]'
    stages = f"[{{people = {people}}}, {{people = ['open_id:{OPERATOR.open_id}']}}]"
    await feishu.chat.misbehave({"on": "send", "kind": "5xx", "match": {"chat_id": "oc_p2p_approver"}})
    async with feishu.service.policy(f"[[rule]]\nname = 'both'\napprovers = {stages}"):
        handle = await feishu.ask(directory)
        (first,) = await all_cards(feishu, handle, 1)
        assert await feishu.click(handle, first) == "accepted"
        _, second = await all_cards(feishu, handle, 2)
        await feishu.chat.behave()
        await all_cards(feishu, handle, 3)
        assert await feishu.click(handle, second, who=OPERATOR) == "accepted"
        await handle.outcome()
    return names.approval_workflow(handle.id)


@path
async def carded_asking_in_vain(feishu: FeishuService, directory: Path) -> str:
    """Its card can only be told after a while that its tool asks."""
    handle = await feishu.ask(directory, "asks_in_vain")
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "times": 1, "match": {"message_id": card["message_id"]}})
    assert await feishu.click(handle, card) == "accepted"
    await says(feishu, card, "waits for an answer")
    (directory / "marks").touch()
    await handle.outcome()
    return names.approval_workflow(handle.id)


@path
async def bundled_in_vain(feishu: FeishuService, directory: Path) -> str:
    """The card that it should share does not come; it sends its own as soon as it is told."""
    await feishu.chat.misbehave({"on": "send", "kind": "5xx"})
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    first, second = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    await until(partial(own, feishu, first))
    await feishu.chat.behave()
    await clicked(feishu, second)
    return await clicked(feishu, first)


@path
async def announced(feishu: FeishuService, directory: Path) -> str:
    async with served(Agent(204).app) as url:
        handle = await feishu.ask(directory, callback_url=f"{url}/hook")
        told = await clicked(feishu, handle)
        await feishu.service.client.get_workflow_handle(names.announcing_workflow(handle.id)).result()
    return told


@path
async def carded_as_before(feishu: FeishuService, directory: Path) -> str:
    """The ledger had its end, and nobody came to show it: its card loses its buttons when it is asked for again."""
    approval_id = f"shown{directory.name}"
    handle = await feishu.ask(directory, approval_id=approval_id)
    await feishu.chat.card(approval_id)
    workflow_id = names.approval_workflow(approval_id)
    await feishu.service.client.get_workflow_handle(workflow_id).terminate()
    assert await feishu.service.ledger.end_gone(handle.id, "it is gone") is not None
    await purge(feishu.service, approval_id)
    assert (await (await feishu.ask(directory, approval_id=approval_id)).outcome()).status == "cancelled"
    await feishu.chat.final(approval_id)
    return workflow_id


@path
async def announced_as_before(feishu: FeishuService, directory: Path) -> str:
    """The ledger had its end, and Temporal forgot it before anybody was told: whoever asked to be is."""
    host = Agent(204)
    async with served(host.app) as url:
        named = {"approval_id": f"told{directory.name}", "callback_url": f"{url}/hook"}
        handle = await feishu.ask(directory, **named)
        told = await clicked(feishu, handle)
        announcing = names.announcing_workflow(handle.id)
        await finished(feishu.service, told, announcing)
        await forget(feishu.service, announcing)
        await purge(feishu.service, handle.id)
        again = await feishu.ask(directory, **named)
        assert (await again.outcome()).status == "executed"
        await finished(feishu.service, told, announcing)
    assert len(host.told) == 2
    return told


@path
async def announcing(feishu: FeishuService, directory: Path) -> str:
    """Nobody wants to know any more."""
    async with served(Agent(410).app) as url:
        handle = await feishu.ask(directory, callback_url=f"{url}/hook")
        await clicked(feishu, handle)
        workflow = names.announcing_workflow(handle.id)
        await feishu.service.client.get_workflow_handle(workflow).result()
    return workflow


async def reviewed(feishu: FeishuService, directory: Path) -> tuple[str, str]:
    """A frozen call that the operators see and settle while Feishu is down."""
    handle = await feishu.ask(directory, "raises")
    assert await feishu.click(handle, await feishu.chat.card(handle.id)) == "accepted"
    outcome = await handle.outcome()

    async def shown() -> bool:
        return bool(await feishu.chat.cards(handle.id, MessageKind.REVIEW))

    await until(shown)
    await feishu.chat.misbehave({"on": "any", "kind": "5xx"})
    await handle.settle("executed", operator=OPERATOR, reason="it was looked up")
    await handle.settlement()
    review = names.review_workflow(str(outcome.idempotency_key))
    await feishu.service.client.get_workflow_handle(review).result()
    await feishu.chat.behave()

    async def child() -> str | None:
        query = f'WorkflowType = "{names.SHOW_SETTLED}" AND WorkflowId STARTS_WITH "show-settled/{handle.id}/"'
        async for found in feishu.service.client.list_workflows(query, limit=1):
            return found.id
        return None

    showing = await until(child)
    await feishu.service.client.get_workflow_handle(showing).result()
    return review, showing


@path
async def review_shown(feishu: FeishuService, directory: Path) -> str:
    return (await reviewed(feishu, directory))[0]


@path
async def showing(feishu: FeishuService, directory: Path) -> str:
    return (await reviewed(feishu, directory))[1]


async def bundled_calls(feishu: FeishuService, directory: Path) -> tuple[ApprovalHandle, str]:
    """Two calls that share a card: one is rejected there, one approved and long enough for its card to say so."""
    gate = {"path": str(directory / "marks"), "gate": str(directory / "gate")}
    calls = ({"tool": "gated", "arguments": gate}, {"tool": "mark", "arguments": {"path": str(directory / "marks")}})
    slow, other = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    card = await bundles.shared_card(feishu, slow)
    assert await bundles.decide(feishu, other, card, "reject") == "accepted"
    await other.outcome()
    assert await bundles.decide(feishu, slow, card) == "accepted"
    await bundles.shared_card(feishu, slow, "It is running now")
    (directory / "gate").touch()
    await slow.outcome()
    await bundles.finished(feishu, slow)
    return slow, names.bundle_workflow(await bundles.bundle_of(feishu, slow))


@path
async def bundled(feishu: FeishuService, directory: Path) -> str:
    return names.approval_workflow((await bundled_calls(feishu, directory))[0].id)


@path
async def bundle(feishu: FeishuService, directory: Path) -> str:
    return (await bundled_calls(feishu, directory))[1]


@path
async def bundle_in_vain(feishu: FeishuService, directory: Path) -> str:
    """Its card does not come, so that the calls send their own."""
    await feishu.chat.misbehave({"on": "send", "kind": "5xx"})
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    handles = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    bundle_id = await bundles.bundle_of(feishu, handles[0])

    async def given_up() -> bool:
        return all([await own(feishu, each) for each in handles])

    await until(given_up)
    await feishu.chat.behave()
    for handle in handles:
        await clicked(feishu, handle)
    await bundles.finished(feishu, handles[0])
    return names.bundle_workflow(bundle_id)


@path
async def bundled_alone(feishu: FeishuService, directory: Path) -> str:
    """It does not fit on the card that it should share."""
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name), "note": name * 12_000}} for name in "abc"]
    handles = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    for handle in handles:
        await clicked(feishu, handle)
    return names.approval_workflow(handles[0].id)


@path
async def bundle_revived(feishu: FeishuService, directory: Path) -> str:
    """Its bundle was ended by hand after the card was sent."""
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    first, second = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    card = await bundles.shared_card(feishu, first)
    workflow = names.bundle_workflow(await bundles.bundle_of(feishu, first))
    assert await bundles.decide(feishu, first, card) == "accepted"
    await first.outcome()
    await feishu.service.client.get_workflow_handle(workflow).terminate("by hand")
    assert await bundles.decide(feishu, second, card) == "accepted"
    await second.outcome()
    await bundles.finished(feishu, first)
    return names.approval_workflow(second.id)


@path
async def bundle_continuing_as_new(feishu: FeishuService, directory: Path) -> str:
    calls = [{"tool": "mark", "arguments": {"path": str(directory / name)}} for name in "ab"]
    handles = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    card = await bundles.shared_card(feishu, handles[0])
    bundle_id = await bundles.bundle_of(feishu, handles[0])
    workflow = feishu.service.client.get_workflow_handle(names.bundle_workflow(bundle_id))
    first = (await workflow.describe()).run_id

    async def continued() -> bool:
        await workflow.signal(names.NEWS, "x" * 33_000)
        return (await workflow.describe()).run_id != first

    await until(continued)
    for handle in handles:
        assert await bundles.decide(feishu, handle, card) == "accepted"
        await handle.outcome()
    await bundles.finished(feishu, handles[0])
    assert values((await bundles.shared_card(feishu, handles[0]))["content"]) == []
    return f"{names.bundle_workflow(bundle_id)}#{first}"


async def own(feishu: FeishuService, handle: ApprovalHandle) -> bool:
    """Whether an approval has tried to send a card of its own."""
    record = await feishu.service.ledger.record(handle.id)
    return record is not None and any(each.slot.kind is MessageKind.CARD for each in record.messages)


# Files


@path
async def files_received(feishu: FeishuService, directory: Path) -> str:
    """Somebody sends a file to the bot."""
    message = await Sharing(feishu).send(b"quarter three", "q3.pdf")
    await Sharing(feishu).take(message["event"])
    return names.receive_files_workflow(message["message_id"])


@path
async def with_files(feishu: FeishuService, directory: Path) -> str:
    file_id = await Sharing(feishu).share(b"quarter three", "q3.pdf")
    return await clicked(feishu, await feishu.ask(directory, "count_bytes", arguments={"file": file_id}))


@path
async def without_its_file(feishu: FeishuService, directory: Path) -> str:
    """It names a file that is not there."""
    handle = await feishu.ask(directory, "count_bytes", arguments={"file": "sf_invented"})
    assert (await handle.outcome()).status == "failed"
    return names.approval_workflow(handle.id)


@path
async def files_not_fetched(feishu: FeishuService, directory: Path) -> str:
    """Feishu hands out nothing before the deadline."""
    file_id = await Sharing(feishu).share(b"quarter three", "q3.pdf")
    await feishu.chat.misbehave({"on": "download", "kind": "5xx"})
    ttl = timedelta(seconds=2)
    handle = await feishu.ask(directory, "count_bytes", arguments={"file": file_id}, ttl=ttl)
    assert (await handle.outcome()).status == "expired"
    await feishu.chat.behave()
    return names.approval_workflow(handle.id)


@path
async def edited_to_another_file(feishu: FeishuService, directory: Path) -> str:
    old, new = [await Sharing(feishu).share(name.encode(), f"{name}.txt") for name in ("old", "new")]
    handle = await feishu.ask(directory, "count_bytes", arguments={"file": old})
    await feishu.chat.card(handle.id)
    arguments = {"path": str(directory / "marks"), "file": new}
    shown = (await handle.state()).payload_sha256
    actor = REQUESTER.within("tenant_1")
    assert (await handle.decide("edit", actor=actor, payload_sha256=shown, arguments=arguments)).kind == "accepted"
    assert (await handle.outcome()).status == "executed"
    return names.approval_workflow(handle.id)
