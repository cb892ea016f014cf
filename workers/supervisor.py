"""Processes that live and end together: each with a log, none left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

_LEAVE_WITHIN = 10.0
"""How long a part may take to leave when the others are gone."""
_TAIL_LINES = 15
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it, macOS has not


class Ended(Exception):
    """It is over; the message says why if it is not what was wanted."""


class Part:
    """One process and its log. It has a process group of its own, so that Ctrl-C reaches us and not it."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, environment: Mapping[str, str], *, again: bool = False
    ) -> None:
        self.name = name
        self.command = command
        self.log = directory / f"{name}.log"
        with self.log.open("ab" if again else "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
                preexec_fn=partial(_die_with, os.getpid()) if _prctl else None,
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def tail(self) -> str:
        """The end of what it said."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])

    def says(self, words: str) -> str | None:
        """What follows these words in its log, None while it has not said them."""
        _, said, rest = self.log.read_text("utf-8", "replace").partition(words)
        return rest.partition("\n")[0] if said else None

    def kill(self) -> None:
        """End it and whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Supervisor:
    """All the parts. They are started one after the other and stopped in the opposite order."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._parts: list[Part] = []
        self._mortals: set[str] = set()
        self._wishes = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._wishes += 1

    def start(self, name: str, *command: str, mortal: bool = False, **different: str) -> Part:
        """Start a part. A mortal one may be killed in its work, and is started again.

        different: what only this part is told.
        """
        part = Part(name, command, self._directory, {**self._environment, **different})
        self._parts.append(part)
        if mortal:
            self._mortals.add(name)
        return part

    def run(self, name: str, *command: str) -> None:
        """Start something that ends by itself, and wait for it to succeed."""
        part = Part(name, command, self._directory, self._environment)
        try:
            self.wait(lambda: part.has_ended)
        finally:
            part.kill()
        if part.process.returncode != 0:
            raise Ended(_obituary(part))

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait until ready. The wish to stop ends the wait, and so does the death of a part."""
        while not ready():
            if self._wishes:
                raise Ended
            for index, part in enumerate(self._parts):
                if part.has_ended:
                    self._parts[index] = self._successor(part)
            time.sleep(0.05)

    def _successor(self, dead: Part) -> Part:
        """A part that was killed outright is started again, if it may die; any other end is the end of all."""
        if dead.name not in self._mortals or dead.process.returncode != -signal.SIGKILL:
            raise Ended(_obituary(dead))
        print(f"{dead.name} was killed in the middle of its work; it is started again.", flush=True)
        return Part(dead.name, dead.command, self._directory, self._environment, again=True)

    def stop(self) -> None:
        """Let the workers finish what they began, then stop the server. Another Ctrl-C leaves at once."""
        wishes = self._wishes
        server, workers = self._parts[:1], self._parts[1:]
        for parts in (workers, server):
            # Without its server a worker has nothing left to finish.
            patience = None if parts is workers and not any(part.has_ended for part in server) else _LEAVE_WITHIN
            for part in parts:
                if not part.has_ended:
                    part.process.terminate()
            give_up = time.monotonic() + patience if patience else float("inf")
            while not all(part.has_ended for part in parts) and time.monotonic() < give_up and self._wishes == wishes:
                time.sleep(0.05)
            for part in parts:
                part.kill()


def _die_with(parent: int) -> None:
    """If we are killed without a chance to stop our children, the kernel does it.

    It tells nobody of a parent that was killed before it was asked to.
    """
    assert _prctl is not None
    _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def near(path: Path) -> str:
    """A path as one would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _obituary(part: Part) -> str:
    return f"{part.name} ended with code {part.process.returncode}. The end of {near(part.log)}:\n{part.tail}"
