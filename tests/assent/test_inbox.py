"""What waits for whom, and what an agent reads of decisions: rules without a service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from assent import (
    ApprovalHandle,
    ApprovalNotFound,
    Approvers,
    Edit,
    Identity,
    Outcome,
    Phase,
    State,
    Status,
    Unavailable,
)
from assent.contracts import DecisionKind, Judged, Progress, Rule, VerdictKind
from assent.inbox import awaits
from assent.reader import LedgerReader
from assent.temporal_ledger import TemporalLedger
from assent.texts import with_sentence
from assent.wire import Ending

ASKER, ANN, BOB, CAT = (Identity(open_id=f"ou_{name}", tenant_key="t") for name in ("asker", "ann", "bob", "cat"))
PEOPLE = Approvers(kind=Approvers.Kind.PEOPLE, people=(ANN, BOB), threshold=2)
ANYONE = Approvers(kind=Approvers.Kind.ANYONE)


def judged(actor: Identity, kind: str = "approve", sha: str = "h") -> Judged:
    return Judged(
        event_id=str(actor),
        delivery_id=None,
        kind=DecisionKind(kind),
        actor=actor,
        verdict=VerdictKind.ACCEPTED,
        received_at=datetime.now(UTC),
        payload_sha256=sha,
    )


def state(group: Approvers, **more: Any) -> State:
    progress = Progress(approvers=group, **more.pop("progress", {}))
    known = {"approval_id": "a", "phase": Phase.PENDING, "tool": "t", "requester": ASKER, "payload_sha256": "h"}
    return State(**{**known, "approvers": group, "progress": progress, **more})


@pytest.mark.parametrize(
    ("found", "person", "expected"),
    [
        (state(PEOPLE), ANN, True),
        (state(PEOPLE), Identity(open_id="ou_ann"), True),  # the tenant that is meant where none is named
        (state(PEOPLE), Identity(open_id="ou_ann", tenant_key="other"), False),
        (state(PEOPLE), CAT, False),
        (state(PEOPLE, progress={"approvals": (judged(ANN),)}), ANN, False),
        (state(PEOPLE, progress={"approvals": (judged(ANN),)}), BOB, True),
        (state(PEOPLE, decisions=(judged(ANN, "reject"),)), ANN, False),
        (state(PEOPLE, decisions=(judged(ANN, "reject", "before the edit"),)), ANN, True),
        (state(PEOPLE, progress={"delegations": ((ANN, CAT),)}), ANN, False),
        (state(PEOPLE, progress={"delegations": ((ANN, CAT),)}), CAT, True),
        (state(ANYONE), CAT, True),
        (state(ANYONE.model_copy(update={"exclude_requester": True})), ASKER, False),
        (state(Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")), CAT, True),
        (state(Approvers(kind=Approvers.Kind.CHAT, chat_id="oc_1")), Identity(open_id="x", tenant_key="other"), False),
        (state(Approvers()), ASKER, True),
        (state(Approvers(), phase=Phase.EXECUTING), ASKER, False),
        (state(Approvers(), phase=Phase.CLOSED), ASKER, False),
        (state(Approvers(), phase=Phase.REVIEWING, result_sha256="r"), ASKER, True),
        (state(Approvers(), phase=Phase.REVIEWING), ASKER, False),
        (state(PEOPLE, phase=Phase.REVIEWING, result_sha256="r", progress={"approvals": (judged(ANN),)}), ANN, True),
        (state(PEOPLE, phase=Phase.REVIEWING, result_sha256="r"), ASKER, False),
        (state(PEOPLE).model_copy(update={"progress": None}), ANN, True),  # asked before progress was counted
    ],
)
def test_it_waits_for_whose_turn_it_is_and_who_has_not_decided(found: State, person: Identity, expected: bool) -> None:
    assert awaits(found, person) is expected


async def test_the_inbox_skips_what_has_ended_and_says_if_nobody_answers() -> None:
    class Pages:
        async def waiting(self, actor: Identity, offset: int, limit: int) -> tuple[tuple[str, ...], int | None]:
            return (("a", "b"), 2) if offset == 0 else (("c",), None)

    reader = cast("LedgerReader", Pages())

    async def ask(approval_id: str) -> State:
        answers: dict[str, State | Exception] = {"a": ApprovalNotFound("a"), "b": Unavailable("no"), "c": state(PEOPLE)}
        found = answers[approval_id]
        if isinstance(found, Exception):
            raise found
        return found

    async def silent(approval_id: str) -> State:
        raise Unavailable("no")

    assert [found.approvers async for found in TemporalLedger(reader, ask).inbox(ANN)] == [PEOPLE]
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
    asker, ann = (Identity(open_id=name, tenant_key="tenant_1") for name in ("asker", "ann"))
    found = state(Approvers(), progress={"delegations": ((asker, ann),)}).model_copy(update={"requester": asker})
    assert awaits(found, Identity(open_id="ann"))
