"""Every recorded history replays on today's workflow code."""

from __future__ import annotations

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

import workflows
from tests.recording.histories import ALL_PATHS, HISTORIES

RECORDED = {file.stem: file.read_text() for file in sorted(HISTORIES.glob("*.json"))}


def replayer() -> Replayer:
    return Replayer(workflows=workflows.ALL, data_converter=pydantic_data_converter)


def test_every_path_is_recorded() -> None:
    assert list(RECORDED) == sorted(ALL_PATHS)


@pytest.mark.parametrize("name", RECORDED)
async def test_history_replays(name: str) -> None:
    result = await replayer().replay_workflow(WorkflowHistory.from_json(name, RECORDED[name]))
    assert result.replay_failure is None


async def test_a_changed_path_is_noticed() -> None:
    text = RECORDED["executed"]
    changed = text.replace('"activityType":{"name":"execute"}', '"activityType":{"name":"something else"}')
    assert changed != text
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json("changed", changed))


def test_a_plain_approval_costs_at_most_twenty_two_events() -> None:
    history = WorkflowHistory.from_json("early_decision", RECORDED["early_decision"])
    assert len(history.events) <= 22
