"""What each click is told, and that a refused click changes nothing."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assent import ApprovalHandle, Assent, Decision, Identity, names
from assent.types import DecisionKind, Stage, Surface, Verdict, VerdictKind
from tests.conftest import ME, Service
from tests.support import servers
from tests.support.tools import HAN_MEIMEI, LI_LEI, marks
from tests.support.waiting import until

PATIENCE = timedelta(minutes=1)
"""Nobody is told "received" here, however busy the machine is."""
STRANGER = Identity(open_id="ou_stranger")


async def pending(
    service: Service, tmp_path: Path, tool: str = "mark", ttl: timedelta = timedelta(minutes=5)
) -> ApprovalHandle:
    handle = await service.gate.request(tool, {"path": str(tmp_path / "marks")}, requester=ME, ttl=ttl)
    assert (await handle.state()).phase == "pending"
    return handle


def decision(approval_id: str, kind: str, actor: Identity, payload_sha256: str) -> Decision:
    return Decision(
        approval_id=approval_id,
        kind=DecisionKind(kind),
        payload_sha256=payload_sha256,
        actor=actor,
        event_id=f"evt_{actor}",
        delivery_id=f"delivery_{actor}",
    )


async def shown_hash(handle: ApprovalHandle) -> str:
    payload_sha256 = (await handle.state()).payload_sha256
    assert payload_sha256 is not None
    return payload_sha256


async def test_first_decision_is_accepted_and_named(service: Service, tmp_path: Path) -> None:
    handle = await pending(service, tmp_path)
    verdict = await handle.decide("approve", actor=ME, payload_sha256=await shown_hash(handle))
    assert (verdict.kind, verdict.decided_by) == ("accepted", ME)
    await handle.outcome()
    decisions = (await handle.state()).decisions
    assert [(judged.verdict.value, judged.actor) for judged in decisions] == [("accepted", ME)]


@pytest.mark.parametrize("when", ["at once", "after the end"])
async def test_same_event_again_is_a_duplicate(service: Service, tmp_path: Path, when: str) -> None:
    handle = await pending(service, tmp_path)
    digest = await shown_hash(handle)
    first = await handle.decide("approve", actor=ME, payload_sha256=digest, event_id="evt_1")
    if when == "after the end":
        await handle.outcome()
    again = await handle.decide("approve", actor=ME, payload_sha256=digest, event_id="evt_1")
    contrary = await handle.decide("reject", actor=ME, payload_sha256=digest, event_id="evt_1")
    assert [first.kind, again.kind, contrary.kind] == ["accepted", "duplicate", "duplicate"]
    assert again.decided_by == ME
    assert (await handle.outcome()).status == "executed"
    assert marks(tmp_path / "marks") == 1


@pytest.mark.parametrize("forged", [None, "0" * 64, "not a hash", "another call's"])
async def test_decision_on_another_payload_is_tampered(service: Service, tmp_path: Path, forged: str | None) -> None:
    handle = await pending(service, tmp_path)
    if forged == "another call's":
        forged = await shown_hash(await pending(service, tmp_path, "mark.other"))
    verdict = await handle.decide("approve", actor=ME, payload_sha256=forged)
    assert verdict.kind == "tampered"
    assert (await handle.state()).phase == "pending"
    assert (await service.decided(handle, "reject")).status == "rejected"
    assert await service.events(handle.id) == ["write_request", "tamper", "confirm"]
    assert marks(tmp_path / "marks") == 0


def made_on(handle: ApprovalHandle, digest: str, **changed: object) -> Decision:
    honest = Decision(
        approval_id=handle.id,
        kind=DecisionKind.APPROVE,
        payload_sha256=digest,
        actor=ME,
        event_id="evt_forged",
        delivery_id="d1",
        received_at=datetime.now(UTC),
        surface=Surface.CLIENT,
    )
    return honest.model_copy(update=changed)


@pytest.mark.parametrize("changed", ["approval", "stage", "message"])
async def test_decision_about_something_else_is_tampered(service: Service, tmp_path: Path, changed: str) -> None:
    handle, other = await pending(service, tmp_path), await pending(service, tmp_path)
    foreign: dict[str, dict[str, object]] = {
        "approval": {"approval_id": other.id},
        "stage": {"stage": Stage.RESULT},
        "message": {"message_id": "om_foreign"},
    }
    decision = made_on(handle, await shown_hash(handle), **foreign[changed])
    assert (await handle.submit(decision)).kind == "tampered"
    assert (await handle.state()).phase == "pending"
    await handle.cancel()
    assert (await handle.outcome()).status == "cancelled"


async def test_a_hash_recorded_for_another_payload_is_tampered_after_the_end_too(
    service: Service, tmp_path: Path
) -> None:
    handle = await pending(service, tmp_path)
    await service.decided(handle)
    late = await handle.decide("approve", actor=ME, payload_sha256="0" * 64)
    assert late.kind == "tampered"
    assert await service.events(handle.id) == ["write_request", "confirm", "execute", "tamper"]
    assert await service.ledger.verify() == []


async def test_second_click_is_told_who_decided(service: Service, tmp_path: Path) -> None:
    handle = await pending(service, tmp_path, "open_mark")
    digest = await shown_hash(handle)
    await handle.decide("approve", actor=LI_LEI, payload_sha256=digest)
    await handle.outcome()
    late = await handle.decide("reject", actor=HAN_MEIMEI, payload_sha256=digest)
    assert (late.kind, late.decided_by, late.status) == ("already_decided", LI_LEI, "executed")


async def test_click_on_a_superseded_approval_is_told_so(service: Service, tmp_path: Path) -> None:
    thread = str(tmp_path)
    old = await service.gate.request("mark", {"path": "x"}, requester=ME, thread_id=thread)
    digest = await shown_hash(old)
    await service.gate.request("mark", {"path": "y"}, requester=ME, thread_id=thread, when_pending="supersede")
    await old.outcome()
    assert (await old.decide("approve", actor=ME, payload_sha256=digest)).kind == "superseded"


async def test_click_on_an_expired_approval_is_told_so(service: Service, tmp_path: Path) -> None:
    handle = await pending(service, tmp_path, ttl=timedelta(seconds=5))
    digest = await shown_hash(handle)
    await handle.outcome()
    verdict = await handle.decide("approve", actor=ME, payload_sha256=digest)
    assert (verdict.kind, verdict.status) == ("expired", "expired")


async def test_click_on_a_withdrawn_approval_decides_nothing(service: Service, tmp_path: Path) -> None:
    handle = await pending(service, tmp_path)
    digest = await shown_hash(handle)
    await handle.cancel("changed my mind", actor=ME)
    await handle.outcome()
    verdict = await handle.decide("approve", actor=ME, payload_sha256=digest)
    assert (verdict.kind, verdict.status, verdict.decided_by) == ("already_decided", "cancelled", ME)


async def test_click_on_an_unknown_approval_is_missing(service: Service) -> None:
    verdict = await service.gate.approval("never-asked").decide("approve", actor=ME, payload_sha256="0" * 64)
    assert verdict == Verdict(kind=VerdictKind.MISSING)


async def test_click_is_received_while_no_worker_runs(temporal_address: str, namespaces: Iterator[str]) -> None:
    client = await servers.connect(temporal_address, next(namespaces))
    gate = await Assent.connect(client=client)
    handle = await gate.request("mark", {"path": "x"}, requester=ME)
    decision = Decision(
        approval_id=handle.id, kind=DecisionKind.APPROVE, payload_sha256="0" * 64, actor=ME, event_id="click"
    )
    verdict = await handle.submit(decision, answer_within=timedelta(seconds=1))
    assert verdict.kind == "received"


@pytest.mark.parametrize("after_the_end", [False, True])
async def test_stranger_is_forbidden_and_learns_nothing(service: Service, tmp_path: Path, after_the_end: bool) -> None:
    handle = await pending(service, tmp_path)
    digest = await shown_hash(handle)
    if after_the_end:
        await service.decided(handle)
    verdict = await handle.decide("reject", actor=STRANGER, payload_sha256=digest)
    assert verdict == Verdict(kind=VerdictKind.FORBIDDEN)
    assert "forbid" in await events_with_forbid(service, handle)


async def events_with_forbid(service: Service, handle: ApprovalHandle) -> list[str]:
    async def written() -> list[str] | None:
        events = await service.events(handle.id)
        return events if "forbid" in events else None

    return await until(written)


async def test_people_are_matched_by_any_shared_identity(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "marks"), "secret": "s3cret"}
    handle = await service.gate.request("guarded_mark", arguments, requester=ME)
    digest = await shown_hash(handle)
    other_tenant = Identity(open_id="ou_lilei", tenant_key="another")
    for outsider in (ME, STRANGER, other_tenant):
        assert (await handle.decide("approve", actor=outsider, payload_sha256=digest)).kind == "forbidden"
    same_person = Identity(union_id="on_lilei", user_id="only here")
    assert (await service.decided(handle, actor=same_person)).decided_by == same_person


async def test_of_fifty_decisions_at_once_one_wins_and_all_others_are_told_who(
    service: Service, tmp_path: Path
) -> None:
    handle = await pending(service, tmp_path, "open_mark")
    digest = await shown_hash(handle)
    people = [Identity(open_id=f"ou_{n}") for n in range(50)]
    verdicts = await asyncio.gather(
        *(
            handle.submit(decision(handle.id, "approve" if n % 2 else "reject", person, digest), answer_within=PATIENCE)
            for n, person in enumerate(people)
        )
    )
    outcome = await handle.outcome()
    kinds = collections.Counter(verdict.kind.value for verdict in verdicts)
    assert kinds == {"accepted": 1, "already_decided": 49}
    (winner,) = [person for person, verdict in zip(people, verdicts, strict=True) if verdict.kind == "accepted"]
    assert {verdict.decided_by for verdict in verdicts} == {winner} == {outcome.decided_by}
    approved = people.index(winner) % 2 == 1
    assert outcome.status == ("executed" if approved else "rejected")
    assert marks(tmp_path / "marks") == (1 if approved else 0)


async def test_early_decisions_wait_for_the_plan(service: Service, tmp_path: Path) -> None:
    """Signalled in the same breath as the request, before any worker can have prepared it."""
    path = str(tmp_path / "marks")
    known = await service.gate.request("open_mark", {"path": path}, requester=ME)
    digest = await shown_hash(known)
    await known.cancel()
    handle = service.gate.approval(f"early-{tmp_path.name}-{service.client.namespace}")
    asking = asyncio.create_task(service.gate.request("open_mark", {"path": path}, requester=ME, approval_id=handle.id))
    workflow = service.client.get_workflow_handle(names.approval_workflow(handle.id))
    while True:
        verdict = await handle.decide("approve", actor=ME, payload_sha256=digest, event_id="early")
        if verdict.kind != "missing":
            break
    await asking
    assert (await handle.outcome()).status == "executed"
    assert (await workflow.describe()).id == f"approval/{handle.id}"
    assert marks(path) == 1
