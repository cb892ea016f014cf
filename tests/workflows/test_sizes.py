"""Whatever is said to an approval or a review, what it keeps stays far below what Temporal takes."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from assent import ApprovalHandle, Approvers, Identity, InvalidRequest, core, names, sizes
from assent.client.door import MOST_CALLS
from assent.content import Content
from assent.contracts.bundles import BundleAsked, Carded, Member
from assent.contracts.decision import Decision, DecisionKind, Judged, Verdict, VerdictKind
from assent.contracts.execute import ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.request import Request
from assent.contracts.review import FrozenCall
from assent.contracts.ruling import Ruling, RulingKind, Settlement
from assent.contracts.signals import VerdictQuestion
from assent.contracts.state import Progress
from assent.contracts.weigh import Weighed
from assent.core import Asked, Unplanned
from assent.core.cards import Cards
from assent.payload import MAX_PAYLOAD_BYTES, sha256
from tests.conftest import ME, OPERATOR, Service
from tests.support.frozen_calls import frozen
from tests.support.hypothesis_settings import unhurried
from tests.support.ledgers import NOW, call_of
from tests.support.waiting import until
from workflows.bundle import BundleWorkflow
from workflows.frozen import FrozenReviewWorkflow

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


FULL = {
    "cards": Cards(message_ids=("m" * 125,) * (sizes.CARDS // 128)),
    "shared": Carded(message_ids=("m" * 125,) * (sizes.STANDING // 128 - 1)),
    "other_messages": ("m" * 125,) * (sizes.STANDING // 128 - 1),
}
"""As many messages as are remembered."""


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
    approvers = Approvers(kind=Approvers.Kind.ANYONE, threshold=100, rejections=100)
    plan = planned({"in": LONGEST} if large else {"in": "small"}, approvers)
    request = Request(approval_id="a", tool="send", arguments={"in": LONGEST}, requester=ME)
    approval = core.open_with(Unplanned(request=request), plan, NOW).model_copy(update=FULL)
    again = [{**fields, "event_id": f"{time}{fields['event_id']}"} for fields in said for time in range(times)]
    for n, fields in enumerate(again):
        shown = approval.plan.payload_sha256 if fields["payload_sha256"] == "shown" else fields["payload_sha256"]
        approval = core.decide(approval, Decision(**{**fields, "payload_sha256": shown}), NOW)
        if approval.asking is not None and answers[n % len(answers)]:
            answered = weighed(approval.plan, approval.asking)
            approval = core.answer(approval, approval.asking, answered, NOW)
        if times == 60 and n % 10 and n + 1 < len(again):  # so many are looked at now and then
            continue
        assert sizes.size(Asked(request=request, state=approval)) <= sizes.CARRIED < LIMIT * 0.8
        assert sizes.total(approval.notes.next_entries) <= sizes.BATCH
        asked = VerdictQuestion(event_id=fields["event_id"], delivery_id=None)
        waiting = (*approval.early, *([approval.asking] if approval.asking else []))
        waits = any(each.event_id == fields["event_id"] for each in waiting)
        assert core.verdict(approval, asked).kind != "received" or waits, "nobody waits in vain for a verdict"


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


LONGEST_ID = '"' * 200
LONGEST_PERSON = Identity(open_id=LONGEST_ID, union_id=LONGEST_ID, user_id=LONGEST_ID, tenant_key=LONGEST_ID)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


contents = st.one_of(
    st.sampled_from([None, {"id": 7}, "x" * 60_000, '"' * 30_000, "\x01" * 10_900, "\U0001f600" * 5000]),
    st.sampled_from(["x" * 400_000, '"' * 250_000, "\x01" * 80_000, "\U0001f600" * 120_000, "x" * 1_900_000]),
    st.integers(1, 250).map(nested),
)
rulings = st.builds(
    Ruling,
    kind=st.sampled_from(list(RulingKind)),
    operator=st.sampled_from([OPERATOR, LONGEST_PERSON]),
    reason=st.sampled_from(["so it is", '"' * 4000, "\U0001f600" * 4000]),
    content=contents,
    payload_hash=st.sampled_from([None, LONGEST_ID]),
    ruling_id=st.sampled_from([None, LONGEST_ID]),
)


@unhurried
@given(said=st.lists(rulings, max_size=6), seen=contents)
def test_whatever_is_said_of_a_frozen_call_what_its_review_keeps_stays_small_and_readable(
    said: list[Ruling], seen: Any
) -> None:
    """A call as large as any, approved by as many as may have to, of whose end the ledger knows nothing."""
    plan = planned({"in": LONGEST}, Approvers(kind=Approvers.Kind.ANYONE, threshold=100))
    call = ToolCall.of(plan, approved_by=(LONGEST_PERSON,) * 100, tool_call_id=LONGEST_ID, thread_id=LONGEST_ID)
    report = Content.of(seen).report(ReportKind.UNKNOWN)
    known = {"decided_by": LONGEST_PERSON, "error": "\x01" * 9000, "seen": report.content, "frozen_at": NOW}
    review = FrozenReviewWorkflow(FrozenCall.of(plan, call, **known))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("workflows.frozen.workflow.now", lambda: NOW)
        travels(review._frozen)
        travels(review._examination(report=report))
        for ruling in said:
            try:
                review._check(ruling)
            except ApplicationError:
                continue
            travels(review._examination(ruling=ruling))
            told = Content.of(ruling.content).report(ReportKind.EXECUTED)
            review._settled = Settlement(
                approval_id=LONGEST_ID,
                kind=RulingKind.EXECUTED,
                content=told.content,
                settled_by=ruling.operator,
                surface=ruling.surface,
                reason=ruling.reason,
                settled_at=NOW,
                also=(LONGEST_ID,) * 21,
            )
            travels(review._examination(ruling=ruling).model_copy(update={"told": (LONGEST_ID,) * 50}))


def travels(message: BaseModel) -> None:
    """Temporal takes it, and whoever is handed it can read it."""
    data = message.__pydantic_serializer__.to_json(message)
    assert len(data) < LIMIT * 0.8
    type(message).model_validate_json(data)


judged = st.builds(
    Judged,
    event_id=st.just(LONGEST_ID),
    delivery_id=st.just(LONGEST_ID),
    kind=st.just(DecisionKind.APPROVE),
    actor=st.just(LONGEST_PERSON),
    verdict=st.just(VerdictKind.ACCEPTED),
    received_at=st.just(NOW),
    reason=words,
    problem=st.sampled_from([None, "x" * 20_000]),
)
progress = st.builds(
    Progress,
    approvers=st.sampled_from([Approvers(), Approvers.of((LONGEST_PERSON,) * 15)]),
    approvals=judged.flatmap(lambda each: st.sampled_from([0, 1, 2, 4]).map(lambda n: (each,) * n)),
    delegations=st.sampled_from([(), ((LONGEST_PERSON, LONGEST_PERSON),) * 2]),
)
CARD_NAMES = sizes.STANDING // len(f'"{"n" * 6}",')
"""More calls than a message can name that says who shares a card."""


@unhurried
@given(
    number=st.sampled_from([1, MOST_CALLS, CARD_NAMES]),
    standings=st.lists(
        st.fixed_dictionaries(
            {"decided": st.none() | judged, "progress": st.none() | progress, "ended": st.booleans()},
        ),
        min_size=1,
        max_size=4,
    ),
    heard=st.sampled_from([1, 60, 100]),
)
def test_whatever_its_calls_say_what_a_bundle_keeps_stays_small(
    number: int, standings: list[dict[str, Any]], heard: int
) -> None:
    ids = tuple(f"{n:06}" if number == CARD_NAMES else f"{n:03}" + '"' * 197 for n in range(number))
    bundle = BundleWorkflow(BundleAsked(bundle_id=LONGEST_ID, approval_ids=ids, sent_at=NOW))
    said = [Member(approval_id="x", **standing).model_dump(mode="json") for standing in standings]
    for n in range(heard):
        last = {**said[n % len(said)], "approval_id": ids[n % number]}
        bundle._on_news(last)
    bundle._on_news({"approval_id": ids[0], "progress": nested(150)})
    with pytest.MonkeyPatch.context() as patched:
        continued: list[BundleAsked] = []
        patched.setattr("workflows.bundle.workflow.continue_as_new", continued.append)
        bundle._continue()
    travels(continued[0])
    travels(bundle._shared_calls)
    shown = {each.approval_id: each.ended for each in bundle._shared_calls.members}
    assert shown[last["approval_id"]] == last["ended"], "how far it has come is told in any case"


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


def test_of_very_many_cards_the_newest_are_remembered() -> None:
    sent = tuple(f"om_{n:032}" for n in range(20_000))
    cards = Cards(message_ids=sent).arrived("om_last", None, NOW)
    assert sizes.size(cards) < sizes.CARDS + 1000
    assert cards.message_ids == (*sent, "om_last")[-len(cards.message_ids) :]
    assert len(cards.message_ids) > 1000
    assert Cards.model_validate_json(cards.model_dump_json()) == cards


UNREADABLE = [nested(190), {"by": nested(185)}, {"message_ids": ["m" * 200] * 9000}, {"approval_id": "x" * 1_900_000}]


async def test_what_cannot_be_meant_is_kept_by_no_approval(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    await handle.state()
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    for signal in (names.SUPERSEDE, names.CARDED):
        for message in UNREADABLE:
            await workflow.signal(signal, message)
    assert (await service.decided(handle)).status == "executed"


@pytest.mark.parametrize("reason", ["x" * 1_900_000, nested(190), "x" * 4001])
async def test_a_withdrawal_counts_without_a_reason_that_cannot_be_kept(
    service: Service, tmp_path: Path, reason: Any
) -> None:
    handle = await service.gate.request("mark", {"path": str(tmp_path / "m")}, requester=ME)
    await handle.state()
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    await workflow.signal(names.CANCEL, {"reason": reason, "actor": ME.model_dump()})
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason) == ("cancelled", None)


async def test_what_cannot_be_meant_is_kept_by_no_review(service: Service, tmp_path: Path) -> None:
    handle = await frozen(service, tmp_path / "m")
    review = service.client.get_workflow_handle(names.review_workflow(str((await handle.outcome()).idempotency_key)))
    for signal in (names.JOIN, names.NEWS):
        for message in UNREADABLE:
            await review.signal(signal, message)
    assert (await handle.settle("executed", operator=OPERATOR, reason="so it is")).kind == "settled"
    assert (await handle.settlement()).kind == "executed"
