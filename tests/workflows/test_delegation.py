"""Passing a decision on, and taking one back: no stage is left without its own approval."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ME, Service
from tests.support.deciding import STRANGER, said
from tests.support.tools import CHIEFS, PEOPLE, marks


async def test_whom_a_first_approver_names_decides_nothing_in_the_next_stage(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("by_stages", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await said(handle, PEOPLE[0], "delegate", delegate_to=STRANGER)).kind == "accepted"
    for person in PEOPLE[1:3]:
        assert (await said(handle, person)).kind == "accepted"
    assert (await said(handle, STRANGER)).kind == "forbidden"  # it is the chiefs' turn
    assert marks(tmp_path / "m") == 0


TWO_STAGES = """
[[rule]]
name = "two stages"
tools = ["open_mark"]

[[rule.approvers]]
people = ["open_id:ou_p0", "open_id:ou_p1"]
rejections = 2

[[rule.approvers]]
people = ["open_id:ou_p0", "open_id:ou_c0"]
rejections = 2
"""


async def test_delegating_after_approving_does_not_leave_a_stage_without_approval(
    service: Service, tmp_path: Path
) -> None:
    async with service.policy(TWO_STAGES):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await said(handle, PEOPLE[0])).kind == "accepted"
        await said(handle, PEOPLE[0], "delegate", delegate_to=STRANGER)
        await said(handle, STRANGER)
        assert (await handle.state()).phase == "pending"
        assert marks(tmp_path / "m") == 0


async def test_rejecting_after_approving_does_not_leave_a_stage_without_approval(
    service: Service, tmp_path: Path
) -> None:
    async with service.policy(TWO_STAGES):
        handle = await service.gate.request("open_mark", {"path": str(tmp_path / "m")}, requester=ME)
        assert (await said(handle, PEOPLE[0])).kind == "accepted"
        await said(handle, PEOPLE[0], "reject")
        await said(handle, CHIEFS[0])
        assert (await handle.state()).phase == "pending"
        assert marks(tmp_path / "m") == 0


LARGE = """
[[rule]]
name = "large"
tools = ["mark"]
when = "arguments.note == 'large'"
approvers = {people = ["open_id:ou_c0"]}
"""


async def test_a_delegate_does_not_edit_a_call_past_those_who_must_approve_it(service: Service, tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    async with service.policy(LARGE):
        handle = await service.gate.request("mark", {"path": path}, requester=ME)
        assert (await said(handle, ME, "delegate", delegate_to=STRANGER)).kind == "accepted"
        edited = await said(handle, STRANGER, "edit", arguments={"path": path, "note": "large"})
        assert edited.kind == "accepted"
        state = await handle.state()
        assert (state.phase, state.status) == ("pending", None)  # the chief has not been asked
        assert marks(tmp_path / "m") == 0
