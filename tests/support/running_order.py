"""The order in which a run tries the tests: those that mostly wait begin first, so nobody waits for them at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

WAITING = (
    "processes/test_faults",
    "processes/test_deployment",
    "processes/test_deaths",
    "processes/test_certainty",
    "workers/test_api_contract",
    "activities/test_generated_cards",
    "processes/test_restarts",
    "processes/test_dev",
    "processes/test_dev_pages",
    "processes/test_file_deaths",
    "processes/test_programs",
    "browser/test_temporal_ui",
    "browser/test_page",
    "browser/test_page_permissions",
    "browser/test_page_questions",
    "browser/test_page_programs",
    "browser/test_page_forms",
    "browser/test_api_page",
    "workflows/test_endings",
    "workflows/test_bundles",
    "workflows/test_reviews",
    "assent/test_http_probe",
)
"""Modules whose tests wait for heartbeats, deadlines and servers, the longest first."""
_SHARING = ("processes/test_deployment", "processes/test_dev_pages", *(name for name in WAITING if "browser/" in name))
"""Those of them whose tests share what takes long to build: they stay together."""


def arranged(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The order for so many test processes, each of which is given one run of neighbours and goes on from there.

    Every second process begins with its share of those that wait; the others keep the machine busy meanwhile.
    """
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    heads = shares[::2]
    for number, unit in enumerate(_units(items)):
        heads[number % len(heads)] += unit
    waiting = {item for share in shares for item in share}
    others = [item for item in items if item not in waiting]
    left = len(items)
    for number, share in enumerate(shares):
        size = left // (processes - number)
        left -= size
        taken = max(size - len(share), 0)
        share += others[:taken]
        del others[:taken]
    return [item for share in shares for item in share] + others


def _units(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """The tests that wait, one by one or by module."""
    units: list[list[pytest.Item]] = []
    for module in WAITING:
        own = [item for item in items if f"{item.path.parent.name}/{item.path.stem}" == module]
        units += [own] if module in _SHARING else [[item] for item in own]
    return units
