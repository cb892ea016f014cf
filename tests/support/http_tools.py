"""What an HTTP tool is called with."""

from __future__ import annotations

from assent import ToolContext
from tests.conftest import ME

SECRET = "Bearer s3cr3t-t0ken"


CONTEXT = ToolContext(approval_id="a", requester=ME, idempotency_key="n:approval:a:" + "0" * 64)
