"""An approval that has its plan, as it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent.contracts.plan import Plan
    from assent.core import Planned

Said = ParamSpec("Said")


class OpenApproval:
    """The one thing that changes: every change is a function of the core."""

    def __init__(self, state: Planned) -> None:
        self.state = state

    @property
    def plan(self) -> Plan:
        return self.state.plan

    def becomes(
        self, happened: Callable[Concatenate[Planned, Said], Planned], *said: Said.args, **more: Said.kwargs
    ) -> None:
        """Something happened."""
        self.state = happened(self.state, *said, **more)
