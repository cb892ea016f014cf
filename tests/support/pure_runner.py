"""A runner that sees whether workflow code does anything but decide: reads a clock, takes a chance, looks outside."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

_CLOCKS = frozenset({"now", "utcnow", "today", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"})
_CHANCE = frozenset({"urandom", "getrandbits", "random", "getpid", "generate_time_safe"})
_OUTSIDE = frozenset(
    {"open", "print", "input", "__import__", "socket", "connect", "system", "getenv", "start_new_thread"}
)
_WATCHED = _CLOCKS | _CHANCE | _OUTSIDE
_TRUSTED = ("/temporalio/", "/linecache.py", "/tokenize.py")
"""Temporal's own code has a clock and a chance that replay; Python reads its sources to tell of an error."""


class PureRunner(UnsandboxedWorkflowRunner):
    """Runs workflows, and keeps an eye on every call into C that they make, directly or through a library."""

    def __init__(self) -> None:
        self.impure: set[str] = set()
        """What was called, and from where."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = super().create_instance(det)
        activate = instance.activate

        def watched(act: Any) -> Any:
            gc.disable()  # what others do when garbage is collected, they do at any moment
            sys.setprofile(self._watch)
            try:
                return activate(act)
            finally:
                sys.setprofile(None)
                gc.enable()

        instance.activate = watched  # type: ignore[method-assign]
        return instance

    def _watch(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call" or called.__name__ not in _WATCHED:
            return
        code = frame.f_code
        if not any(part in code.co_filename for part in _TRUSTED):
            self.impure.add(f"{called.__name__} in {code.co_qualname}, {code.co_filename}")
