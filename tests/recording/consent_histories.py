"""The paths of permissions, approvers, edits, grants and reviewed results; `tests.recording.histories` lives them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from assent import ApprovalHandle, Identity, names
from assent.contracts.inbox import Enquiry
from assent.contracts.prepare import WarningQuestion
from assent.engine import PendingApproval
from assent.names import INBOX_REPLY, inbox_reply_workflow
from assent.payload import canonical_payload
from assent.types import State
from ledger import MessageKind
from tests.conftest import ME, OPERATOR, Service
from tests.recording.card_histories import CARD_PATHS, CardPath
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, buttons
from tests.support.tools import CHIEFS, PEOPLE, warned_mark
from tests.support.waiting import until
from workers.engine import TemporalApprovalEngine

ConsentPath = Callable[[Service, str], Awaitable[str]]
CONSENT_PATHS: dict[str, ConsentPath] = {}


def path(live: ConsentPath) -> ConsentPath:
    CONSENT_PATHS[live.__name__] = live
    return live


def card_path(live: CardPath) -> CardPath:
    CARD_PATHS[live.__name__] = live
    return live


async def ask(service: Service, directory: str, tool: str, **arguments: Any) -> ApprovalHandle:
    return await service.gate.request(tool, {"path": f"{directory}/marks", **arguments}, requester=ME)


async def say(handle: ApprovalHandle, kind: str, actor: Identity = ME, **said: Any) -> str:
    state = await handle.state()
    return (await handle.decide(kind, actor=actor, payload_sha256=state.payload_sha256, **said)).kind.value


async def ended(handle: ApprovalHandle, status: str = "executed") -> str:
    assert (await handle.outcome()).status == status
    return names.approval_workflow(handle.id)


async def reviewed(handle: ApprovalHandle) -> State:
    async def there() -> State | None:
        state = await handle.state()
        return state if state.phase == "reviewing" else None

    return await until(there)


@path
async def warned(service: Service, directory: str) -> str:
    """The tool says what to mind before there is a plan."""
    handle = await ask(service, directory, "warned_mark", amount=11)
    assert await say(handle, "approve") == "accepted"
    return await ended(handle)


@path
async def warning(service: Service, directory: str) -> str:
    question = WarningQuestion(
        tool=warned_mark.name,
        queue=warned_mark.manifest.queue,
        manifest_sha256=warned_mark.manifest.shown_sha256,
        payload=canonical_payload(warned_mark.name, {"amount": 11, "path": directory, "secret": "x"}),
    )
    asked = names.warning_workflow("recorded")
    await service.client.execute_workflow(names.WARNING, question, id=asked, task_queue=names.APPROVALS_QUEUE)
    return asked


@path
async def dispatched(service: Service, directory: str) -> str:
    """Whoever decided makes the call, on a queue that the decision names."""
    engine = TemporalApprovalEngine(service.client, service.ledger)
    asked = PendingApproval(
        approval_id=f"dispatched{directory}", tool_name="their.tool", arguments={"n": 1}, requester=ME
    )
    await engine.on_request(asked)
    assert (await engine.on_decision(asked.approval_id, "approve", dispatch=lambda: "done")).status == "executed"
    return names.approval_workflow(asked.approval_id)


@path
async def auto(service: Service, directory: str) -> str:
    return await ended(await ask(service, directory, "at_once"))


@path
async def denied(service: Service, directory: str) -> str:
    return await ended(await ask(service, directory, "never"), "rejected")


@path
async def agent_call(service: Service, directory: str) -> str:
    """The agent makes the call itself: consent is all there is."""
    call = {"name": "write", "arguments": {"path": f"{directory}/marks"}}
    handle = await service.gate.request("agent_call", call, requester=ME, tool_call_id="call-1", thread_id="thread-1")
    edited = {**call, "arguments": {"path": f"{directory}/others"}}
    assert await say(handle, "edit", arguments=edited) == "accepted"
    return await ended(handle, "approved")


@path
async def granting(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "ask_once")
    assert await say(handle, "approve") == "accepted"
    return await ended(handle)


@path
async def granted(service: Service, directory: str) -> str:
    await granting(service, directory)
    return await ended(await ask(service, directory, "ask_once"))


@path
async def granted_rejection(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "ask_once")
    assert await say(handle, "reject", reason="never") == "accepted"
    await handle.outcome()
    return await ended(await ask(service, directory, "ask_once"), "rejected")


@path
async def approved_in_stages(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "by_stages")
    for person in (CHIEFS[0], *PEOPLE[:2], PEOPLE[0], CHIEFS[0]):
        await say(handle, "approve", person)
    return await ended(handle)


@path
async def rejected_by_two(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "by_stages")
    for person in PEOPLE[:2]:
        assert await say(handle, "reject", person) == "accepted"
    return await ended(handle, "rejected")


@path
async def delegated(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "by_stages")
    assert await say(handle, "delegate", PEOPLE[0], delegate_to=OPERATOR) == "accepted"
    for person in (OPERATOR, PEOPLE[1], CHIEFS[1]):
        assert await say(handle, "approve", person) == "accepted"
    return await ended(handle)


@path
async def edited(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "mark")
    arguments = {"path": f"{directory}/marks"}
    assert await say(handle, "edit", arguments=None) == "invalid"
    assert await say(handle, "edit", arguments={**arguments, "note": "edited"}) == "accepted"
    return await ended(handle)


@path
async def edited_while_others_approve(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "by_stages")
    assert await say(handle, "approve", PEOPLE[0]) == "accepted"
    arguments = {"path": f"{directory}/marks", "amount": 7}
    assert await say(handle, "edit", PEOPLE[1], arguments=arguments) == "accepted"
    for person in (PEOPLE[0], CHIEFS[0]):
        assert await say(handle, "approve", person) == "accepted"
    return await ended(handle)


@path
async def denied_while_it_waits(service: Service, directory: str) -> str:
    """The operator's policy came to deny it: the watcher says so."""
    handle = await ask(service, directory, "mark")
    await handle.state()
    said = {"reason": "rule 'stop': closed", "surface": "policy"}
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(names.CANCEL, said)
    return await ended(handle, "rejected")


