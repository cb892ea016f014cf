"""Tools for measuring memory: one asks a hostile server, one has a large result, one takes anything.

Nobody is asked about any of them.
"""

from __future__ import annotations

import os
from typing import Any

from assent import Permission, http_tool, tool
from assent.types import Execution

SERVER = "BENCHMARK_HOSTILE_SERVER"
"""The variable that says where the hostile server is."""
_UNASKED = Permission(execution=Execution.AUTO)

ask_server = http_tool("bench.ask_server", "POST", os.environ.get(SERVER, "http://127.0.0.1:1"), permission=_UNASKED)


@tool(name="bench.make", permission=_UNASKED)
def make(size: int) -> str:
    """Return so many bytes."""
    return "x" * size


@tool(name="bench.take", permission=_UNASKED)
def take(items: dict[str, Any]) -> int:
    """Take whatever it is, and return a number."""
    return len(items)
