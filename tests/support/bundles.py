"""Calls that share one card, and clicks on it."""

from __future__ import annotations

from typing import Any

from assent import ApprovalHandle, names
from ledger import bundle_slot
from tests.support.cards import values
from tests.support.feishu_service import FeishuService
from tests.support.waiting import until


async def bundle_of(feishu: FeishuService, handle: ApprovalHandle) -> str:
    async def planned() -> str | None:
        plan = await feishu.service.ledger.plan(handle.id)
        return plan.bundle_id if plan else None

    return await until(planned)


async def shared_cards(feishu: FeishuService, handle: ApprovalHandle) -> list[dict[str, Any]]:
    bundle_id = await bundle_of(feishu, handle)
    own = {bundle_slot(bundle_id, place).uuid for place in range(5)}
    return [message for message in await feishu.chat.messages() if message["uuid"] in own]


async def shared_card(feishu: FeishuService, handle: ApprovalHandle, word: str = "") -> dict[str, Any]:
    """The card that the calls share, once it says this."""

    async def there() -> dict[str, Any] | None:
        found = await shared_cards(feishu, handle)
        return found[0] if found and word in str(found[0]["content"]) else None

    return await until(there)


async def decide(feishu: FeishuService, handle: ApprovalHandle, card: dict[str, Any], kind: str = "approve") -> str:
    [value] = [
        value
        for value in values(card["content"])
        if value.get("approval_id") == handle.id and value["decision"] == kind
    ]
    single = {**card, "content": {"behaviors": [{"type": "callback", "value": value}]}}
    return await feishu.click(handle, single, kind)


async def finished(feishu: FeishuService, handle: ApprovalHandle) -> None:
    bundle = feishu.service.client.get_workflow_handle(names.bundle_workflow(await bundle_of(feishu, handle)))
    await bundle.result()
