"""Which approvals are open, as every listing of them asks it."""

from __future__ import annotations

from sqlalchemy import Text, bindparam, or_

from ledger.schema import approvals

LIVES_IN = or_(
    approvals.c.temporal_namespace == bindparam("namespace"),
    approvals.c.temporal_namespace.is_(None),
    bindparam("namespace", type_=Text).is_(None),
)
"""Of an approval: its workflow lives in this namespace of Temporal, as far as is known; None means in any."""
IS_OPEN = (
    approvals.c.status.is_(None),
    approvals.c.plan.is_not(None),
    approvals.c.open_until > bindparam("now"),
)
OLDEST_FIRST = approvals.c.created_at, approvals.c.approval_id
