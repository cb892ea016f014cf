"""Bringing each entry of the audit to where it goes besides: files, addresses, functions. Nothing waits for that."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from assent.contracts.audit import AuditRecord
from assent.named_functions import named_function
from assent.tls import trusted
from ledger import Ledger

GROUP = "assent.audit_sinks"
"""Where a package names functions that take entries of the audit."""
_log = logging.getLogger(__name__)
_EVERY = 1.0
_LONGEST_PAUSE = 60.0
_HELD_FOR = timedelta(seconds=60)
_WITHIN = 10.0
"""How many seconds a sink has for one entry."""
_AT_ONCE = 100
_MOST_FAILURES = 3
"""After so many approvals in a row whose entries it did not take, a sink is left alone for a while."""

Line = dict[str, Any]
Sink = Callable[[Line], Awaitable[None]]


def sink_of(said: str) -> Sink:
    """What takes the entries. Raises ValueError where that is nothing."""
    if said.startswith("file:"):
        return _file(Path(said.removeprefix("file:")))
    if "://" in said:
        return _address(said)
    return _function(said)


def sinks_of(said: tuple[str, ...]) -> dict[str, Sink]:
    return {each: sink_of(each) for each in said}


def _file(path: Path) -> Sink:
    if not path.name:
        raise ValueError("file: names no file")

    def append(text: str) -> None:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # somebody died within a line
            data = (("\n" if torn else "") + text + "\n").encode()
            if os.write(handle, data) != len(data):
                raise OSError("the line was not written whole")
            os.fsync(handle)
        finally:
            os.close(handle)

    async def write(line: Line) -> None:
        append(json.dumps(line, ensure_ascii=False))

    return write


def _address(url: str) -> Sink:
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if not (parts.scheme == "https" or is_local) or not parts.hostname or parts.username or parts.fragment:
        raise ValueError("an address is https, without credentials and without a fragment")

    async def post(line: Line) -> None:
        named = {"Idempotency-Key": line["hash"]}
        async with (
            httpx.AsyncClient(timeout=_WITHIN, verify=trusted()) as http,
            http.stream("POST", url, json=line, headers=named) as answer,
        ):
            if not answer.is_success:  # whatever else it says is not read
                raise ConnectionError(f"it answered {answer.status_code}")

    return post


def _function(name: str) -> Sink:
    """A function: one that a package names, or `module:function`."""
    function = named_function(name, GROUP)

    async def call(line: Line) -> None:
        made = function(line)
        if inspect.isawaitable(made):
            await made

    return call


async def keep_sinking(ledger: Ledger, sinks: Mapping[str, Sink]) -> None:
    """Bring every sink what it lacks, each by itself, until cancelled. Any number of processes may do so at once."""
    while True:
        try:
            await ledger.register_sinks(list(sinks))
            break
        except Exception as error:
            _log.warning("where the audit goes could not be noted yet: %s", type(error).__name__)
            await asyncio.sleep(_EVERY)
    await asyncio.gather(*(_Shipping(ledger, name, sink).go_on() for name, sink in sinks.items()))


class _Apart:
    """A thread with a loop of its own: a sink that hangs, hangs there, and takes nothing from those who decide."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._loop = asyncio.new_event_loop()
        self._is_busy = False
        threading.Thread(target=self._live, name="assent-sink", daemon=True).start()

    async def take(self, line: Line) -> None:
        """Let the sink take an entry. Raises what it raises, and TimeoutError while it has not left the one before."""
        if self._is_busy:
            raise TimeoutError("it still has the one before")
        self._is_busy = True
        async with asyncio.timeout(_WITHIN):
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._taken(line), self._loop))

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _taken(self, line: Line) -> None:
        try:
            await self._sink(line)
        finally:
            self._is_busy = False

    def _live(self) -> None:
        self._loop.run_forever()
        self._loop.close()


class _Shipping:
    """One sink, and how far it is."""

    def __init__(self, ledger: Ledger, name: str, sink: Sink) -> None:
        self._ledger = ledger
        self._name, self._sink = name, _Apart(sink)
        self._holder = uuid.uuid4().hex
        self._after = ""
        """The approval up to which it was gone through: one whose entries are refused holds up no other."""

    async def go_on(self) -> None:
        try:
            await self._go_on()
        finally:
            self._sink.end()

    async def _go_on(self) -> None:
        pause = _EVERY
        while True:
            try:
                is_well = await self._round()
            except Exception as error:
                _log.warning("the audit could not be read for %s: %s", self._said, type(error).__name__)
                is_well = False
            pause = _EVERY if is_well else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    @property
    def _said(self) -> str:
        """The sink without what may be a secret in its address."""
        return self._name.partition("?")[0]

    async def _round(self) -> bool:
        """Bring what waits, if it is this process's turn; tells whether the sink takes it."""
        if not await self._ledger.hold_sink(self._name, self._holder, _HELD_FOR):
            return True
        leave_at = asyncio.get_running_loop().time() + _HELD_FOR.total_seconds() / 2
        failures = 0
        while asyncio.get_running_loop().time() < leave_at:
            waiting = await self._ledger.unsent(self._name, self._after, _AT_ONCE)
            if not waiting:
                had_more, self._after = bool(self._after), ""
                if had_more and not failures:
                    continue
                return not failures
            for approval_id, group in groupby(waiting, key=lambda each: each[0]):
                failures = 0 if await self._brought(approval_id, [record for _, record in group]) else failures + 1
                self._after = approval_id
                if failures >= _MOST_FAILURES or asyncio.get_running_loop().time() > leave_at:
                    return not failures
        return not failures

    async def _brought(self, approval_id: str, records: list[AuditRecord]) -> bool:
        """Bring one approval's entries in order, as far as they are taken."""
        taken = 0
        try:
            for record in records:
                line = {"approval_id": approval_id, **record.model_dump(mode="json")}
                await self._sink.take(line)
                taken = record.seq
        except Exception as error:
            _log.warning("%s did not take the audit of %s: %s", self._said, approval_id, type(error).__name__)
        if taken:
            await self._ledger.sink_took(self._name, [(approval_id, taken)])
        return taken == records[-1].seq
