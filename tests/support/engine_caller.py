"""`python -m tests.support.engine_caller URL ADDRESS NAMESPACE APPROVAL STAGE PATH`: a caller that dies at a stage."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from ledger import Ledger
from tests.support import servers
from tests.support.tools import leave_mark
from workers.engine import TemporalApprovalEngine


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(Ledger):
    """A ledger whose process dies right before it claims, or right after it has recorded."""

    stage = ""

    async def begin(self, *args: Any, **kwargs: Any) -> Any:
        if self.stage == "before":
            die()
        return await super().begin(*args, **kwargs)

    async def finish(self, *args: Any, **kwargs: Any) -> Any:
        report = await super().finish(*args, **kwargs)
        if self.stage == "after":
            die()
        return report


async def main(url: str, address: str, namespace: str, approval_id: str, stage: str, path: str) -> None:
    ledger = Mortal.open(url)
    Mortal.stage = stage

    def dispatch(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        made = {"marks": leave_mark(path), "tool": tool_name, **arguments}
        if stage == "inside":
            die()
        return made

    engine = TemporalApprovalEngine(await servers.connect(address, namespace), ledger)
    await engine.on_decision(approval_id, "approve", dispatch=dispatch)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
