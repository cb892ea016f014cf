"""The card of a result that waits to be released."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from assent.contracts.status import Status
from assent.payload import sha256
from cards import ResultShowing
from tests.support.cards import NOW, plan

DEADLINE = NOW + timedelta(hours=1)


def showing(content: Any = "paid", **fields: Any) -> ResultShowing:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    known = {"plan": plan(), "status": Status.EXECUTED, "deadline": DEADLINE, "content_sha256": sha256(data)}
    return ResultShowing(content=data, **{**known, **fields})
