"""How a tool's body ended, whatever it raised."""

from __future__ import annotations

import pytest

from activities.bodies import Body, Raised
from assent import ToolOutcome, ToolResult
from assent.hitl import HitlAborted, HitlCancelled, HitlControlException, HitlDetached, HitlTimedOut


@pytest.mark.parametrize("on_loop", [True, False], ids=["on the loop", "in a thread"])
@pytest.mark.parametrize(
    ("control", "stopped"),
    [
        (HitlCancelled("not now"), True),
        (HitlTimedOut(5), True),
        (HitlAborted("not now"), True),
        (HitlDetached(), False),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_tool_that_nobody_answered_stopped_and_did_not_crash(
    control: HitlControlException, stopped: bool, on_loop: bool
) -> None:
    async def asks() -> None:
        raise control

    def asks_in_a_thread() -> None:
        raise control

    ended = await Body(asks if on_loop else asks_in_a_thread).end()
    if stopped:
        assert isinstance(ended, ToolResult)
        assert ended.outcome is ToolOutcome.CANCELLED
        assert str(control) in ended.content
    else:
        assert isinstance(ended, Raised)
