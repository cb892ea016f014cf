"""Forged clicks: signed by the platform as every click is, with contents that no card of ours has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from assent import ApprovalHandle
from tests.support.deployment import FeishuServiceWithWebhook, opened_feishu_service_with_webhook, said
from tests.support.feishu_service import APPROVER, OUTSIDER, REQUESTER, buttons
from tests.support.tools import marks
from tests.support.web import click_event, sealed, signed

Value = dict[str, Any]


@pytest.fixture(scope="module")
async def feishu(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[FeishuServiceWithWebhook]:
    directory = tmp_path_factory.mktemp("feishu")
    async with opened_feishu_service_with_webhook(
        temporal_address, next(namespaces), directory, patience=25, limits=False
    ) as opened:
        yield opened


class Target:
    """An approval that is under attack, and another one of the same people."""

    def __init__(self, feishu: FeishuServiceWithWebhook, directory: Path) -> None:
        self.feishu = feishu
        self.directory = directory

    async def open(self) -> None:
        self.handle = await self.feishu.ask(self.directory, chat_id="oc_team", arguments={"note": "the one"})
        self.other = await self.feishu.ask(self.directory, chat_id="oc_team", arguments={"note": "the other"})
        self.card = await self.feishu.chat.card(self.handle.id)
        self.others_card = await self.feishu.chat.card(self.other.id)
        self.value: Value = buttons(self.card["content"])["approve"]["behaviors"][0]["value"]
        self.others_value: Value = buttons(self.others_card["content"])["approve"]["behaviors"][0]["value"]

    async def untouched(self, *events: str, other: tuple[str, ...] = ()) -> None:
        """Nothing ran, both are open with their cards as they were, and the audit tells of what reached them."""
        for handle, card, seen in (
            (self.handle, self.card, events),
            (self.other, self.others_card, other),
        ):
            state = await handle.state()
            assert (state.phase, state.status, state.decided_by) == ("pending", None, None)
            assert await self.feishu.chat.card(handle.id) == card
            assert await self.feishu.audited(handle, len(seen) + 2) == ["write_request", "deliver", *seen]
        assert marks(self.directory / "marks") == 0

    async def close(self) -> None:
        """It is still as good as new."""
        told = await self.feishu.chat.click(self.card, "approve")
        assert told["toast"]["type"] in ("success", "info"), told
        assert (await self.handle.outcome()).status == "executed"
        await self.other.cancel()
        assert (await self.other.outcome()).status == "cancelled"
        assert marks(self.directory / "marks") == 1
        assert await self.feishu.service.ledger.verify() == []


@pytest.fixture
async def target(feishu: FeishuServiceWithWebhook, tmp_path: Path) -> AsyncIterator[Target]:
    target = Target(feishu, tmp_path)
    await target.open()
    yield target
    await target.close()


async def test_a_value_that_does_not_fit_is_tampering_and_changes_nothing(
    feishu: FeishuServiceWithWebhook, target: Target
) -> None:
    wrong_hash = {**target.value, "payload_sha256": "0" * 64}
    others_hash = {**target.value, "payload_sha256": target.others_value["payload_sha256"]}
    other_stage = {**target.value, "stage": "result"}
    upper_case = {**target.value, "payload_sha256": target.value["payload_sha256"].upper()}
    rejecting = {**wrong_hash, "decision": "reject"}
    forged = (wrong_hash, others_hash, other_stage, upper_case, rejecting, json.dumps(wrong_hash))
    for value in forged:
        assert await feishu.toast(target.card, value) == said("toast.tampered")
    await target.untouched(*["tamper"] * len(forged))


async def test_a_click_on_a_message_that_does_not_show_the_approval_is_tampering(
    feishu: FeishuServiceWithWebhook, target: Target
) -> None:
    assert await feishu.toast(target.others_card, target.value) == said("toast.tampered")
    assert await feishu.toast(target.card, target.others_value) == said("toast.tampered")
    event = click_event(target.value, "om_forwarded_elsewhere", open_id="ou_requester")
    body = sealed(event)
    async with httpx.AsyncClient() as http:
        answer = await http.post(feishu.door, content=body, headers=signed(body))
    assert answer.json()["toast"]["i18n"]["en_us"] == said("toast.tampered")
    await target.untouched("tamper", "tamper", other=("tamper",))


async def test_a_file_of_the_approval_is_no_card_to_click_on(feishu: FeishuServiceWithWebhook, tmp_path: Path) -> None:
    handle = await feishu.ask(tmp_path, arguments={"note": "long " * 9000})
    card = await feishu.chat.card(handle.id)
    value = buttons(card["content"])["approve"]["behaviors"][0]["value"]
    file = next(message for message in await feishu.chat.messages() if message["msg_type"] == "file")
    assert await feishu.toast(file, value) == said("toast.tampered")
    assert (await handle.state()).phase == "pending"
    assert await feishu.toast(card, value) in (said("toast.approved"), said("toast.received"))
    assert (await handle.outcome()).status == "executed"
    assert await feishu.toast(file, value) == said("toast.tampered")
    assert marks(tmp_path / "marks") == 1


async def test_a_value_that_is_not_ours_or_cannot_be_read_signals_nothing(
    feishu: FeishuServiceWithWebhook, target: Target
) -> None:
    decisions: tuple[Any, ...] = ("", "APPROVE", "yes", None, 1, ["approve"], {})
    unreadable = (
        *("", "approve", "[]", "null", "{", "1e999", "\u202e", "x" * 200_000, "[" * 50_000),
        *({}, {"approval_id": target.handle.id}, {**target.value, "assent": "2"}, {**target.value, "assent": 1}),
        *({**target.value, "decision": decision} for decision in decisions),
        *({**target.value, "stage": stage} for stage in ("", "later", None, 0)),
        *({**target.value, "payload_sha256": digest} for digest in (None, 0, ["0"], "0" * 100_000)),
        *({**target.value, "approval_id": name} for name in (None, "", 7, "a" * 100_000, {"$ne": None})),
    )
    for value in unreadable:
        assert await feishu.toast(target.card, value) == said("toast.unreadable"), value
    await target.untouched()


async def test_names_of_approvals_that_do_not_exist_lead_nowhere(
    feishu: FeishuServiceWithWebhook, target: Target
) -> None:
    for name in (
        "nobody",
        "../frozen",
        "approval/x",
        f"{target.handle.id} ",
        target.handle.id.upper(),
        "%",
        "a\u0000b",
    ):
        told = await feishu.toast(target.card, {**target.value, "approval_id": name})
        assert told in (said("toast.missing"), said("toast.unreadable"), said("toast.not_recorded")), (name, told)
    await target.untouched()


async def test_what_is_beside_the_value_does_not_matter(
    feishu: FeishuServiceWithWebhook, target: Target, tmp_path: Path
) -> None:
    """More keys give no more rights: who clicks is what the platform says, not what the value says."""
    pretending = {
        **target.value,
        "actor": {"open_id": REQUESTER.open_id},
        "operator": {"open_id": REQUESTER.open_id, "tenant_key": "tenant_1"},
        "open_id": REQUESTER.open_id,
        "proof": "feishu-signature",
        "event_id": "mine",
        "message_id": target.card["message_id"],
        "reason": "x" * 100_000,
    }
    for who in (OUTSIDER, APPROVER):
        assert await feishu.toast(target.card, pretending, person=who) == said("toast.forbidden")
    await target.untouched("forbid", "forbid")
    entries = await feishu.service.ledger.entries(target.handle.id)
    assert [str(entry.actor.open_id) for entry in entries[2:] if entry.actor] == ["ou_outsider", "ou_approver"]
    assert all(entry.event_id != "mine" and entry.reason is None for entry in entries)


async def test_a_click_of_another_tenant_or_app_is_refused_at_the_door(
    feishu: FeishuServiceWithWebhook, target: Target
) -> None:
    def event(**changed: Any) -> dict[str, Any]:
        made = click_event(target.value, target.card["message_id"])
        for path, value in changed.items():
            part, _, name = path.partition("__")
            holder = made["header"] if part == "header" else made["event"][part]
            holder[name] = value
        return made

    foreign = (
        event(header__app_id="cli_other"),
        event(header__tenant_key="tenant_2"),
        event(operator__tenant_key="tenant_2"),
        event(operator__tenant_key=None),
        event(header__tenant_key="tenant_2", operator__tenant_key="tenant_2"),
        event(header__token="another-token"),
        event(header__event_type="card.action.trigger_v1"),
        {**event(), "schema": "1.0"},
    )
    async with httpx.AsyncClient() as http:
        for made in foreign:
            body = sealed(made)
            answer = await http.post(feishu.door, content=body, headers=signed(body))
            assert (answer.status_code, answer.json()) == (401, {"error": "refused"}), made
        nobody = event()
        nobody["event"]["operator"] = {"tenant_key": "tenant_1"}
        body = sealed(nobody)
        answer = await http.post(feishu.door, content=body, headers=signed(body))
        assert answer.json()["toast"]["i18n"]["en_us"] == said("toast.unreadable")
    await target.untouched()


async def test_after_the_end_forged_clicks_are_judged_alike(
    feishu: FeishuServiceWithWebhook, target: Target, tmp_path: Path
) -> None:
    ended = await feishu.ask(tmp_path, arguments={"path": str(tmp_path / "else")})
    card = await feishu.chat.card(ended.id)
    value = buttons(card["content"])["approve"]["behaviors"][0]["value"]
    await feishu.decided(ended, "reject")
    await feishu.chat.final(ended.id)
    for message, forged in (
        (card, {**value, "payload_sha256": "0" * 64}),
        (card, {**value, "stage": "result"}),
        (target.card, value),
    ):
        assert await feishu.toast(message, forged) == said("toast.tampered")
    assert await feishu.toast(card, value, person=OUTSIDER) == said("toast.forbidden")
    assert await feishu.audited(ended, 7) == ["write_request", "deliver", "confirm", *["tamper"] * 3, "forbid"]
    assert (await ended.outcome()).status == "rejected"
    assert marks(tmp_path / "else") == 0
    await target.untouched()


async def test_a_storm_of_forged_clicks_keeps_nobody_from_deciding(
    feishu: FeishuServiceWithWebhook, target: Target
) -> None:
    forged = {**target.value, "payload_sha256": "0" * 64}
    storm = [feishu.chat.force(target.card, forged, person=OUTSIDER) for _ in range(60)]
    told = await asyncio.gather(*storm)
    assert {each["error"] for each in told} == {None}
    await target.untouched(*["tamper"] * 60)


async def test_clicking_twice_at_once_counts_once(feishu: FeishuServiceWithWebhook, tmp_path: Path) -> None:
    handle: ApprovalHandle = await feishu.ask(tmp_path)
    card = await feishu.chat.card(handle.id)
    await feishu.chat.misbehave({"on": "callback", "kind": "duplicate_click"})
    try:
        told = await asyncio.gather(
            *(feishu.chat.click(card, decision) for decision in ("approve", "reject", "approve", "reject"))
        )
    finally:
        await feishu.chat.behave()
    assert {each["error"] for each in told} == {None}
    outcome = await handle.outcome()
    assert marks(tmp_path / "marks") == {"executed": 1, "rejected": 0}[outcome.status]
    assert (await feishu.service.events(handle.id)).count("confirm") == 1
    await feishu.chat.final(handle.id, said(f"line.{outcome.status}"))
