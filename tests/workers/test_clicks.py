"""One click is answered in time and truthfully, whatever the state of Temporal and its workers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from assent import Assent, Identity
from assent.types import DecisionKind, Stage, Verdict, VerdictKind
from cards import Click, Wording
from tests.conftest import ME
from tests.support import servers
from tests.support.waiting import until
from workers.clicks import answer_click

WORDING = Wording.load()
LI = Identity(open_id="ou_li")


def click(approval_id: str = "a-1") -> Click:
    return Click(
        event_id=uuid.uuid4().hex,
        operator=ME,
        approval_id=approval_id,
        kind=DecisionKind.APPROVE,
        stage=Stage.CALL,
        payload_sha256="0" * 64,
        message_id="om_1",
        chat_id="oc_1",
        reason=None,
        occurred_at=datetime.now(UTC),
        proof="feishu-signature",
    )


class Gate:
    """Answers every decision with one verdict."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def approval(self, _: str) -> Gate:
        return self

    async def submit(self, *_: object, **__: object) -> Verdict:
        return self._verdict


def gate(**verdict: Any) -> Assent:
    return cast("Assent", Gate(Verdict(**verdict)))


async def test_without_temporal_the_person_is_told_to_click_again() -> None:
    nowhere = f"127.0.0.1:{servers.free_port()}"
    client = await Client.connect(nowhere, lazy=True, data_converter=pydantic_data_converter)
    lost = await Assent.connect(client=client)
    answer = await asyncio.wait_for(answer_click(lost, click(), WORDING, within=0.5), 300)
    assert answer["toast"]["type"] == "error"
    assert "not recorded" in answer["toast"]["i18n"]["en_us"]
    assert "没有被记录" in answer["toast"]["i18n"]["zh_cn"]


async def test_a_submission_that_hangs_is_given_up_in_time() -> None:
    class Hanging(Gate):
        async def submit(self, *_: object, **__: object) -> Verdict:
            await asyncio.Event().wait()
            raise AssertionError

    hanging = cast("Assent", Hanging(Verdict(kind=VerdictKind.ACCEPTED)))
    answer = await asyncio.wait_for(answer_click(hanging, click(), WORDING, within=0.1), 300)
    assert answer["toast"]["type"] == "error"


async def test_while_no_worker_runs_a_click_is_received(temporal_address: str, namespaces: Iterator[str]) -> None:
    own = await Assent.connect(client=await servers.connect(temporal_address, next(namespaces)))
    handle = await own.request("mark", {"path": "x"}, requester=ME)

    async def told() -> str | None:
        answer = await answer_click(own, click(handle.id), WORDING, within=0.5)
        said: str = answer["toast"]["i18n"]["en_us"]
        return said if said != WORDING("toast.not_recorded").en else None

    assert await until(told) == WORDING("toast.received").en  # who is asked to click again does so


async def test_who_is_late_is_told_who_was_faster() -> None:
    async def name(person: Identity) -> str | None:
        return {"ou_li": "李雷"}.get(person.open_id or "")

    late = gate(kind=VerdictKind.ALREADY_DECIDED, decided_by=LI)
    answer = await answer_click(late, click(), WORDING, names=name)
    assert "李雷" in answer["toast"]["i18n"]["zh_cn"]


@pytest.mark.parametrize("trouble", ["hangs", "raises"])
async def test_a_name_that_is_not_known_soon_is_left_out(trouble: str) -> None:
    async def name(_: Identity) -> str | None:
        if trouble == "hangs":
            await asyncio.Event().wait()
        raise RuntimeError("no")

    late = gate(kind=VerdictKind.ALREADY_DECIDED, decided_by=LI)
    answer = await asyncio.wait_for(answer_click(late, click(), WORDING, within=0.1, names=name), 300)
    assert answer["toast"]["i18n"]["en_us"] == WORDING("toast.already_decided").en


async def test_an_answer_never_carries_a_card() -> None:
    for kind in VerdictKind:
        assert set(await answer_click(gate(kind=kind), click(), WORDING)) == {"toast"}
