"""Asking a tool's own function what to mind: whatever it returns, it answers in time or not at all."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import tools
from activities.tools import ToolActivities
from assent import tool
from assent.contracts.prepare import Warned, WarningQuestion
from assent.payload import canonical_payload
from assent.tools.definition import Registry
from ledger import Ledger


async def asked(mind: Callable[..., Any]) -> Warned:
    registry = Registry()
    with_warnings = tool(warnings=mind, registry=registry, name="send")(_send)
    question = WarningQuestion(
        tool="send",
        queue="q",
        manifest_sha256=with_warnings.manifest.shown_sha256,
        payload=canonical_payload("send", {"to": "ada"}),
    )
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger.open(f"sqlite:///{directory}/ledger.db")
        try:
            activities = ToolActivities(ledger, registry)
            warned: Warned = await ActivityEnvironment().run(activities.warn, question)
        finally:
            await ledger.dispose()
    return warned


def _send(to: str) -> None:
    """Send something."""


def one_by_one(to: str) -> Iterator[str]:
    yield f"{to} is new."
    yield "Nobody else  gets it."


async def later(to: str) -> str:
    return f"{to} is new."


async def test_sentences_come_in_any_form() -> None:
    assert (await asked(one_by_one)).warnings == ("ada is new.", "Nobody else gets it.")
    assert (await asked(later)).warnings == ("ada is new.",)
    assert (await asked(lambda arguments: sorted(arguments))).warnings == ("to",)
    assert (await asked(lambda: None)).warnings == ()


@pytest.mark.parametrize(
    "junk",
    [
        lambda: 7,
        lambda: [7],
        lambda: ["x" * 501],
        lambda: itertools.repeat("again"),
        lambda: "\x1b[31mred",
        lambda: {"a": 1}.items(),
    ],
)
async def test_junk_is_no_warning_and_not_asked_for_again(junk: Callable[..., Any]) -> None:
    with pytest.raises(ApplicationError) as refused:
        await asked(junk)
    assert refused.value.non_retryable


async def test_what_takes_its_time_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "WARN_LIMIT", timedelta(seconds=0.05))
    let_go = threading.Event()

    class Slow:
        def __iter__(self) -> Iterator[str]:
            let_go.wait(60)
            return iter(())

    try:
        with pytest.raises(ApplicationError, match="did not answer"):
            await asked(lambda: Slow())
    finally:
        let_go.set()
