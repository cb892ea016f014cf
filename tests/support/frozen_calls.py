"""Calls of which nobody knows whether they ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assent import ApprovalHandle
from tests.conftest import ME, Service


async def frozen(service: Service, path: Path, tool: str = "raises", **asked: Any) -> ApprovalHandle:
    """An approval whose call may have happened."""
    arguments = {"path": str(path), **asked.pop("arguments", {})}
    handle = await service.gate.request(tool, arguments, requester=ME, **asked)
    assert (await service.decided(handle)).status == "frozen"
    return handle
