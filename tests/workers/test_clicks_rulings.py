"""One click on a review is answered in time and truthfully, whatever becomes of it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from assent import ApprovalInterrupted, ApprovalNotFound, Assent, Identity
from assent.types import NotFrozen, Ruled, RuledKind, Ruling, RulingKind, RulingRefused, Settlement, Surface
from cards import RulingClick, Wording
from tests.conftest import OPERATOR
from tests.support import servers
from workers.clicks import answer_ruling

WORDING = Wording.load()
LI = Identity(open_id="ou_li")
SETTLEMENT = Settlement(
    approval_id="a-1",
    kind=RulingKind.EXECUTED,
    settled_by=LI,
    surface=Surface.FEISHU,
    settled_at=datetime(2030, 1, 2, tzinfo=UTC),
)


def click(**changed: Any) -> RulingClick:
    fields: dict[str, Any] = {
        "event_id": uuid.uuid4().hex,
        "operator": OPERATOR,
        "approval_id": "a-1",
        "kind": RulingKind.EXECUTED,
        "reason": "I looked.",
        "content_text": None,
        "payload_hash": None,
        "payload_sha256": "0" * 64,
        "message_id": "om_1",
        "chat_id": "oc_1",
        "occurred_at": datetime.now(UTC),
        "proof": "feishu-signature",
    }
    return RulingClick(**{**fields, **changed})


class Gate:
    """Knows one approval, and does with every ruling what the test says."""

    def __init__(self, ruled: Ruled | Exception | None, payload_sha256: str | Exception = "0" * 64) -> None:
        self.said: list[Ruling] = []
        self.payload_sha256 = payload_sha256
        self._ruled = ruled

    def approval(self, _: str) -> Gate:
        return self

    async def rule(self, ruling: Ruling) -> Ruled:
        if isinstance(self.payload_sha256, ApprovalNotFound):
            raise self.payload_sha256
        if isinstance(self.payload_sha256, str) and ruling.payload_sha256 != self.payload_sha256:
            raise RulingRefused("a-1", "Tampered", "it is about another payload")
        self.said.append(ruling)
        if isinstance(self._ruled, Exception):
            raise self._ruled
        if self._ruled is None:
            await asyncio.Event().wait()
        assert self._ruled is not None
        return self._ruled


async def told(gate: Gate, pressed: RulingClick | None = None, **how: Any) -> str:
    answer = await asyncio.wait_for(answer_ruling(cast("Assent", gate), pressed or click(), WORDING, **how), 300)
    assert set(answer) == {"toast"}
    found: str = answer["toast"]["i18n"]["en_us"]
    return found


def text(key: str, **values: str) -> str:
    return WORDING(f"toast.{key}", **values).en


async def test_a_ruling_carries_who_says_so_and_what_proves_it() -> None:
    gate = Gate(Ruled(kind=RuledKind.SETTLED, settlement=SETTLEMENT))
    pressed = click(content_text='{"n": 1}')
    assert await told(gate, pressed) == text("settled_executed")
    (ruling,) = gate.said
    assert (ruling.operator, ruling.surface, ruling.proof) == (OPERATOR, "feishu", "feishu-signature")
    assert (ruling.ruling_id, ruling.content) == (pressed.event_id, {"n": 1})


@pytest.mark.parametrize(
    ("ruled", "key"),
    [
        (Ruled(kind=RuledKind.RETRYING), "retried_since"),
        (Ruled(kind=RuledKind.FORBIDDEN), "forbidden_ruling"),
        (RulingRefused("a-1", "WrongHash", "no"), "wrong_hash"),
        (RulingRefused("a-1", "NotCertain", "no"), "not_certain"),
        (RulingRefused("a-1", "Refused", "no"), "ruling_refused"),
        (NotFrozen("a-1"), "missing_review"),
        (RuntimeError("anything else"), "not_in_time"),
    ],
)
async def test_each_end_has_its_words(ruled: Ruled | Exception, key: str) -> None:
    assert await told(Gate(ruled)) == text(key)


async def test_a_form_that_cannot_be_meant_is_told_and_not_handed_on() -> None:
    gate = Gate(None)
    assert await told(gate, click(reason=None)) == text("no_reason")
    assert await told(gate, click(content_text="{")) == text("bad_content")
    assert await told(gate, click(content_text="1", kind=RulingKind.NOT_EXECUTED)) == text("not_a_result")
    assert await told(gate, click(payload_sha256="1" * 64)) == text("tampered")
    assert gate.said == []


async def test_a_review_that_nobody_knows_is_told_and_one_whose_approval_was_terminated_is_settled() -> None:
    assert await told(Gate(None, ApprovalNotFound("a-1"))) == text("missing_review")
    settled = Ruled(kind=RuledKind.SETTLED, settlement=SETTLEMENT)
    assert await told(Gate(settled, ApprovalInterrupted("a-1", "terminated"))) == text("settled_executed")


async def test_the_second_operator_is_told_who_was_faster() -> None:
    async def name(person: Identity) -> str | None:
        return "李雷" if person == LI else None

    late = Gate(Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=SETTLEMENT))
    assert (await told(late, names=name)).startswith(text("already_settled_by", name="李雷"))
    assert (await told(late)).startswith(text("already_settled"))


@pytest.mark.parametrize("trouble", ["hangs", "raises"])
async def test_a_name_that_is_not_known_soon_is_left_out(trouble: str) -> None:
    async def name(_: Identity) -> str | None:
        if trouble == "hangs":
            await asyncio.Event().wait()
        raise RuntimeError("no")

    late = Gate(Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=SETTLEMENT))
    assert (await told(late, within=0.1, names=name)).startswith(text("already_settled"))


async def test_a_ruling_that_hangs_is_given_up_in_time_and_the_person_asked_to_look_and_click_again() -> None:
    began = asyncio.get_running_loop().time()
    assert await told(Gate(None), within=0.2) == text("not_in_time")
    assert asyncio.get_running_loop().time() - began < 3
    assert "click again" in text("not_in_time")


async def test_without_temporal_the_person_is_asked_to_click_again() -> None:
    nowhere = f"127.0.0.1:{servers.free_port()}"
    client = await Client.connect(nowhere, lazy=True, data_converter=pydantic_data_converter)
    lost = cast("Gate", await Assent.connect(client=client))
    assert await told(lost, within=0.5) == text("not_in_time")


async def test_without_workers_the_person_is_asked_to_click_again(
    temporal_address: str, namespaces: Iterator[str]
) -> None:
    alone = await Assent.connect(client=await servers.connect(temporal_address, next(namespaces)))
    assert await told(cast("Gate", alone), within=0.5) == text("not_in_time")
