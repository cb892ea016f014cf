"""Whatever is said to an approval or a review, what it keeps stays far below what Temporal takes."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from temporalio.client import WorkflowUpdateFailedError

from assent import ApprovalHandle, Approvers, Identity, InvalidRequest, names, sizes
from assent.contracts import Decision, DecisionKind, Plan, Request, Verdict
from assent.messages import Asked, Shelf, VerdictQuestion, Weighed
from assent.payload import MAX_PAYLOAD_BYTES, sha256
from tests.conftest import ME, OPERATOR, Service
from tests.ledgers import NOW, call_of
from tests.parts import until
from tests.properties import unhurried
from tests.test_reviews import frozen
from workflows.docket import Docket

LIMIT = 2 * 1024 * 1024
"""What Temporal refuses."""
LONGEST = '"' * (MAX_PAYLOAD_BYTES // 2 - 100)
"""Arguments that are as large as they may be, and larger within a message."""
_decision: TypeAdapter[Decision] = TypeAdapter(Decision)


def planned(arguments: dict[str, Any], approvers: Approvers) -> Plan:
    return Plan(
        approval_id="a",
        request_sha256="r",
        **call_of("send", arguments, "m"),
        description="d" * 2000,
        queue="q",
        manifest_sha256="m" * 64,
        requester=ME,
        approvers=approvers,
        risk="low",
        sensitive=(),
        retry_safe=False,
        attempts=1,
        has_probe=False,
        deadline=NOW + timedelta(days=1),
        timeout=timedelta(minutes=1),
        start_within=timedelta(minutes=1),
        heartbeat_timeout=timedelta(seconds=3),
        grace=timedelta(seconds=1),
        asked_at=NOW,
    )


people = st.sampled_from([ME, *(Identity(open_id=f"ou_{n}" + "ü" * 90, union_id="x" * 200) for n in range(4))])
words = st.sampled_from([None, "no", '"' * 4000, "\U0001f600" * 4000])
values = st.sampled_from([1, "x" * 1000, "x" * 100_000, '"' * 60_000, "x" * 900_000])


@st.composite
def decisions(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(DecisionKind)))
    return {
        "approval_id": "a",
        "kind": kind,
        "payload_sha256": draw(st.sampled_from(["shown", "f" * 64])),
        "actor": draw(people),
        "event_id": draw(st.uuids()).hex + "x" * 160,
        "message_id": draw(st.sampled_from([None, "om_unknown"])),
        "reason": draw(words),
        "arguments": draw(st.none() | values.map(lambda value: {"n": value})) if kind is DecisionKind.EDIT else None,
        "delegate_to": draw(people) if kind is DecisionKind.DELEGATE else None,
    }


@unhurried
@given(
    said=st.lists(decisions(), max_size=12),
    times=st.sampled_from([1, 3, 60]),
    answers=st.lists(st.booleans(), min_size=1),
    large=st.booleans(),
)
def test_whatever_is_said_what_is_carried_along_stays_small(
    said: list[dict[str, Any]], times: int, answers: list[bool], large: bool
) -> None:
    """The ledger is out of reach all the while: nothing is ever written."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("workflows.docket.workflow.now", lambda: NOW)
        approvers = Approvers(kind=Approvers.Kind.ANYONE, threshold=100, rejections=100)
        plan = planned({"in": LONGEST} if large else {"in": "small"}, approvers)
        docket = Docket(None)
        docket.open(plan)
        request = Request(approval_id="a", tool="send", arguments={"in": LONGEST}, requester=ME)
        again = [{**fields, "event_id": f"{time}{fields['event_id']}"} for fields in said for time in range(times)]
        for n, fields in enumerate(again):
            assert docket.plan is not None
            shown = docket.plan.payload_sha256 if fields["payload_sha256"] == "shown" else fields["payload_sha256"]
            docket.take(Decision(**{**fields, "payload_sha256": shown}))
            if docket.weighing is not None and answers[n % len(answers)]:
                docket.weighed(weighed(docket.plan, docket.weighing))
            if times == 60 and n % 10 and n + 1 < len(again):  # so many are looked at now and then
                continue
            carried = docket.carried(docket.plan, Shelf())
            assert sizes.size(Asked(request=request, carried=carried)) <= sizes.CARRIED < LIMIT * 0.8
            assert sizes.total(docket.next_entries) <= sizes.BATCH
            asked = VerdictQuestion(event_id=fields["event_id"], delivery_id=None)
            verdict: Verdict = docket.verdict(asked)
            waits = any(each.event_id == fields["event_id"] for each in carried.early)
            assert verdict.kind != "received" or waits, "nobody waits in vain for a verdict"


