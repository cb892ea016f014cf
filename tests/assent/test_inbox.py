"""What waits for whom, and what an agent reads of decisions: rules without a service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from assent import ApprovalHandle, ApprovalNotFound, Approvers, Identity, Outcome, Status, Unavailable, core
from assent.api.wire import Ending
from assent.client.reader import LedgerReader, Waiting
from assent.client.texts import with_sentence
from assent.contracts.decision import Decision, DecisionKind, VerdictKind
from assent.contracts.execute import Report, ReportKind
from assent.contracts.policy import Rule
from assent.core import Planned, Unplanned
from assent.temporal.ledger import TemporalLedger
from assent.types import Edit, State
from tests.support import policies

ASKER, ANN, BOB, CAT = (Identity(open_id=f"ou_{name}", tenant_key="t") for name in ("asker", "ann", "bob", "cat"))
PEOPLE = Approvers(kind=Approvers.Kind.PEOPLE, people=(ANN, BOB), threshold=2)
ANYONE = Approvers(kind=Approvers.Kind.ANYONE)


NOON = datetime.now(UTC)
CHAT = Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")
STAGED = PEOPLE.model_copy(update={"then": (Approvers(kind=Approvers.Kind.PEOPLE, people=(CAT,)),)})
THREE = Approvers(kind=Approvers.Kind.PEOPLE, people=(ANN, BOB, CAT), threshold=2)
TWO_TO_REJECT = THREE.model_copy(update={"rejections": 2})
SEALED = Report(kind=ReportKind.EXECUTED, sealed=True, content_sha256="r")


def approval(group: Approvers, *said: Decision, escalates_to: Identity | None = None) -> Planned:
    """An approval of which some have said something."""
    plan = policies.plan(
        requester=ASKER,
        approvers=group,
        deadline=NOON + timedelta(hours=1),
        escalate_at=NOON if escalates_to else None,
        escalate_to=(escalates_to,) if escalates_to else (),
    )
    found = core.open_with(Unplanned(request=policies.request(plan)), plan, NOON)
    for decision in said:
        found = core.decide(found, decision, NOON)
        assert found.notes.judged[-1].verdict is VerdictKind.ACCEPTED
    return core.call_others(found, NOON)


def says(actor: Identity, kind: str = "approve", to: Identity | None = None) -> Decision:
    return Decision(
        approval_id="a",
        kind=DecisionKind(kind),
        payload_sha256=policies.plan().payload_sha256,
        actor=actor,
        event_id=f"{kind}:{actor}",
        delegate_to=to,
    )


def executing(found: Planned) -> Planned:
    return core.begin(found)


def reviewing(found: Planned) -> Planned:
    return core.report(core.begin(found), SEALED, NOON)[0]


@pytest.mark.parametrize(
    ("found", "person", "expected"),
    [
        (approval(PEOPLE), ANN, True),
        (approval(PEOPLE), Identity(open_id="ou_ann"), True),  # the tenant that is meant where none is named
        (approval(PEOPLE), Identity(open_id="ou_ann", tenant_key="other"), False),
        (approval(PEOPLE), CAT, False),
        (approval(PEOPLE, says(ANN)), ANN, False),
        (approval(PEOPLE, says(ANN)), BOB, True),
        (approval(PEOPLE, says(ANN)), Identity(union_id="on_x", tenant_key="t"), False),
        (approval(THREE, says(ANN)), ANN, False),  # two of three must approve, and one has
        (approval(THREE, says(ANN)), BOB, True),
        (approval(THREE, says(ANN)), CAT, True),
        (approval(THREE, says(BOB, "delegate", ASKER)), BOB, False),
        (approval(THREE, says(BOB, "delegate", ASKER)), ASKER, True),
        (approval(TWO_TO_REJECT, says(ANN, "reject")), ANN, False),
        (approval(TWO_TO_REJECT, says(ANN, "reject")), BOB, True),
        (approval(PEOPLE, says(ANN, "delegate", CAT)), ANN, False),
        (approval(PEOPLE, says(ANN, "delegate", CAT)), CAT, True),
        (approval(PEOPLE, escalates_to=CAT), CAT, True),
        (approval(PEOPLE, escalates_to=CAT), ANN, True),
        (approval(STAGED, says(ANN)), CAT, False),
        (approval(STAGED, says(ANN), says(BOB)), CAT, True),
        (approval(STAGED, says(ANN), says(BOB)), ANN, False),
        (approval(ANYONE), CAT, True),
        (approval(ANYONE.model_copy(update={"exclude_requester": True})), ASKER, False),
        (approval(CHAT), CAT, True),
        (approval(CHAT), Identity(open_id="x", tenant_key="other"), False),
        (approval(Approvers()), ASKER, True),
        (executing(approval(Approvers(), says(ASKER))), ASKER, False),
        (core.close(approval(Approvers(), says(ASKER))), ASKER, False),
        (approval(Approvers(), says(ASKER)), ASKER, False),  # it is about to run
        (reviewing(approval(Approvers(), says(ASKER))), ASKER, True),
        (reviewing(approval(PEOPLE, says(ANN), says(BOB))), ANN, True),
        (reviewing(approval(PEOPLE, says(ANN), says(BOB))), ASKER, False),
    ],
)
def test_it_waits_for_whose_turn_it_is_and_who_has_not_decided(
    found: Planned, person: Identity, expected: bool
) -> None:
    assert core.state(found).awaits(person) is expected


@pytest.mark.parametrize(
    ("found", "person", "expected"),
    [
        (approval(CHAT), ANN, ("oc_1",)),
        (approval(CHAT, escalates_to=ANN), ANN, ()),  # who was called in needs to belong to no chat
        (approval(PEOPLE), ANN, ()),
        (approval(ANYONE), ANN, ()),
    ],
)
def test_of_a_chat_one_must_be_a_member(found: Planned, person: Identity, expected: tuple[str, ...]) -> None:
    awaited = core.awaited(found)
    assert awaited is not None
    assert awaited.chats_to_ask(person) == expected


async def test_the_inbox_skips_what_has_ended_and_says_if_nobody_answers() -> None:
    class Pages:
        async def waiting(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[Waiting, ...], int | None]:
            found = {name: Waiting(approval_id=name, tool="t", requester=ASKER) for name in "abcd"}
            return ((found["a"], found["b"]), 2) if offset == 0 else ((found["c"], found["d"]), None)

    reader = cast("LedgerReader", Pages())

    async def ask(approval_id: str) -> State:
        waits = core.state(approval(PEOPLE))
        answers: dict[str, State | Exception] = {"a": ApprovalNotFound("a"), "b": Unavailable("no"), "c": waits}
        found = answers[approval_id]
        if isinstance(found, Exception):
            raise found
        return found

    async def silent(approval_id: str) -> State:
        raise Unavailable("no")

    inbox = TemporalLedger(reader, ask).inbox(ANN, lambda each: each.approval_id != "d")
    assert [found.approvers async for found in inbox] == [PEOPLE]
    with pytest.raises(Unavailable, match="no approvals worker"):
        await anext(TemporalLedger(reader, silent).inbox(ANN))


# What an agent reads


EDIT = Edit(
    by=ANN,
    proposed_payload='{"arguments":{"n":1},"files":{},"tool":"t"}',
    proposed_payload_sha256="1",
    payload='{"arguments":{"n":2},"files":{},"tool":"t"}',
    payload_sha256="2",
)


def outcome(status: str, **more: Any) -> Outcome:
    return Outcome(approval_id="a", status=Status(status), **more)


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [
        (outcome("executed", withheld=True), "The call ran; its result is withheld."),
        (
            outcome("executed", withheld=True, withheld_reason="private", edit=EDIT),
            "The call ran; its result is withheld. Reason: private "
            'A person changed the arguments before approving; they were: {"n": 2}',
        ),
        (outcome("failed", withheld=True), "This call failed; what it reported is withheld."),
        (outcome("rejected", decided_by=ANN, reason="no"), "A person rejected this call. It did not run. Reason: no"),
        (
            outcome("rejected", reason="frozen for audit", rule=Rule(name="stop", policy_sha256="p")),
            "The rules of this installation do not let this call run. It did not run. Reason: frozen for audit",
        ),
        (
            outcome("rejected", decided_by=ANN, approved_by=(ANN,), reason="stricter now"),
            "The rules of this installation do not let this call run. It did not run. Reason: stricter now",
        ),
        (
            outcome("rejected", decided_by=ANN, grant_id="g"),
            "A person rejected exactly this call before, and that is remembered. It did not run.",
        ),
        (
            outcome("failed", edit=EDIT),
            'This call failed. A person changed the arguments before approving; they were: {"n": 2}',
        ),
        (outcome("expired", edit=EDIT), "Nobody decided in time. The call did not run."),
    ],
)
def test_each_ending_has_its_sentence_also_after_its_way_over_http(ended: Outcome, sentence: str) -> None:
    assert with_sentence(ended, {}).content == sentence
    arrived = Ending.model_validate_json(Ending.of(ended).model_dump_json()).outcome()
    assert arrived.content is None
    assert with_sentence(arrived, {}).content == sentence


def test_what_the_tool_said_stays_its_own_and_a_withheld_result_never_passes() -> None:
    assert with_sentence(outcome("executed", content={"n": 1}, edit=EDIT), {}).content == {"n": 1}
    leaking = outcome(
        "executed", withheld=True, content="private", content_sha256="c", content_bytes=9, authorize_url="https://x"
    )
    for told in (with_sentence(leaking, {Status.EXECUTED: "mine"}), Ending.of(leaking)):
        assert "private" not in told.model_dump_json()
        assert (told.content_sha256, told.content_bytes, told.authorize_url) == (None, None, None)


async def test_a_withheld_result_is_not_asked_for_again() -> None:
    class Door:
        async def outcome(self, _: str) -> Outcome:
            return outcome("executed", withheld=True, truncated=True)

    handle = ApprovalHandle(cast("Any", Door()), "a", {})
    assert await handle.content() == "The call ran; its result is withheld."


async def test_a_door_that_hands_over_decisions_gets_them_whole() -> None:
    class Door:
        def __init__(self) -> None:
            self.said: list[Any] = []

        async def submit(self, _: str, decision: Any, **__: Any) -> None:
            self.said.append(decision)

    door = Door()
    handle = ApprovalHandle(cast("Any", door), "a", {})
    await handle.decide("edit", actor=ANN, payload_sha256="h", arguments={"n": 2}, remember="tool")
    await handle.decide("delegate", actor=ANN, payload_sha256="h", delegate_to=BOB)
    await handle.decide("edit", actor=ANN, payload_sha256="h")
    edit, delegate, empty = door.said
    assert (edit.kind, edit.arguments, edit.remember) == ("edit", {"n": 2}, "tool")
    assert (delegate.kind, delegate.delegate_to) == ("delegate", BOB)
    assert (empty.kind, empty.arguments) == ("edit", None)


def test_a_delegate_is_found_where_a_company_is_set() -> None:
    """Whoever asks is told in the company that is meant, as delegates are: else no inbox would know them."""
    found = core.state(
        approval(Approvers(), says(Identity(open_id="ou_asker"), "delegate", Identity(open_id="ou_ann")))
    )
    assert found.awaits(Identity(open_id="ou_ann"))
