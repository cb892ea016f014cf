"""How an approval ended, and what the agent gets."""

from __future__ import annotations

from typing import Any

from pydantic import computed_field

from assent.contracts.identity import Identity
from assent.contracts.plan import Edit
from assent.contracts.policy import Rule
from assent.contracts.status import Status
from assent.contracts.values import Frozen


class Outcome(Frozen):
    """How an approval ended, and what the agent gets."""

    approval_id: str
    status: Status
    content: Any = None
    """The tool's result; of what the agent runs itself, the arguments as they were approved; for other endings the
    tool's own words or a neutral sentence."""
    authorize_url: str | None = None
    decided_by: Identity | None = None
    reason: str | None = None
    payload_sha256: str | None = None
    idempotency_key: str | None = None
    truncated: bool = False
    """Whether `content` is only a preview; the whole is read with `handle.content()`."""
    content_bytes: int | None = None
    content_sha256: str | None = None
    approved_by: tuple[Identity, ...] = ()
    """Everybody whose approval counted."""
    edit: Edit | None = None
    """What ran instead of what was proposed, where a person changed it."""
    rule: Rule | None = None
    grant_id: str | None = None
    """The remembered decision that stood in for a person."""
    withheld: bool = False
    """Whether it ran and its result is kept from the agent."""
    withheld_reason: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_error(self) -> bool:
        """False for executed, replayed and approved only."""
        return self.status not in (Status.EXECUTED, Status.REPLAYED, Status.APPROVED)
