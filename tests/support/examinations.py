"""What an examination found of a frozen call."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from assent.contracts.review import Examined, LateResult, SeenAttempt
from assent.contracts.ruling import RulingKind, Settlement
from assent.contracts.values import Surface
from tests.conftest import ME

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def examined(said: str) -> Examined:
    late = LateResult(state="failed", at=NOW, worker="w", content=None, error=said)
    seen = SeenAttempt(
        consent="inv-1",
        state="unknown",
        attempt=1,
        worker=said,
        began_at=NOW,
        ended_at=None,
        error=said,
        body_ended=False,
        late=(late, late.model_copy(update={"content": json.dumps(said), "error": None})),
    )
    return Examined(attempts=(seen,))


def settled(said: str) -> Settlement:
    return Settlement(
        approval_id="inv-1",
        kind=RulingKind.EXECUTED,
        surface=Surface.FEISHU,
        settled_at=NOW,
        settled_by=ME,
        reason=said,
        content=said,
    )
