"""An approval as it stands."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from pydantic import computed_field

from assent.contracts.approvers import Approvers, Awaited
from assent.contracts.decision import Judged, Stage
from assent.contracts.identity import Identity
from assent.contracts.manifest import Definition, Risk
from assent.contracts.permission import Permission
from assent.contracts.plan import Edit
from assent.contracts.policy import Rule
from assent.contracts.presentation import Presentation
from assent.contracts.status import Phase, Status
from assent.contracts.values import Frozen
from assent.payload import argument_values


class Progress(Frozen):
    """How far the approvers have come."""

    approvers: Approvers
    """Who may decide now."""
    stage: int = 1
    stages: int = 1
    approvals: tuple[Judged, ...] = ()
    """Who has approved, in all stages."""
    approved: int = 0
    """How many of them count in this stage."""
    delegations: tuple[tuple[Identity, Identity], ...] = ()
    """Who left the decision to whom."""
    called: tuple[Identity, ...] = ()
    """Who may decide too, because nobody did."""


class PendingType(StrEnum):
    """What an approval waits for: that its call may run, or that its result may be handed over."""

    EXECUTION = "execution"
    RESULT = "result"


class State(Frozen):
    """An approval as it stands."""

    approval_id: str
    phase: Phase
    tool: str
    requester: Identity
    description: str | None = None
    """What the tool says of itself."""
    definition: Definition | None = None
    """The tool as models are told of it; None where its schema is too large to be carried along."""
    created_at: datetime | None = None
    """When it was asked for."""
    request_reason: str | None = None
    """Why the agent wants it."""
    asked_by: str | None = None
    """The agent that asked, by the name of its token."""
    status: Status | None = None
    reason: str | None = None
    """Why it ended so."""
    payload: str | None = None
    payload_sha256: str | None = None
    idempotency_key: str | None = None
    sensitive: tuple[str, ...] = ()
    risk: Risk | None = None
    approvers: Approvers | None = None
    deadline: datetime | None = None
    decided_by: Identity | None = None
    decisions: tuple[Judged, ...] = ()
    progress: Progress | None = None
    permission: Permission | None = None
    rule: Rule | None = None
    warnings: tuple[str, ...] = ()
    presentation: Presentation = Presentation()
    """How its call is read."""
    grant_id: str | None = None
    edit: Edit | None = None
    result_sha256: str | None = None
    """The hash of the result that waits to be released, while it does."""
    result_deadline: datetime | None = None
    awaited: Awaited | None = None
    """Whom it waits for, while it does."""
    asked_at: datetime | None = None
    tool_call_id: str | None = None
    thread_id: str | None = None
    malformed: int = 0
    """Messages that could not be read and were set aside."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def type(self) -> PendingType | None:
        """What it waits for, while it does."""
        if self.awaited is None:
            return None
        return PendingType.RESULT if self.awaited.subject is Stage.RESULT else PendingType.EXECUTION

    @computed_field  # type: ignore[prop-decorator]
    @property
    def arguments(self) -> dict[str, Any] | None:
        """The arguments of the payload, also those that are `sensitive`."""
        return argument_values(self.payload) if self.payload is not None else None

    def awaits(self, person: Identity) -> bool:
        """Whether it waits for this person, as far as can be said without asking a chat who belongs to it."""
        return self.awaited is not None and self.awaited.asks(person)


class ResultPreview(Frozen):
    """A result that waits to be released, for one who may release it."""

    preview: str
    """The beginning of its JSON."""
    truncated: bool
    """Whether there is more; `handle.result(actor=…)` has all of it."""
    size: int
    """How many bytes it holds."""
    sha256: str


class PendingItem(State):
    """What waits for one person, as their inbox lists it."""

    result: ResultPreview | None = None
    """The result, where that is what waits for them."""
