"""Cards under a Feishu that is slow, fails and loses answers, whatever people do: in the end each says how it stands.

`SEEDS="1 2 3"` acts out these schedules.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuUnavailable
from assent import ApprovalHandle
from assent.errors import AssentError
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, FeishuService, buttons, open_feishu_service
from tests.support.replaying import replays
from tests.support.web import TENANT

SEEDS = [int(seed) for seed in os.environ.get("SEEDS", "34 211").split()]
CALLS = 10
PEOPLE = (APPROVER, REQUESTER, OPERATOR, OUTSIDER)
SETTLING = 240
"""Seconds that a busy machine may take until all cards say what they should."""


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuService]:
    client = await servers.connect(temporal_address, next(namespaces))
    async with AsyncExitStack() as stack:
        yield await open_feishu_service(stack, client, tmp_path_factory.mktemp("generated"))


def _people(*people: Any, threshold: int) -> str:
    named = ", ".join(f'"open_id:{person.open_id}"' for person in people)
    return f"{{people = [{named}], threshold = {threshold}}}"


_STAGE = _people(APPROVER, REQUESTER, threshold=2)
POLICIES = (
    _people(APPROVER, REQUESTER, OPERATOR, threshold=3),
    f"[{_STAGE}, {_people(OPERATOR, threshold=1)}]",
    f"[{_STAGE}, {_people(OPERATOR, OUTSIDER, threshold=2)}]",
)


class Trouble:
    """A way to Feishu and back that takes its time, and on which something may be lost, until that is over."""

    def __init__(self, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_over = False
        self._chance = chance
        self._slow = chance.choice([0.3, 1.0])
        for request in ("patch", "send"):
            monkeypatch.setattr(Feishu, request, self._troubled(getattr(Feishu, request)))

    def _troubled(self, request: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: self._through(request(*given, **named))

    async def _through(self, request: Any) -> Any:
        if self.is_over:
            return await request
        chance = self._chance
        late, lost, slow = chance.random() < 0.5, chance.random(), self._slow
        if late:
            await asyncio.sleep(chance.random() ** 2 * slow * 3)  # not a wait: this is how long it takes
        if lost < 0.12:
            request.close()
            raise FeishuUnavailable("it failed", retry_after=chance.random())
        answer = await request
        if chance.random() < 0.5:
            await asyncio.sleep(chance.random() * slow)
        if lost > 0.9:
            raise FeishuUnavailable("its answer was lost", retry_after=chance.random())
        return answer


async def acted_out(feishu: FeishuService, chance: random.Random, handle: ApprovalHandle, arguments: Any) -> None:
    """Let people click, change, pass on and withdraw, in whichever order, as long as it is pending."""
    for _ in range(chance.randint(2, 9)):
        await asyncio.sleep(chance.random() * chance.choice([0.05, 0.5, 2]))  # people take their time
        state = await handle.state()
        if state.phase != "pending":
            return
        cards = [card for card in await feishu.chat.cards(handle.id) if buttons(card["content"])]
        act = chance.choice(["click"] * 4 + ["approve"] * 2 + ["edit", "delegate", "nothing"])
        person = chance.choice(PEOPLE)
        as_seen: dict[str, Any] = {"actor": person.within(TENANT), "payload_sha256": state.payload_sha256}
        with suppress(AssentError):  # not theirs to do
            if act == "click" and cards:
                await feishu.click(handle, chance.choice(cards), who=person)
            elif act == "approve":
                await handle.decide("approve", **as_seen)
            elif act == "edit":
                changed = {**arguments, "path": f"{arguments['path']}.{chance.random()}"}
                await handle.decide("edit", arguments=changed, **as_seen)
            elif act == "delegate":
                await handle.decide("delegate", delegate_to=OUTSIDER, **as_seen)
            elif chance.random() < 0.3:
                await handle.cancel()


async def what_is_wrong(feishu: FeishuService, handle: ApprovalHandle) -> list[str]:
    """What an approval's cards say that is not so, by now."""
    cards, record = await feishu.chat.cards(handle.id), await feishu.service.ledger.record(handle.id)
    assert record is not None
    known = {each.message_id: each for each in record.messages}
    newest = max((each.slot.generation for each in record.messages if each.message_id), default=0)
    wrong = [f"{handle.id}: a card that the ledger does not know" for card in cards if card["message_id"] not in known]
    state = None if record.outcome else await handle.state()
    pending = state.payload_sha256 if state and state.phase == "pending" else None
    for card in cards:
        pressed = buttons(card["content"])
        message = known.get(card["message_id"])
        if message is None:
            continue
        asks = pending is not None and message.slot.generation == newest
        if bool(pressed) != asks:
            wrong.append(f"{handle.id}: {message} {'has' if pressed else 'has no'} buttons")
        shown = {button["behaviors"][0]["value"].get("payload_sha256") for button in pressed.values()}
        if shown - {pending, None}:
            wrong.append(f"{handle.id}: {message} shows another payload")
    return wrong


async def settled(feishu: FeishuService, handles: list[ApprovalHandle]) -> list[str]:
    """What is still wrong with their cards after a while; in the end nothing should be."""
    give_up = asyncio.get_running_loop().time() + SETTLING
    while True:
        wrong = [each for handle in handles for each in await what_is_wrong(feishu, handle)]
        if not wrong or asyncio.get_running_loop().time() > give_up:
            return wrong
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_happens_on_the_way_every_card_says_how_it_stands_in_the_end(
    feishu: FeishuService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    trouble = Trouble(chance, monkeypatch)
    reminding = chance.choice(["", "remind_after = 0.05\nttl = '120s'\n"])
    policy = f"[[rule]]\nname = 'generated'\napprovers = {chance.choice(POLICIES)}\n{reminding}"

    gate = tmp_path / "gate"

    async def one(n: int) -> ApprovalHandle:
        where = {"chat_id": "oc_team"} if chance.random() < 0.5 else {}
        arguments = {"path": str(tmp_path / str(n)), "gate": str(gate)}
        asked = await feishu.ask(tmp_path, "gated", approval_id=f"s{seed}-{n}", arguments=arguments, **where)
        await acted_out(feishu, chance, asked, arguments)
        return asked

    async with feishu.service.policy(policy):
        handles = await asyncio.gather(*map(one, range(CALLS)))
        trouble.is_over = True
        assert await settled(feishu, handles) == []
        assert "frozen" not in {(await handle.state()).status for handle in handles}, "too long for a call to go on"
        gate.touch()
        for handle in handles:
            await handle.cancel()
            await handle.outcome()
        assert await settled(feishu, handles) == []
    for handle in handles:
        assert await replays(feishu.service.client, handle)
