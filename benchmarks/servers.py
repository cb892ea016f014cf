"""The servers that a run has to itself, and ends: Temporal, PostgreSQL; and a directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psutil

from tests.support.servers import PostgresServer, TemporalServer


@contextmanager
def own_directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="assent-bench-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def own_temporal(namespaces: int = 0) -> Iterator[TemporalServer]:
    server = TemporalServer(namespaces=namespaces, environment={})  # as it is by itself
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def own_postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.stop()


def temporal_process() -> psutil.Process:
    """Temporal is our child."""
    (temporal,) = (child for child in psutil.Process().children() if child.name() == "temporal")
    return temporal


def socket_directory(postgres: PostgresServer) -> Path:
    return Path(postgres.uri.partition("host=")[2])


async def new_database(postgres: PostgresServer, name: str = "benchmark") -> str:
    """The URL of an empty database."""
    connection = await asyncpg.connect(postgres.uri)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return f"postgresql+asyncpg://postgres@/{name}?host={socket_directory(postgres)}"
