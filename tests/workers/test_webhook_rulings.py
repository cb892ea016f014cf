"""Operators settle from the card in their chat: through the callback and over the long connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from activities.feishu.verifier import Verifier
from assent import ApprovalHandle
from cards import Wording
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.feishu_service import FeishuService, buttons, open_feishu_service
from tests.support.waiting import until
from tests.support.web import APP_ID, TENANT, Web, click_event, sealed, signed
from workers import longconn
from workers.callbacks import Callbacks

WORDING = Wording.load()


@dataclass
class Door:
    """The callback and the long connection over one service."""

    feishu: FeishuService
    web: Web
    connection: longconn.Answering

    async def frozen(self, directory: Path, tool: str = "raises", **asked: Any) -> tuple[ApprovalHandle, Any]:
        """A frozen call, and the operators' card of its review."""
        handle = await self.feishu.ask(directory, tool, **asked)
        assert (await self.feishu.decided(handle)).status == "frozen"

        async def shown() -> Any:
            return next(iter(await self.feishu.chat.cards(handle.id, MessageKind.REVIEW)), None)

        return handle, await until(shown)

    async def press(
        self, door: str, card: Any, ruling: str, who: str = str(OPERATOR.open_id), value: Any = None, **form: str
    ) -> str:
        """What an operator reads after pressing a button of the review's card."""
        button = buttons(card["content"])[ruling] if value is None else {"behaviors": [{"value": value}]}
        event = click_event(button["behaviors"][0]["value"], card["message_id"], open_id=who)
        event["event"]["action"]["form_value"] = {"reason": "I looked.", "content": "", "payload_hash": "", **form}
        while (found := await self._send(door, event)) == told("not_in_time"):
            continue  # a busy machine: the same press again is the same ruling
        return found

    async def _send(self, door: str, event: dict[str, Any]) -> str:
        if door == "longconn":
            answer = await self.connection(json.dumps(event).encode())
            assert answer is not None
        else:
            body = sealed(event)
            async with self.web.http(None, self.web.hook) as http:
                answer = (await http.post("/feishu/callback", content=body, headers=signed(body))).json()
        found: str = answer["toast"]["i18n"]["en_us"]
        return found


@pytest.fixture(scope="module")
async def door(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Door]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("rulings")
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, directory)
        verifier = Verifier(app_id=APP_ID, tenant_key=TENANT, encrypt_key=None, verification_token="unused")
        connection = partial(longconn.answer, verifier, Callbacks(feishu.service.gate, WORDING))
        yield Door(feishu, Web(feishu.service, directory), connection)


def told(key: str) -> str:
    return WORDING(f"toast.{key}").en


@pytest.mark.parametrize(("through", "proof"), [("callback", "feishu-signature"), ("longconn", "feishu-connection")])
async def test_a_press_settles_and_the_next_is_told_that_it_is(
    door: Door, tmp_path: Path, through: str, proof: str
) -> None:
    handle, card = await door.frozen(tmp_path)
    assert await door.press(through, card, "executed", who="ou_outsider") == told("forbidden_ruling")
    assert await door.press(through, card, "executed", reason=" ") == told("no_reason")
    assert await door.press(through, card, "executed", content="{") == told("bad_content")
    assert await door.press(through, card, "executed", content='{"n": 7}') == told("settled_executed")
    assert (await door.press(through, card, "not_executed")).startswith(told("already_settled"))
    settlement = await handle.settlement()
    assert (settlement.kind, settlement.content, settlement.surface) == ("executed", {"n": 7}, "feishu")
    entry = (await door.feishu.service.ledger.entries(handle.id))[-1]
    assert (entry.event, entry.proof, entry.reason) == ("settle", proof, "I looked.")


async def test_a_forged_button_changes_nothing(door: Door, tmp_path: Path) -> None:
    handle, card = await door.frozen(tmp_path)
    pending = await door.feishu.ask(tmp_path, "mark")
    waiting = await pending.state()
    value = buttons(card["content"])["executed"]["behaviors"][0]["value"]
    for forged, key in (
        ({**value, "payload_sha256": "0" * 64}, "tampered"),
        ({**value, "review": "nobody-asked"}, "missing_review"),
        ({**value, "review": pending.id, "payload_sha256": waiting.payload_sha256}, "missing_review"),
        ({**value, "ruling": "retry"}, "not_certain"),
        ({**value, "ruling": "perhaps"}, "unreadable"),
    ):
        assert await door.press("callback", card, "executed", value=forged, payload_hash="0" * 12) == told(key)
    assert await door.feishu.service.ledger.settlement(handle.id) is None
    assert (await pending.state()).phase == "pending"
