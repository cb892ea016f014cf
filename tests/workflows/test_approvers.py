"""Who may say yes, how many of them, and in which order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from assent import Identity
from tests.conftest import ME, Service
from tests.support.deciding import STRANGER, said
from tests.support.tools import CHIEFS, PEOPLE, marks


async def test_three_must_agree_and_nobody_counts_twice(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_three", {"path": str(tmp_path / "m")}, requester=PEOPLE[4])
    kinds = [(await said(handle, PEOPLE[n])).kind for n in (0, 0, 1, 0)]
    assert kinds == ["accepted", "already_decided", "accepted", "already_decided"]
    state = await handle.state()
    assert state.progress is not None
    assert (state.phase, state.progress.approved) == ("pending", 2)
    assert (await said(handle, PEOPLE[4])).kind == "forbidden"  # who asked is one of the five, and does not count
    assert (await said(handle, STRANGER)).kind == "forbidden"
    assert marks(tmp_path / "m") == 0
    last = await said(handle, PEOPLE[2])
    assert (last.kind, last.needed) == ("accepted", 3)
    outcome = await handle.outcome()
    assert (outcome.status, outcome.decided_by) == ("executed", PEOPLE[2])
    assert outcome.approved_by == PEOPLE[:3]
    assert marks(tmp_path / "m") == 1
    assert (await service.events(handle.id)).count("confirm") == 3
    assert (await service.events(handle.id)).count("forbid") == 2


async def test_stages_follow_one_another(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_stages", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await said(handle, CHIEFS[0])).kind == "forbidden"
    assert [(await said(handle, person)).kind for person in PEOPLE[:2]] == ["accepted", "accepted"]
    state = await handle.state()
    assert state.progress is not None
    assert (state.progress.stage, state.progress.stages, state.progress.approved) == (2, 2, 0)
    assert state.progress.approvers.people == CHIEFS
    assert (await said(handle, PEOPLE[3])).kind == "forbidden"  # their stage is over
    assert marks(tmp_path / "m") == 0
    assert (await said(handle, CHIEFS[1])).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.approved_by, marks(tmp_path / "m")) == ("executed", (*PEOPLE[:2], CHIEFS[1]), 1)


async def test_as_many_rejections_reject_as_the_rule_says(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_stages", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await said(handle, PEOPLE[0])).kind == "accepted"
    assert (await said(handle, PEOPLE[0], "reject", reason="on second thoughts")).kind == "accepted"
    state = await handle.state()
    assert state.progress is not None
    assert (state.phase, state.progress.approved) == ("pending", 0)
    assert (await said(handle, PEOPLE[0], "reject")).kind == "already_decided"
    assert (await said(handle, PEOPLE[1], "reject", reason="no")).kind == "accepted"
    outcome = await handle.outcome()
    assert (outcome.status, outcome.reason, marks(tmp_path / "m")) == ("rejected", "no", 0)


async def test_who_thinks_better_of_a_rejection_approves_instead(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_stages", {"path": str(tmp_path / "m")}, requester=ME)
    for person, kind in ((PEOPLE[0], "reject"), (PEOPLE[0], "approve"), (PEOPLE[1], "reject"), (PEOPLE[2], "approve")):
        assert (await said(handle, person, kind)).kind == "accepted"
    assert (await said(handle, CHIEFS[0], "reject")).kind == "accepted"  # in their stage one is enough
    assert ((await handle.outcome()).status, marks(tmp_path / "m")) == ("rejected", 0)


async def test_one_rejection_rejects_where_the_rule_says_nothing(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_three", {"path": str(tmp_path / "m")}, requester=ME)
    await said(handle, PEOPLE[0])
    await said(handle, PEOPLE[1], "reject")
    assert (await handle.outcome()).status == "rejected"
    assert marks(tmp_path / "m") == 0


async def test_an_approver_leaves_it_to_somebody_else(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_three", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await said(handle, STRANGER, "delegate", delegate_to=CHIEFS[0])).kind == "forbidden"
    for nobody in (None, PEOPLE[0], ME):  # oneself, or who asked and is excluded
        assert (await said(handle, PEOPLE[0], "delegate", delegate_to=nobody)).kind == "invalid"
    assert (await said(handle, PEOPLE[0], "delegate", delegate_to=CHIEFS[0])).kind == "accepted"
    assert (await said(handle, PEOPLE[0])).kind == "forbidden"
    kinds = [(await said(handle, person)).kind for person in (CHIEFS[0], PEOPLE[1], PEOPLE[2])]
    assert kinds == ["accepted"] * 3
    outcome = await handle.outcome()
    assert (outcome.status, outcome.approved_by) == ("executed", (CHIEFS[0], *PEOPLE[1:3]))
    entry = next(each for each in await service.ledger.entries(handle.id) if each.event == "delegate")
    assert (entry.actor, entry.delegate_to) == (PEOPLE[0], CHIEFS[0])


@pytest.mark.parametrize("seed", [1, 2])
async def test_fifty_clicks_at_once_never_fall_short_and_never_run_it_twice(
    service: Service, tmp_path: Path, seed: int
) -> None:
    """Ten people, some of them strangers, press fifty times at once, some presses sent twice."""
    chance = random.Random(seed)
    people = [*PEOPLE, *CHIEFS, STRANGER, ME, Identity(open_id="ou_p0", union_id="on_p0")]
    handle = await service.gate.request("by_stages", {"path": str(tmp_path / "m")}, requester=ME)
    sha = (await handle.state()).payload_sha256
    clicks = [(chance.choice(people), f"event-{handle.id}-{chance.randrange(40)}") for _ in range(50)]

    async def press(actor: Identity, event_id: str) -> str:
        return str((await handle.decide("approve", actor=actor, payload_sha256=sha, event_id=event_id)).kind)

    kinds = await asyncio.gather(*(press(*click) for click in clicks))
    assert set(kinds) <= {"accepted", "forbidden", "already_decided", "duplicate", "received"}
    for person in (*PEOPLE[:3], *CHIEFS):  # whoever is still needed
        if (await handle.state()).phase == "pending":
            await said(handle, person)
    outcome = await handle.outcome()
    assert (outcome.status, marks(tmp_path / "m")) == ("executed", 1)
    first, chiefs = outcome.approved_by[:-1], outcome.approved_by[-1]
    assert len(first) == 2
    assert not first[0].is_same_person(first[1])
    assert all(any(person.is_same_person(one) for one in PEOPLE) for person in first)
    assert chiefs in CHIEFS


TWO_OF_ANYONE = """
[[rule]]
name = "two"
tools = ["open_mark"]
approvers = {who = "anyone", threshold = 2, exclude_requester = true}
"""


async def test_one_person_under_two_ids_that_nobody_can_tell_apart_counts_once(
    service: Service, tmp_path: Path
) -> None:
    async with service.policy(TWO_OF_ANYONE):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await said(handle, Identity(open_id="ou_1"))).kind == "accepted"
        assert (await said(handle, Identity(union_id="on_1"))).kind != "accepted"
        assert marks(tmp_path / "m") == 0


async def test_who_asked_under_one_id_does_not_approve_under_another(service: Service, tmp_path: Path) -> None:
    async with service.policy(TWO_OF_ANYONE):
        asked_by = Identity(user_id="lilei")
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=asked_by)
        same_person = Identity(open_id="ou_lilei", union_id="on_lilei")  # as Feishu says it without the user_id scope
        assert (await said(handle, same_person)).kind == "forbidden"
