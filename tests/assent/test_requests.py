"""Fail closed: what could not be shown, hashed or carried is refused at the door, and nothing is started."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from assent import Assent, Identity, InvalidRequest
from assent.names import approval_workflow
from assent.payload import MAX_PAYLOAD_BYTES
from assent.temporal.door import TemporalDoor
from assent.types import Unhashable
from tests.conftest import ME
from tests.support import servers
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def gate(temporal_address: str, namespaces: Iterator[str]) -> Assent:
    """A door with nobody behind it: whatever passes stays where it can be seen."""
    return await Assent.connect(client=await servers.connect(temporal_address, next(namespaces)))


async def is_started(gate: Assent, approval_id: str) -> bool:
    try:
        assert isinstance(gate._door, TemporalDoor)
        await gate._door._client.get_workflow_handle(approval_workflow(approval_id)).describe()
        return True
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise


async def refusal(gate: Assent, tool: Any = "mark", arguments: Any = None, **asked: Any) -> InvalidRequest:
    """How the request was refused; that nothing was started is checked on the way."""
    approval_id = str(uuid.uuid4())
    asked = {"requester": ME, "approval_id": approval_id, **asked}
    with pytest.raises(InvalidRequest) as refused:
        await gate.request(tool, {} if arguments is None else arguments, **asked)
    assert isinstance(refused.value, ValueError)
    assert not await is_started(gate, approval_id)
    return refused.value


async def test_what_is_fine_is_started(gate: Assent) -> None:
    handle = await gate.request("any.tool", {"a": [1.5, None, "王"]}, requester=ME, message_id="批准 " + "x" * 190)
    assert await is_started(gate, handle.id)


@pytest.mark.parametrize("requester", [None, "ou_me", "", {"open_id": "ou_me"}, {}, object(), Identity])
async def test_nobody_asks_without_saying_for_whom(gate: Assent, requester: Any) -> None:
    assert "requester" in str(await refusal(gate, requester=requester))


async def test_request_without_a_requester_cannot_be_written(gate: Assent) -> None:
    with pytest.raises(TypeError, match="requester"):
        await gate.request("mark", {})  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "ids",
    [{}, {"tenant_key": "t"}, {"open_id": ""}, {"open_id": None}, {"user_id": "\x00"}, {"union_id": "x" * 257}],
)
def test_identity_that_names_nobody_cannot_be_made(ids: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"open_id|union_id|user_id"):
        Identity(**ids)


@pytest.mark.parametrize("tool", ["", None, 7, "x" * 257, "a\x00b", "\ud800", ["mark"]])
async def test_tool_without_a_usable_name_is_refused(gate: Assent, tool: Any) -> None:
    assert "tool" in str(await refusal(gate, tool))


@pytest.mark.parametrize("arguments", [[], [("a", 1)], "{}", 7, True, ()])
async def test_arguments_must_be_an_object(gate: Assent, arguments: Any) -> None:
    assert "arguments" in str(await refusal(gate, "mark", arguments))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (2**53, "2^53"),
        ("\udc00", "lone surrogate"),
        ({7: 1}, "key 7"),
        (b"x", "bytes"),
        (object(), "object"),
        ((1,), "tuple"),
    ],
)
async def test_argument_that_cannot_be_hashed_is_refused_by_its_path(gate: Assent, value: Any, problem: str) -> None:
    refused = await refusal(gate, "mark", {"list": [{"here": value}]})
    assert isinstance(refused, Unhashable)
    assert refused.path == "$.arguments.list[0].here"
    assert problem in str(refused)


async def test_argument_that_contains_itself_is_refused(gate: Assent) -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    assert "deeper" in str(await refusal(gate, "mark", endless))


async def test_call_that_is_too_large_is_refused_with_its_size(gate: Assent) -> None:
    refused = await refusal(gate, "mark", {"text": "x" * MAX_PAYLOAD_BYTES})
    assert str(MAX_PAYLOAD_BYTES) in str(refused)
    assert "reference" in str(refused)


@pytest.mark.parametrize(
    "ttl", [timedelta(0), timedelta(seconds=-1), timedelta(days=-9999), 0, -5, "soon", None, math.nan]
)
async def test_time_to_live_that_is_none_is_refused(gate: Assent, ttl: Any) -> None:
    assert "ttl" in str(await refusal(gate, ttl=ttl))


async def test_time_to_live_beyond_the_calendar_is_refused(gate: Assent) -> None:
    assert "ttl" in str(await refusal(gate, "any.tool", ttl=timedelta.max, approval_id=None))


@pytest.mark.parametrize("value", ["", "x" * 257, "a\x00b", "\ud800", 7, ["x"]])
@pytest.mark.parametrize("name", ["tool_call_id", "thread_id", "message_id", "event_id", "idempotency_scope"])
async def test_id_that_no_ledger_could_keep_is_refused(gate: Assent, name: str, value: Any) -> None:
    assert name in str(await refusal(gate, **{name: value}))


@pytest.mark.parametrize("value", ["", "x" * 257, "x" * 100_000, "a\x00b", "\ud800", 7])
async def test_approval_id_that_no_ledger_could_keep_is_refused(gate: Assent, value: Any) -> None:
    with pytest.raises(InvalidRequest, match="approval_id"):
        await gate.request("mark", {}, requester=ME, approval_id=value)


async def test_approval_id_that_temporal_could_not_keep_is_refused(gate: Assent) -> None:
    with pytest.raises(InvalidRequest, match="approval_id"):
        await gate.request("mark", {}, requester=ME, approval_id="😀" * 200)


@pytest.mark.parametrize("reason", ["x" * 4001, "a\x00b", "\ud800", 7])
async def test_reason_that_no_ledger_could_keep_is_refused(gate: Assent, reason: Any) -> None:
    assert "reason" in str(await refusal(gate, reason=reason))


@pytest.mark.parametrize("when_pending", ["", "queue", "ALLOW", None, True])
async def test_unknown_wish_for_a_busy_conversation_is_refused(gate: Assent, when_pending: Any) -> None:
    refused = await refusal(gate, thread_id="t", when_pending=when_pending)
    assert "when_pending" in str(refused)


async def test_refusal_names_everything_that_is_wrong_at_once(gate: Assent) -> None:
    refused = await refusal(gate, ttl=timedelta(0), thread_id="", when_pending="queue")
    assert all(name in str(refused) for name in ("ttl", "thread_id", "when_pending"))


async def test_call_refuses_as_request_does(gate: Assent) -> None:
    approval_id = str(uuid.uuid4())
    with pytest.raises(Unhashable, match=r"\$\.arguments\.n"):
        await gate.call("mark", {"n": 2**60}, requester=ME, approval_id=approval_id)
    assert not await is_started(gate, approval_id)


@pytest.mark.parametrize("wrong", [{"kind": "maybe"}, {"actor": None}, {"event_id": ""}, {"payload_sha256": 7}])
async def test_decision_that_makes_no_sense_is_refused(gate: Assent, wrong: dict[str, Any]) -> None:
    decision = {"kind": "approve", "actor": ME, "payload_sha256": "0" * 64, **wrong}
    with pytest.raises(InvalidRequest):
        await gate.approval("nowhere").decide(decision.pop("kind"), **decision)


async def test_nothing_that_was_refused_is_listed(gate: Assent) -> None:
    """Runs last: whatever was started under an id of its own making would show here."""
    marker = (await gate.request("any.tool", {}, requester=ME)).id

    async def listed() -> list[str] | None:
        tools = {found.approval_id: str(found.tool) async for found in gate.approvals()}
        return list(tools.values()) if marker in tools else None

    assert set(await until(listed)) == {"any.tool"}
