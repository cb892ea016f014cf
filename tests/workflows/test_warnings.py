"""What a tool says of its own calls to whoever decides them."""

from __future__ import annotations

from pathlib import Path

from activities.resolving import UNSAID
from tests.conftest import ME, Service


async def test_a_function_says_what_to_mind_and_an_edit_asks_it_again(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "amount": 11}
    handle = await service.gate.request("warned_mark", arguments, requester=ME)
    state = await handle.state()
    assert state.warnings == ("11 is much, and ••• is known.",)
    edited = {**arguments, "amount": 12, "secret": "swordfish"}
    verdict = await handle.decide("edit", actor=ME, payload_sha256=state.payload_sha256, arguments=edited)
    assert verdict.kind in ("accepted", "received")
    await handle.outcome()
    assert (await handle.state()).warnings == ("12 is much, and ••• is known.",)


async def test_rules_and_tools_warn_together(service: Service, tmp_path: Path) -> None:
    rule = """
[[rule]]
name = "solemn"
tools = ["solemn_mark"]
warnings = [{ text = "The operator says so too." }]
"""
    async with service.policy(rule):
        handle = await service.gate.request("solemn_mark", {"path": str(tmp_path / "m")}, requester=ME)
        state = await handle.state()
    assert state.warnings == ("It cannot be taken back.", "The operator says so too.")
    await handle.cancel()


async def test_a_function_that_does_not_answer_is_what_to_mind(service: Service, tmp_path: Path) -> None:
    arguments = {"path": str(tmp_path / "m"), "amount": 13}
    handle = await service.gate.request("warned_mark", arguments, requester=ME)
    assert (await handle.state()).warnings == (UNSAID,)
    assert (await service.decided(handle)).status == "executed"


async def test_a_harmless_call_has_no_warning(service: Service, tmp_path: Path) -> None:
    handle = await service.gate.request("warned_mark", {"path": str(tmp_path / "m")}, requester=ME)
    assert (await handle.state()).warnings == ()
    await handle.cancel()
