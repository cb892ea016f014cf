"""What people say to an approval."""

from __future__ import annotations

from assent import ApprovalHandle, Identity
from assent.types import Verdict

STRANGER = Identity(open_id="ou_stranger")


async def said(handle: ApprovalHandle, actor: Identity, kind: str = "approve", **more: object) -> Verdict:
    state = await handle.state()
    return await handle.decide(kind, actor=actor, payload_sha256=state.payload_sha256, **more)  # type: ignore[arg-type]