@path
async def released(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "looked_at")
    await say(handle, "approve")
    state = await reviewed(handle)
    await handle.decide("approve", actor=ME, payload_sha256=state.result_sha256, stage="result")
    return await ended(handle)


@path
async def released_listed_late(service: Service, directory: str) -> str:
    """The moment after which a running call is listed passes while its result is looked at."""
    handle = await ask(service, directory, "looked_at")
    await say(handle, "approve")
    state = await reviewed(handle)
    approval = service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def passed() -> bool:
        return any([event.HasField("timer_fired_event_attributes") async for event in approval.fetch_history_events()])

    await until(passed)
    await handle.decide("approve", actor=ME, payload_sha256=state.result_sha256, stage="result")
    return await ended(handle)


@path
async def withheld(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "looked_at")
    await say(handle, "approve")
    state = await reviewed(handle)
    await handle.decide("reject", actor=ME, payload_sha256=state.result_sha256, stage="result", reason="private")
    return await ended(handle)


@path
async def withheld_in_the_end(service: Service, directory: str) -> str:
    soon = "[[rule]]\nname = 'soon'\ntools = ['looked_at']\nresult_ttl = '1s'\n"
    async with service.policy(soon):
        handle = await ask(service, directory, "looked_at")
        await say(handle, "approve")
        return await ended(handle)


@path
async def withheld_while_frozen(service: Service, directory: str) -> str:
    handle = await ask(service, directory, "looked_at_on_error", how="raise")
    await say(handle, "approve")
    state = await reviewed(handle)
    await handle.decide("reject", actor=ME, payload_sha256=state.result_sha256, stage="result", reason="private")
    return await ended(handle, "frozen")


TEAM = "oc_team"


@card_path
async def carded_for_members(feishu: FeishuService, directory: Path) -> str:
    """An outsider, a member who leaves before it would run, and one who stays."""
    members = f"/api/chats/{TEAM}/members"
    everybody = [person.open_id for person in (REQUESTER, APPROVER, OPERATOR)]
    await feishu.chat.http.put(members, json={"members": everybody})
    rule = f"[[rule]]\nname = 'team'\napprovers = {{chat = '{TEAM}', threshold = 2}}\n"
    async with feishu.service.policy(rule):
        handle = await feishu.ask(directory, chat_id=TEAM)
        card = await feishu.chat.card(handle.id)
        await feishu.click(handle, card, who=APPROVER)
        await feishu.chat.http.put(members, json={"members": [REQUESTER.open_id, OPERATOR.open_id]})
        await feishu.click(handle, card, who=REQUESTER)

        async def anew() -> dict[str, Any] | None:
            found = await feishu.chat.cards(handle.id)
            return found[-1] if len(found) > 1 else None

        await feishu.click(handle, await until(anew), who=OPERATOR)
        return await ended(handle)


@card_path
async def carded_reminding(feishu: FeishuService, directory: Path) -> str:
    rule = (
        "[[rule]]\nname = 'soon'\nttl = '60s'\nremind_after = 0.02\nescalate_after = 0.04\n"
        f"escalate_to = ['open_id:{OPERATOR.open_id}']\n"
    )
    async with feishu.service.policy(rule):
        handle = await feishu.ask(directory)

        async def third() -> dict[str, Any] | None:
            found = await feishu.chat.cards(handle.id)
            return found[-1] if len(found) > 2 else None

        assert await feishu.click(handle, await until(third), who=OPERATOR) == "accepted"
        return await ended(handle)


