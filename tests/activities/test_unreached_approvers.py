"""One of several approvers cannot be reached: everybody else sees and decides what there is to decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assent import ApprovalHandle, Identity
from tests.conftest import OPERATOR
from tests.support.changing_cards import has_no_buttons, named, rules, says
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService, buttons
from tests.support.replaying import replays
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("as_it_was")

SICK = APPROVER
TROUBLE: dict[str, dict[str, Any]] = {"refuses": {"kind": "5xx"}, "is silent": {"kind": "slow", "seconds": 60}}


@pytest.fixture(params=TROUBLE)
async def sick_chat(feishu: FeishuService, request: pytest.FixtureRequest) -> None:
    """The private chat of one of them takes no card."""
    trouble = TROUBLE[request.param]
    await feishu.chat.misbehave({"on": "send", "match": {"chat_id": private_chat(SICK)}, **trouble})


def private_chat(person: Identity) -> str:
    return f"oc_p2p_{str(person.open_id).removeprefix('ou_')}"


async def card_of(
    feishu: FeishuService, handle: ApprovalHandle, person: Identity, *, after: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The newest card of the call that this person got, once there is one, or one after another."""

    async def there() -> dict[str, Any] | None:
        found = [each for each in await feishu.chat.cards(handle.id) if each["chat_id"] == private_chat(person)]
        newest = found[-1] if found else None
        return newest if newest and (after is None or newest["message_id"] != after["message_id"]) else None

    return await until(there)


@pytest.mark.usefixtures("sick_chat")
async def test_the_others_see_how_far_they_have_come(feishu: FeishuService, tmp_path: Path) -> None:
    async with feishu.service.policy(
        rules(approvers=f"{{people = {named(SICK, REQUESTER, OPERATOR)}, threshold = 2}}")
    ):
        handle = await feishu.ask(tmp_path)
        own, other = await card_of(feishu, handle, REQUESTER), await card_of(feishu, handle, OPERATOR)
        assert await feishu.click(handle, own, who=REQUESTER) == "accepted"
        await says(feishu, other, "1 of 2")
        await feishu.chat.behave()
        late = await card_of(feishu, handle, SICK)
        await says(feishu, late, "1 of 2")
        assert await feishu.click(handle, late, who=SICK) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


@pytest.mark.usefixtures("sick_chat")
async def test_the_next_stage_is_asked(feishu: FeishuService, tmp_path: Path) -> None:
    stages = f"[{{people = {named(SICK, REQUESTER)}}}, {{people = {named(OPERATOR)}}}]"
    async with feishu.service.policy(rules(approvers=stages)):
        handle = await feishu.ask(tmp_path)
        first = await card_of(feishu, handle, REQUESTER)
        assert await feishu.click(handle, first, who=REQUESTER) == "accepted"
        second = await card_of(feishu, handle, OPERATOR)
        await until(lambda: has_no_buttons(feishu, first))
        assert await feishu.click(handle, second, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


@pytest.mark.usefixtures("sick_chat")
async def test_others_are_called_in(feishu: FeishuService, tmp_path: Path) -> None:
    rule = {
        "approvers": f"{{people = {named(SICK)}}}",
        "ttl": "'60s'",
        "remind_after": "0.03",
        "escalate_after": "0.05",
    }
    async with feishu.service.policy(rules(**rule, escalate_to=named(OPERATOR))):
        handle = await feishu.ask(tmp_path)
        called = await card_of(feishu, handle, OPERATOR)
        assert await feishu.click(handle, called, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


@pytest.mark.usefixtures("sick_chat")
async def test_the_others_are_reminded(feishu: FeishuService, tmp_path: Path) -> None:
    rule = {"approvers": f"{{people = {named(SICK, REQUESTER)}}}", "ttl": "'60s'", "remind_after": "0.05"}
    async with feishu.service.policy(rules(**rule)):
        handle = await feishu.ask(tmp_path)
        first = await card_of(feishu, handle, REQUESTER)
        second = await card_of(feishu, handle, REQUESTER, after=first)
        await until(lambda: has_no_buttons(feishu, first))
        assert await feishu.click(handle, second, who=REQUESTER) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)


@pytest.mark.usefixtures("sick_chat")
@pytest.mark.parametrize("change", ["edit", "delegate"])
async def test_what_became_another_call_or_another_persons_is_shown(
    feishu: FeishuService, tmp_path: Path, change: str
) -> None:
    async with feishu.service.policy(rules(approvers=f"{{people = {named(SICK, REQUESTER)}, threshold = 2}}")):
        handle = await feishu.ask(tmp_path)
        first = await card_of(feishu, handle, REQUESTER)
        seen: dict[str, Any] = {
            "actor": REQUESTER.within("tenant_1"),
            "payload_sha256": (await handle.state()).payload_sha256,
        }
        if change == "edit":
            await handle.decide("edit", arguments={"path": str(tmp_path / "other")}, **seen)
        else:
            await handle.decide("delegate", delegate_to=OPERATOR, **seen)
        newer = await card_of(feishu, handle, REQUESTER if change == "edit" else OPERATOR, after=first)
        await until(lambda: has_no_buttons(feishu, first))
        await feishu.chat.behave()
        as_it_is = (await handle.state()).payload_sha256

        async def late_card() -> dict[str, Any] | None:
            """Before it, or after it, comes the one that it follows, without buttons."""
            own = [each for each in await feishu.chat.cards(handle.id) if each["chat_id"] == private_chat(SICK)]
            return next((each for each in own if str(as_it_is) in str(buttons(each["content"]))), None)

        late = await until(late_card)
        assert await feishu.click(handle, late, who=SICK) == "accepted"
        if change == "delegate":
            assert await feishu.click(handle, newer, who=OPERATOR) == "accepted"
        assert (await handle.outcome()).status == "executed"
    assert await replays(feishu.service.client, handle)