def weighed(plan: Plan, decision: Decision) -> Weighed:
    """What the worker makes of an edit, by the same rule."""
    if decision.kind is not DecisionKind.EDIT:
        return Weighed()
    changed = call_of("send", decision.arguments or {}, "m")
    proposed = plan.edit.proposed_payload if plan.edit else plan.payload
    if sizes.text_size(changed["payload"], proposed) > sizes.EDIT or len(changed["payload"]) > MAX_PAYLOAD_BYTES:
        return Weighed(invalid="too large")
    edit = {
        "by": decision.actor,
        "proposed_payload": proposed,
        "proposed_payload_sha256": sha256(proposed),
        "payload": changed["payload"],
        "payload_sha256": changed["payload_sha256"],
    }
    fields = {**plan.model_dump(), **changed, "edit": edit, "revision": plan.revision + 1}
    return Weighed(plan=Plan.model_validate({**fields, "former_sha256": (*plan.former_sha256, plan.payload_sha256)}))


async def signalled(service: Service, handle: ApprovalHandle, **fields: Any) -> str:
    """Send a decision as whoever reaches Temporal can, past everything that would refuse it earlier."""
    event_id = uuid.uuid4().hex
    said = {"approval_id": handle.id, "actor": ME.model_dump(), "event_id": event_id, "kind": "edit", **fields}
    await service.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(names.DECIDE, said)
    return event_id


async def test_edits_that_are_too_large_are_refused_and_the_approval_goes_on(service: Service, tmp_path: Path) -> None:
    """Eight of 900 KB at once: each has its verdict, and the approval expires in its time."""
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME, ttl=timedelta(seconds=20))
    state = await handle.state()
    large = {"path": "x" * 900_000}
    sent = [await signalled(service, handle, arguments=large, payload_sha256=state.payload_sha256) for _ in range(8)]
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    for event_id in sent:

        async def judged(event_id: str = event_id) -> Verdict | None:
            question = VerdictQuestion(event_id=event_id, delivery_id=None)
            verdict: Verdict = await workflow.query(names.VERDICT, question, result_type=Verdict)
            return verdict if verdict.kind != "received" else None

        verdict = await until(judged)
        assert verdict.kind == "invalid"
        assert str(sizes.DECISION) in (verdict.reason or "")
    assert (await handle.outcome()).status == "expired"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [150, 185, 195])
async def test_an_edit_that_could_be_written_and_not_read_again_is_refused(
    service: Service, tmp_path: Path, depth: int
) -> None:
    """Just shallow enough to be taken, too deep for what an approval hands on: it would fail for good."""
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    state = await handle.state()
    deep = {"path": nested(depth)}
    event_id = await signalled(service, handle, arguments=deep, payload_sha256=state.payload_sha256)
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))

    async def judged() -> Verdict | None:
        question = VerdictQuestion(event_id=event_id, delivery_id=None)
        verdict: Verdict = await workflow.query(names.VERDICT, question, result_type=Verdict)
        return verdict if verdict.kind != "received" else None

    assert (await until(judged)).kind == "invalid"
    assert (await service.decided(handle)).status == "executed"


@pytest.mark.parametrize("depth", [185, 195])
async def test_a_ruling_that_could_be_written_and_not_read_again_is_refused(
    service: Service, tmp_path: Path, depth: int
) -> None:
    handle = await frozen(service, tmp_path / "m")
    review = service.client.get_workflow_handle(names.review_workflow(str((await handle.outcome()).idempotency_key)))
    by_hand = {"kind": "executed", "operator": OPERATOR.model_dump(), "reason": "so it is", "content": nested(depth)}
    with pytest.raises(WorkflowUpdateFailedError):
        await review.execute_update(names.SETTLE_REVIEW, by_hand)
    assert (await handle.settle("executed", operator=OPERATOR, reason="so it is", content="as text")).kind == "settled"
    assert await handle.content() == "as text"


async def test_a_ruling_that_is_too_large_is_refused_and_the_review_goes_on(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    with pytest.raises(InvalidRequest, match="content"):
        await handle.settle("executed", operator=OPERATOR, reason="so it is", content="x" * 1_950_000)
    review = service.client.get_workflow_handle(names.review_workflow(str((await handle.outcome()).idempotency_key)))
    by_hand = {"kind": "executed", "operator": OPERATOR.model_dump(), "reason": "so it is", "content": "x" * 1_950_000}
    with pytest.raises(WorkflowUpdateFailedError):
        await review.execute_update(names.SETTLE_REVIEW, by_hand)
    assert (
        await handle.settle("executed", operator=OPERATOR, reason="so it is", content="x" * 400_000)
    ).kind == "settled"
    assert await handle.content() == "x" * 400_000