@card_path
async def carded_in_stages(feishu: FeishuService, directory: Path) -> str:
    return await in_stages(feishu, directory)


@card_path
async def carded_in_stages_in_turn(feishu: FeishuService, directory: Path) -> str:
    """The first stage ends while its cards still resist to say how far it has come."""
    await feishu.chat.misbehave({"on": "patch", "kind": "5xx"})
    try:
        return await in_stages(feishu, directory)
    finally:
        await feishu.chat.behave()


async def in_stages(feishu: FeishuService, directory: Path) -> str:
    rule = (
        "[[rule]]\nname = 'stages'\n"
        f"approvers = [{{people = ['open_id:{APPROVER.open_id}', 'open_id:{REQUESTER.open_id}'], threshold = 2}}, "
        f"{{people = ['open_id:{OPERATOR.open_id}']}}]\n"
    )
    async with feishu.service.policy(rule):
        handle = await feishu.ask(directory)
        card = await feishu.chat.card(handle.id)
        assert await feishu.click(handle, card, who=APPROVER) == "accepted"
        assert await feishu.click(handle, card, who=REQUESTER) == "accepted"

        async def third() -> dict[str, Any] | None:
            found = await feishu.chat.cards(handle.id)
            return found[-1] if len(found) > 2 else None

        assert await feishu.click(handle, await until(third), who=OPERATOR) == "accepted"
        return await ended(handle)


@card_path
async def inbox_reply(feishu: FeishuService, directory: Path) -> str:
    """Somebody writes to the bot while a call waits for them."""
    handle = await feishu.ask(directory)
    card = await feishu.chat.card(handle.id)
    enquiry = Enquiry(sender=REQUESTER, message_id=card["message_id"])
    workflow_id = inbox_reply_workflow(enquiry.message_id)
    client, queue = feishu.service.client, names.APPROVALS_QUEUE
    await client.execute_workflow(INBOX_REPLY, enquiry, id=workflow_id, task_queue=queue)
    await handle.cancel()
    await handle.outcome()
    return workflow_id


@card_path
async def carded_result(feishu: FeishuService, directory: Path) -> str:
    handle = await feishu.ask(directory, "looked_at")
    await feishu.click(handle, await feishu.chat.card(handle.id))

    async def shown() -> dict[str, Any] | None:
        return next(iter(await feishu.chat.cards(handle.id, MessageKind.RESULT)), None)

    assert await feishu.click(handle, await until(shown)) == "accepted"
    return await ended(handle)


@card_path
async def revoked(feishu: FeishuService, directory: Path) -> str:
    """Revoking a remembered decision, which redraws the card on which it was made,"""
    await _revoked(feishu, directory)
    return await _of_type(feishu, names.RECALL)


@card_path
async def redrawing(feishu: FeishuService, directory: Path) -> str:
    """and the workflow that does."""
    await _revoked(feishu, directory)
    return await _of_type(feishu, names.REDRAWING)


async def _revoked(feishu: FeishuService, directory: Path) -> None:
    handle = await feishu.ask(directory, "ask_once", chat_id=TEAM)
    await feishu.click(handle, await feishu.chat.card(handle.id), "approve_tool")
    await handle.outcome()

    async def grant() -> dict[str, str] | None:
        shown = buttons((await feishu.chat.card(handle.id))["content"]).get("revoke")
        found: dict[str, str] | None = shown["behaviors"][0]["value"] if shown else None
        return found

    value = await until(grant)
    assert await feishu.service.gate.revoke(value["revoke"], actor=REQUESTER, seen_on=value["on"]) == "revoked"
    await feishu.chat.final(handle.id)


async def _of_type(feishu: FeishuService, workflow_type: str) -> str:
    """One that has ended."""

    async def closed() -> str | None:
        query = f'WorkflowType = "{workflow_type}" AND ExecutionStatus = "Completed"'
        async for found in feishu.service.client.list_workflows(query, limit=1):
            return found.id
        return None

    return await until(closed)


@card_path
async def carded_grant(feishu: FeishuService, directory: Path) -> str:
    first = await feishu.ask(directory, "ask_once", chat_id=TEAM)
    await feishu.click(first, await feishu.chat.card(first.id), "approve_tool")
    await first.outcome()
    second = await feishu.ask(directory, "ask_once", chat_id=TEAM, arguments={"note": "other"})
    return await ended(second)
