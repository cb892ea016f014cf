"""`python -m workers.dev`: Temporal with its UI, the ledger and both workers on this machine, until Ctrl-C."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_BIN = Path(sys.executable).parent
_SAMPLES = "workers.samples"
_SERVED = "are served"
"""What a worker's log says once it takes work."""
_LEAVE_WITHIN = 10.0
"""How long a part may take to leave when the others are gone."""
_TAIL_LINES = 15
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_prctl = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it, macOS has not


class Ended(Exception):
    """It is over; the message says why if it is not what was wanted."""


@dataclass(frozen=True)
class Place:
    """Where it all lives: a directory that keeps what is remembered, and two ports."""

    directory: Path
    port: int
    ui_port: int

    @classmethod
    def of_environment(cls) -> Place:
        directory = Path(os.environ.get("ASSENT_DEV_DIR") or ".dev").absolute()
        return cls(directory, _port("ASSENT_DEV_PORT", 7233), _port("ASSENT_DEV_UI_PORT", 8233))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What the processes are told: of the user's own Temporal and ledger nothing, of the rest everything."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
        return {
            "ASSENT_TOOLS": _SAMPLES,
            **inherited,
            "ASSENT_DATABASE_URL": f"sqlite+aiosqlite:///{self.directory / 'ledger.db'}",
            "ASSENT_DEV_DIR": str(self.directory),
            "TEMPORAL_ADDRESS": self.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "PYTHONUNBUFFERED": "1",
        }


class Part:
    """One process and its log. It has a process group of its own, so that Ctrl-C reaches us and not it."""

    def __init__(self, name: str, command: Sequence[str], place: Place) -> None:
        self.name = name
        self.log = place.directory / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=place.environment,
                process_group=0,
                preexec_fn=_die_with_parent if _prctl else None,
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


class House:
    """All the parts. They are started one after the other and stopped in the opposite order."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._parts: list[Part] = []
        self._wishes = 0
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._wishes += 1

    def start(self, name: str, *command: str) -> Part:
        part = Part(name, command, self.place)
        self._parts.append(part)
        return part

    def run(self, name: str, *command: str) -> None:
        """Start something that ends by itself, and wait for it to succeed."""
        part = Part(name, command, self.place)
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
            for part in self._parts:
                if part.has_ended:
                    raise Ended(_obituary(part))
            time.sleep(0.05)

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


def main() -> int:
    place = Place.of_environment()
    for port, variable in ((place.port, "ASSENT_DEV_PORT"), (place.ui_port, "ASSENT_DEV_UI_PORT")):
        if _is_busy(port):
            return _complain(f"Port {port} is in use; stop what uses it, or choose another with {variable}=….")
    place.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (place.directory / "lock").open("w") as lock:
        if not _is_ours(lock):
            return _complain(
                f"{_near(place.directory)} is in use by another `make dev`; choose another with ASSENT_DEV_DIR=…."
            )
        house = House(place)
        why = ""
        try:
            live(house)
        except Ended as ended:
            why = str(ended)
        print(f"\n{why or 'Stopping: what was begun is finished first. Ctrl-C again leaves at once.'}", flush=True)
        house.stop()
    return 1 if why else 0


def live(house: House) -> None:
    """Start everything, say where it is, and stay until it is over."""
    place = house.place
    print("Starting …", flush=True)
    house.start("temporal", *_temporal(place))
    house.wait(lambda: _is_busy(place.port) and _is_busy(place.ui_port))
    house.run("setup", sys.executable, "-m", "workers.setup")
    approvals = house.start("approvals", sys.executable, "-m", "workers.approvals")
    tools = house.start("tools", sys.executable, "-m", "workers.tools")
    house.wait(lambda: approvals.says(_SERVED) is not None and tools.says(_SERVED) is not None)
    print(welcome(place, (tools.says(_SERVED) or "").lstrip(": ")), flush=True)
    house.wait(lambda: False)


def welcome(place: Place, tools: str) -> str:
    """Where everything is, and what to try."""
    assent = _near(_BIN / "assent")
    samples = place.environment["ASSENT_TOOLS"] == _SAMPLES
    approval = f"try-{secrets.token_hex(2)}"
    call = (
        """send_invoice --arguments '{"to": "ada@example.com", "amount": "120.00"}'"""
        if samples
        else "TOOL --arguments JSON"
    )
    lines = [
        "",
        "Assent is running. Ctrl-C stops it; what it remembers is found again next time.",
        "",
        f"  Temporal UI  http://127.0.0.1:{place.ui_port}",
        f"  Temporal     {place.address}",
        f"  Ledger       {_near(place.directory / 'ledger.db')}",
        f"  Logs         {_near(place.directory)}/*.log",
        f"  Tools        {tools}",
        "",
        "Try it in another terminal: ask for a call, look at it, approve it, see what became of it.",
        "",
        *_preparation(place),
        f"  {assent} request {call} --requester open_id:ou_me --id {approval}",
        f"  {assent} list --status pending",
        f"  {assent} decide {approval} approve --as open_id:ou_me",
        f"  {assent} show {approval}",
        "",
    ]
    if samples:
        lines += [f"The other tools end in other ways: see {_near(Path(__file__).with_name('samples.py'))}.", ""]
    return "\n".join(lines)


def _preparation(place: Place) -> Iterable[str]:
    """What the user's own shell must be told, if it would look for Temporal elsewhere."""
    if place.port != 7233 or any(name.startswith("TEMPORAL_") for name in os.environ):
        yield f"  export TEMPORAL_ADDRESS={place.address} TEMPORAL_NAMESPACE=default"


def _temporal(place: Place) -> list[str]:
    beside = _BIN / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise Ended("Temporal is missing; run `make setup`.")
    command = [found, "server", "start-dev", "--ip", "127.0.0.1", "--port", str(place.port)]
    command += ["--ui-port", str(place.ui_port), "--db-filename", str(place.directory / "temporal.db")]
    # This file may lose its last moment in a power cut: the ledger, which may not, is written more carefully.
    return [*command, "--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]


def _port(variable: str, default: int) -> int:
    said = os.environ.get(variable) or str(default)
    if not said.isdecimal() or not 0 < int(said) < 65536:
        sys.exit(_complain(f"{variable}={said} is not a port; say a number between 1 and 65535."))
    return int(said)


def _is_busy(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _is_ours(lock: IO[str]) -> bool:
    """Whether nobody else uses the directory: two servers on one file would ruin it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _die_with_parent() -> None:
    """If we are killed without a chance to stop our children, the kernel does it."""
    assert _prctl is not None
    _prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _near(path: Path) -> str:
    """A path as one would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _obituary(part: Part) -> str:
    return f"{part.name} ended with code {part.process.returncode}. The end of {_near(part.log)}:\n{part.tail}"


def _complain(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
