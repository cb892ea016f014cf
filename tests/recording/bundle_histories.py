"""The paths of shared cards that resist; `tests.recording.histories` lives them with the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from assent import ApprovalHandle, names
from ledger import Slot, bundle_slot
from tests.support import bundles
from tests.support.changing_cards import says, two_of
from tests.support.feishu_service import APPROVER, REQUESTER, FeishuService
from tests.support.waiting import until
from workflows import bundle

BundlePath = Callable[[FeishuService, Path], Awaitable[str]]
BUNDLE_PATHS: dict[str, BundlePath] = {}


def path(live: BundlePath) -> BundlePath:
    BUNDLE_PATHS[live.__name__] = live
    return live


async def asked(feishu: FeishuService, directory: Path, tool: str = "by_two") -> tuple[list[ApprovalHandle], str]:
    """Two calls that share a card for each of two people; and the id of their bundle."""
    calls = [{"tool": tool, "arguments": {"path": str(directory / name)}} for name in "ab"]
    handles = await feishu.service.gate.request_many(calls, requester=REQUESTER)
    return handles, await bundles.bundle_of(feishu, handles[0])


async def card_at(feishu: FeishuService, slot: Slot) -> dict[str, Any]:
    """The shared card of this place, once it is there."""

    async def there() -> dict[str, Any] | None:
        return next((each for each in await feishu.chat.messages() if each["uuid"] == slot.uuid), None)

    return await until(there)


@path
async def bundle_resisting(feishu: FeishuService, directory: Path) -> str:
    """How far the approvers had come is given up for what is newer, while one of two cards resists."""
    async with feishu.service.policy(two_of(APPROVER, REQUESTER)):
        handles, bundle_id = await asked(feishu, directory, "mark")
        healthy, sick = [await card_at(feishu, bundle_slot(bundle_id, place)) for place in (0, 1)]
        await feishu.chat.misbehave({"on": "patch", "kind": "5xx", "match": {"message_id": sick["message_id"]}})
        assert await bundles.decide(feishu, handles[0], healthy) == "accepted"
        await says(feishu, healthy, "1 of 2")
        await handles[1].cancel()
        await says(feishu, healthy, "withdrawn")
        await feishu.chat.behave()
        await handles[0].cancel()
        await bundles.finished(feishu, handles[0])
    return names.bundle_workflow(bundle_id)


@contextmanager
def impatient(findable: timedelta = bundle._FINDABLE) -> Iterator[None]:
    """What does not arrive at once is soon waited for no longer, and can be sent again for so long."""
    before = bundle.SOON, bundle._FINDABLE
    bundle.SOON, bundle._FINDABLE = timedelta(seconds=1), findable
    try:
        yield
    finally:
        bundle.SOON, bundle._FINDABLE = before


async def approved_apart(feishu: FeishuService, handles: list[ApprovalHandle]) -> None:
    """The calls are approved on cards of their own, while one of the shared ones does not arrive."""
    for handle in handles:
        assert await feishu.click(handle, await feishu.chat.card(handle.id), who=APPROVER) == "accepted"
        await handle.outcome()


async def one_out_of_reach(feishu: FeishuService) -> None:
    await feishu.chat.misbehave({"on": "send", "kind": "5xx", "match": {"chat_id": "oc_p2p_operator"}})


@path
async def bundle_arriving(feishu: FeishuService, directory: Path) -> str:
    """One of two cards comes when the calls have ended; the other is there, and shows that before."""
    await one_out_of_reach(feishu)
    with impatient():
        handles, bundle_id = await asked(feishu, directory)
        card = await card_at(feishu, bundle_slot(bundle_id, 0))
        await approved_apart(feishu, handles)
    await says(feishu, card, "Executed")
    await feishu.chat.behave()
    await bundles.finished(feishu, handles[0])
    return names.bundle_workflow(bundle_id)


@path
async def bundle_never_whole(feishu: FeishuService, directory: Path) -> str:
    """One of two cards never arrives; the other goes on being shown."""
    await one_out_of_reach(feishu)
    with impatient(findable=timedelta(seconds=40)):
        handles, bundle_id = await asked(feishu, directory)
        card = await card_at(feishu, bundle_slot(bundle_id, 0))
        workflow = feishu.service.client.get_workflow_handle(names.bundle_workflow(bundle_id))

        async def is_given_up() -> bool:
            happened = [each async for each in workflow.fetch_history_events()]
            return any(each.HasField("activity_task_failed_event_attributes") for each in happened)

        await until(is_given_up)
    await approved_apart(feishu, handles)
    await bundles.finished(feishu, handles[0])
    await says(feishu, card, "Executed")
    await feishu.chat.behave()
    return names.bundle_workflow(bundle_id)
