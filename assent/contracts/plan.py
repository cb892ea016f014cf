"""Request, manifest and policy, fixed once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from assent.contracts.address import Address
from assent.contracts.approvers import Approvers
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Definition, Risk
from assent.contracts.permission import Execution, Fallback, Permission
from assent.contracts.policy import Rule
from assent.contracts.presentation import Presentation
from assent.contracts.values import Frozen
from assent.payload import argument_values, sha256

_LEEWAY = timedelta(hours=1)
"""How much longer than its plan allows an approval may count as open."""


class Edit(Frozen):
    """That something else ran than was proposed."""

    by: Identity
    proposed_payload: str
    proposed_payload_sha256: str
    payload: str
    payload_sha256: str


class Plan(Frozen):
    """Request, manifest and policy, fixed once: what is shown, decided and run."""

    approval_id: str
    request_sha256: str
    tool: str
    description: str
    queue: str
    payload: str
    """The canonical JSON of the call."""
    payload_sha256: str
    idempotency_key: str
    scope_key: str = ""
    """The key without its requester: what the same call has in common whoever asks for it in this scope."""
    aliases: tuple[str, ...] = ()
    """What else the call is known by: while it is active, no other call has any of them."""
    manifest_sha256: str
    requester: Identity
    request_reason: str | None = None
    approvers: Approvers
    risk: Risk
    sensitive: tuple[str, ...]
    retry_safe: bool
    attempts: int
    has_probe: bool
    deadline: datetime
    timeout: timedelta
    asks: timedelta = timedelta(0)
    """How long all questions together may take that the tool asks while it runs."""
    start_within: timedelta
    """How long after the decision the call may still begin."""
    heartbeat_timeout: timedelta
    """How long a tool worker may be silent before it counts as dead."""
    grace: timedelta
    """How long after the deadline an in-time decision may still arrive."""
    supersedes: tuple[str, ...] = ()
    """Open approvals of the same conversation that this one replaces."""
    asked_at: datetime
    asked_by: str | None = None
    """The agent that asked, by the name of its token."""
    tenant_key: str | None = None
    """The tenant that is meant where an identity names none."""
    addresses: tuple[Address, ...] = ()
    """Where its card goes; nowhere, if it is decided without one."""
    callback_url: str | None = None
    probe_for: timedelta = timedelta(0)
    remind_every: timedelta = timedelta(days=1)
    frozen_twin: str | None = None
    """An approval of the same person whose identical call is frozen: until that is settled, this one does not run."""
    another_is_frozen: bool = False
    """Whether somebody else's identical call is: whose and which is not for this one to tell."""
    permission: Permission = Permission()
    rule: Rule | None = None
    """The operator's rule that applied, if one did."""
    override: int | None = None
    """The number of the override that held for its tool, if one did."""
    denied: str | None = None
    """Why it may not run at all."""
    warnings: tuple[str, ...] = ()
    """What whoever decides should know of these arguments."""
    grant: Grant | None = None
    """The remembered decision that lets it run, or not, without asking."""
    remember_for: timedelta = timedelta(0)
    """How long a decision about it may be remembered."""
    conversation: str | None = None
    """The chat that it was asked for in: as Feishu said, or else as the agent did."""
    chat_is_known: bool = True
    """Whether that is so: not where it answers a message, and nobody needed to know in which chat that is."""
    remind_at: datetime | None = None
    escalate_at: datetime | None = None
    escalate_to: tuple[Identity, ...] = ()
    """Who may decide too, from then on."""
    result_ttl: timedelta = timedelta(hours=1)
    """How long its result waits to be released."""
    result_fallback: Fallback = Fallback.WITHHOLD
    revision: int = 0
    """How often its arguments were edited."""
    edit: Edit | None = None
    former_sha256: tuple[str, ...] = ()
    """The hashes of what it was before it was edited."""
    parameters: dict[str, Any] | None = None
    """The schema of the tool's arguments, unless it is too large to be carried along."""
    bundle_id: str | None = None
    """The bundle whose card shows it among others, if it was asked for together with them."""
    presentation: Presentation = Presentation()
    """How it is read."""
    keeps_later_stages: bool = False
    """Whether nobody approves who is needed in a later stage, so that nobody would be left there."""
    is_listed_late: bool = False
    """Whether lists say that its call runs only once it has done so for a moment: most have ended by then."""
    is_shown_in_turn: bool = False
    """Whether nothing is shown on its cards while something older is still being shown."""
    waits_for_no_chat: bool = False
    """Whether a chat that does not answer holds up nothing but its own cards."""
    is_consent_only: bool = False
    """Whether the agent makes the call itself: it ends approved, and nothing runs here."""
    tool_call_id: str | None = None
    thread_id: str | None = None

    previews: dict[str, str] = Field(default_factory=dict)
    """The images that Feishu shows of the call's files, by the files' ids."""

    @property
    def open_until(self) -> datetime:
        """When it should have ended, whatever became of it."""
        at_work = self.start_within + (self.timeout + self.asks) * self.attempts
        return self.deadline + at_work + self.result_ttl + _LEEWAY

    @property
    def subject(self) -> str:
        """The tool by the name that people, rules and remembered decisions know it by."""
        return f"{self.tool}:{argument_values(self.payload)['name']}" if self.is_consent_only else self.tool

    @property
    def asks_nobody(self) -> bool:
        """Whether it runs, or is rejected, without anybody being asked."""
        return self.grant is not None or self.permission.execution is Execution.AUTO

    @property
    def needs_nobody(self) -> bool:
        """Whether nobody is asked: it runs, is rejected, or may not run at all."""
        return self.asks_nobody or self.denied is not None

    @property
    def has_frozen_twin(self) -> bool:
        """Whether the identical call is frozen elsewhere."""
        return self.frozen_twin is not None or self.another_is_frozen

    @property
    def definition(self) -> Definition | None:
        """The tool as models are told of it."""
        if self.parameters is None:
            return None
        return Definition(name=self.tool, description=self.description, parameters=self.parameters)

    @property
    def hash_is_true(self) -> bool:
        """Whether the payload still is the one that was hashed."""
        return sha256(self.payload) == self.payload_sha256
