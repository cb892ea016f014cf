"""Evaluates conditions that could take long, in a process that is ended when they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

SECONDS = 2.0
"""How much computing time one condition may take for one call."""
_SCRIPT = Path(__file__).with_name("evaluating.py")


class TookTooLong(Exception):
    """There is no answer within the time."""


class Evaluator:
    """One process, started when it is needed; one question at a time. It may be asked from any thread."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, text: str, variables: dict[str, Any]) -> dict[str, Any]:
        """What the expression comes to. Raises TookTooLong."""
        question = json.dumps({"text": text, "variables": variables}).encode() + b"\n"
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(question)
                process.stdin.flush()
                said = process.stdout.readline()
            except OSError:
                said = b""
            if not said.endswith(b"\n"):
                self._end(process)
                raise TookTooLong(f"it takes more than {self._seconds:g} seconds of computing")
            answer: dict[str, Any] = json.loads(said)
            return answer

    def close(self) -> None:
        with self._lock:
            if self._process is not None and self._owner == os.getpid():
                self._end(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-E", str(_SCRIPT), str(self._seconds)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C is for whoever asks
            )
            self._owner = os.getpid()
        return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # what could not be written any more
        self._process = None


evaluator = Evaluator()
"""The one of this process."""
