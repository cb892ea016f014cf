"""Every recorded history replays on today's workflow code, which asks nothing else than the history."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

import workflows
from tests.recording.histories import ALL_PATHS, HISTORIES
from tests.support.pure_runner import PureRunner

RECORDED = {file.stem: file.read_text() for file in sorted(HISTORIES.glob("*.json"))}
EARLIER = {file.stem: file.read_text() for file in sorted((HISTORIES / "earlier").glob("*.json"))}
"""Of approvals that were planned before their cards were shown in turn, or before lists heard late that a call runs."""


def replayer(runner: PureRunner | None = None) -> Replayer:
    return Replayer(
        workflows=workflows.ALL, data_converter=pydantic_data_converter, workflow_runner=runner or PureRunner()
    )


def test_every_path_is_recorded() -> None:
    assert list(RECORDED) == sorted(ALL_PATHS)


@pytest.mark.parametrize("name", RECORDED)
async def test_history_replays(name: str) -> None:
    runner = PureRunner()
    result = await replayer(runner).replay_workflow(WorkflowHistory.from_json(name, RECORDED[name]))
    assert result.replay_failure is None
    assert runner.impure == set()


@pytest.mark.parametrize("name", EARLIER)
async def test_history_of_what_is_done_otherwise_today_replays(name: str) -> None:
    result = await replayer().replay_workflow(WorkflowHistory.from_json(name, EARLIER[name]))
    assert result.replay_failure is None


@pytest.mark.parametrize(
    "impure",
    [
        datetime.now,
        time.time,
        time.monotonic,
        random.random,
        random.SystemRandom().random,
        uuid.uuid4,
        Path(__file__).read_text,
        print,
    ],
)
async def test_what_is_not_in_the_history_is_noticed(
    impure: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workflows.approval.details", lambda _state: str(impure()))
    runner = PureRunner()
    await replayer(runner).replay_workflow(WorkflowHistory.from_json("executed", RECORDED["executed"]))
    assert runner.impure


async def test_a_changed_path_is_noticed() -> None:
    text = RECORDED["executed"]
    changed = text.replace('"activityType":{"name":"execute"}', '"activityType":{"name":"something else"}')
    assert changed != text
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json("changed", changed))


def test_a_plain_approval_costs_at_most_twenty_two_events() -> None:
    history = WorkflowHistory.from_json("early_decision", RECORDED["early_decision"])
    assert len(history.events) <= 22


def test_an_approval_costs_no_more_events_with_a_card() -> None:
    history = WorkflowHistory.from_json("carded_listed_late", RECORDED["carded_listed_late"])
    assert len(history.events) <= 22
