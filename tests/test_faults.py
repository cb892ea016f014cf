"""The fault matrix, acted out on real processes, and a sample of random schedules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import parts
from tests.faults import report
from tests.faults.houses import HOUSES, Ground, House, NotHere
from tests.faults.table import TABLE, Fault, Moment, Seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("house", HOUSES, ids=lambda house: house.__name__)
async def test_every_fault_at_every_moment_leaves_what_the_table_says(
    house: House, tmp_path: Path, temporal_address: str, namespaces: Iterator[str]
) -> None:
    client = await parts.connect(temporal_address, next(namespaces))
    host = os.environ["TEST_POSTGRES"].partition("host=")[2]
    try:
        table = await house(Ground(client, temporal_address, host, tmp_path))
    except NotHere as lack:
        pytest.skip(str(lack))
    document = report.DOCUMENT.read_text()
    for fault, seen in table.items():
        assert report.violations(fault, seen) == []
        assert seen == {moment: cell for moment, cell in TABLE[fault].items() if isinstance(cell, Seen)}, fault
        assert report.section(fault, seen) in document, "docs/faults.md differs: run `python -m tests.faults --table`"


def test_the_document_is_the_whole_table_and_nothing_else() -> None:
    expected = {
        fault: {moment: cell for moment, cell in row.items() if isinstance(cell, Seen)} for fault, row in TABLE.items()
    }
    assert set(TABLE) == set(Fault)
    assert all(set(row) == set(Moment) for row in TABLE.values())
    assert report.DOCUMENT.read_text().partition(report.RECORD)[0] == report.matrix(expected) + "\n"
