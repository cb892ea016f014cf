"""`python -m tests.support.dying_worker KIND STEP ONCE`: a worker that kills itself at a step, once: of a file's way,
or of what a running program asks.

ONCE is a path: whoever makes the file there dies, and nobody after them.
"""

from __future__ import annotations

import inspect
import os
import runpy
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import activities.resolving
import activities.tools
import ledger.approvals
import ledger.pins
import ledger.shared_files
import workflows.approval
from activities.feishu.client import Feishu
from activities.opened_files import OpenedFiles
from assent.programs.process import ProgramProcess
from assent.temporal.questions import TemporalQuestions
from ledger import Ledger, LedgerFiles


@dataclass(frozen=True)
class Step:
    """Where a worker dies."""

    kind: str
    """Which worker."""
    owner: Any
    name: str
    when: str
    """before or after."""
    freezes: bool = False
    """Whether the call was begun by then, so that nobody knows how it ended."""
    about: str = ""
    """What must be among that which it is done with."""


def _steps(kind: str, owner: Any, name: str, **more: Any) -> list[Step]:
    return [Step(kind, owner, name, when, **more) for when in ("before", "after")]


_ALL = [
    *_steps("approvals", ledger.shared_files, "register"),
    *_steps("approvals", LedgerFiles, "register"),
    *_steps("approvals", Feishu, "send"),
    *_steps("approvals", LedgerFiles, "get"),
    *_steps("approvals", activities.resolving, "fetch"),
    *_steps("approvals", Feishu, "upload_image"),
    *_steps("approvals", ledger.pins, "put"),
    *_steps("approvals", LedgerFiles, "_store"),
    *_steps("approvals", ledger.pins, "pin"),
    *_steps("approvals", LedgerFiles, "keep"),
    *_steps("approvals", LedgerFiles, "describe"),
    *_steps("approvals", ledger.approvals, "register"),
    *_steps("approvals", Ledger, "register"),
    *_steps("tools", OpenedFiles, "fill"),
    *_steps("tools", OpenedFiles, "_copy"),
    Step("tools", Ledger, "begin", "before"),
    Step("tools", Ledger, "begin", "after", freezes=True),
    Step("tools", Ledger, "finish", "before", freezes=True),
    Step("tools", Ledger, "finish", "after"),
]
_ASKED = [
    *_steps("approvals", Ledger, "register_question"),
    *_steps("approvals", Ledger, "sent", about="question/"),
    *_steps("approvals", Ledger, "offer_line"),
    *_steps("approvals", Ledger, "close_line"),
    *_steps("approvals", Ledger, "conclude_question"),
    Step("tools", TemporalQuestions, "ask", "after", freezes=True),
    *_steps("tools", Ledger, "claim_line", freezes=True),
    *_steps("tools", ProgramProcess, "write", freezes=True),
    *_steps("tools", Ledger, "confirm_line", freezes=True),
    Step("tools", Ledger, "end_run", "after", freezes=True),
]


_QUESTIONED = [
    *_steps("approvals", Ledger, "register_question"),
    *_steps("approvals", Ledger, "sent", about="question/"),
    *_steps("approvals", Ledger, "conclude_question"),
    Step("tools", TemporalQuestions, "ask", "after"),
    Step("tools", TemporalQuestions, "outcome", "after"),
]


def _named(steps: list[Step]) -> dict[str, Step]:
    return {f"{getattr(step.owner, '__name__', '')}.{step.name} {step.when}": step for step in steps}


STEPS = _named(_ALL)
"""Of a file's way."""
RUN_STEPS = _named(_ASKED)
"""Of what a running program asks."""
QUESTION_STEPS = _named(_QUESTIONED)
"""Of a question, of an agent's or of a running tool's."""


def arm(step: Step, once: str) -> None:
    """Let this process die at a step."""
    function: Callable[..., Any] = getattr(step.owner, step.name)
    assert inspect.iscoroutinefunction(function)

    def die() -> None:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    async def doomed(*given: Any, **named: Any) -> Any:
        is_meant = step.about in str(given)
        if step.when == "before" and is_meant:
            die()
        result = await function(*given, **named)
        if step.when == "after" and is_meant:
            die()
        return result

    setattr(step.owner, step.name, doomed)


def main() -> None:
    kind, name, once = sys.argv[1:]
    step = {**STEPS, **QUESTION_STEPS, **RUN_STEPS}[name]
    if step.kind == kind:
        arm(step, once)
    # What it fetched when it died is fetched again after this long, not after the minutes that a large file may take.
    workflows.approval._FETCHING = timedelta(seconds=15)
    sys.argv = [f"workers.{kind}"]
    runpy.run_module(f"workers.{kind}", run_name="__main__")


if __name__ == "__main__":
    main()
