"""The words of the product as frozen models: what is asked, planned, decided and returned.

Field names reach Temporal's history and the ledger: they are persisted data.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    computed_field,
    model_validator,
)

from assent.payload import canonical_json, sha256

DEFAULT_TTL = timedelta(minutes=15)
"""How long an approval waits for a person when nobody says otherwise."""


def _storable(text: str) -> str:
    if not text.isprintable() and any((c < " " and c not in "\t\n\r") or "\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("control characters and lone surrogates cannot be stored")
    return text


def _short(text: str) -> str:
    if len(text.encode()) > 200:  # with its prefix it still fits Temporal's narrowest column
        raise ValueError("an id holds at most 200 bytes")
    if any(c in "\t\n\r" for c in text):
        raise ValueError("an id is one line")
    return text


Text = Annotated[str, StringConstraints(strict=True, max_length=4000), AfterValidator(_storable)]
"""Words of a person or an agent that every database can keep."""
Id = Annotated[str, StringConstraints(strict=True, min_length=1), AfterValidator(_storable), AfterValidator(_short)]
"""The name of something, short enough for every index."""


def _no_retry(text: str) -> str:
    if text.rpartition("#")[1] and text.rpartition("#")[2].isdigit():
        raise ValueError("an id that ends in # and a number names a retry of another approval")
    return text


ApprovalId = Annotated[Id, AfterValidator(_no_retry)]
"""The name of an approval: the consent to try its call again is named after it."""


UNDECIDED = "nobody decided about it in time"
"""Why a result is withheld where no person says so."""

MAX_TTL = timedelta(days=365)
"""The longest that anyone may be asked to wait."""


class Frozen(BaseModel):
    """A value: parsed once, never changed. Unknown fields of a newer version are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Status(StrEnum):
    """How an approval ended."""

    EXECUTED = "executed"
    REPLAYED = "replayed"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    FROZEN = "frozen"
    EXPIRED = "expired"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Phase(StrEnum):
    """Where an approval stands."""

    PREPARING = "preparing"
    PENDING = "pending"
    EXECUTING = "executing"
    REVIEWING = "reviewing"
    CLOSED = "closed"


class DecisionKind(StrEnum):
    """What a person did."""

    APPROVE = "approve"
    REJECT = "reject"
    EDIT = "edit"
    """Approve with other arguments."""
    DELEGATE = "delegate"
    """Leave the decision to somebody else."""


class Stage(StrEnum):
    """What a decision is about: the call, or the result it returned."""

    CALL = "call"
    RESULT = "result"


class VerdictKind(StrEnum):
    """What became of one decision."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    TAMPERED = "tampered"
    ALREADY_DECIDED = "already_decided"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    MISSING = "missing"
    FORBIDDEN = "forbidden"
    INVALID = "invalid"
    """What it asks for cannot be: arguments that the tool refuses, nobody to delegate to."""
    RECEIVED = "received"


class WhenPending(StrEnum):
    """What to do when the conversation already has an open request."""

    ALLOW = "allow"
    FAIL = "fail"
    SUPERSEDE = "supersede"


class Risk(StrEnum):
    """How much harm a call can do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Execution(StrEnum):
    """Whether a person is asked before a call runs."""

    AUTO = "auto"
    ASK_ONCE = "ask-once"
    ASK_ALWAYS = "ask-always"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return list(Execution).index(self)


class ResultReview(StrEnum):
    """Whether a person is asked before the agent gets a result."""

    NEVER = "never"
    ON_ERROR = "on-error"
    ALWAYS = "always"

    @property
    def strictness(self) -> int:
        return list(ResultReview).index(self)

    def covers(self, status: Status) -> bool:
        """Whether the result of a call that ended so is looked at first."""
        return self is ResultReview.ALWAYS or (
            self is ResultReview.ON_ERROR and status in (Status.FAILED, Status.FROZEN)
        )


_LEVELS = {"public": Execution.AUTO, "moderate": Execution.ASK_ONCE, "sensitive": Execution.ASK_ALWAYS}


class Permission(Frozen):
    """Whether a person is asked before a tool runs, and before its result is handed over.

    The older words are understood too: `level` (public, moderate, sensitive), `require_execution_approval` and
    `require_result_approval`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution: Execution = Execution.ASK_ALWAYS
    result: ResultReview = ResultReview.NEVER

    @model_validator(mode="before")
    @classmethod
    def _older_words(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {"level": given}
        if not isinstance(given, dict):
            return given
        words = dict(given)
        level = words.pop("level", None)
        asks, reviews = (words.pop(f"require_{what}_approval", None) for what in ("execution", "result"))
        if level is not None and level not in _LEVELS:
            raise ValueError(f"{level!r} is no level; say public, moderate or sensitive")
        if level is not None:
            words.setdefault("execution", _LEVELS[level])
        if asks is False:
            words["execution"] = Execution.AUTO
        if reviews is True:
            words["result"] = ResultReview.ALWAYS
        return words


class Fallback(StrEnum):
    """What becomes of a result that nobody decided about in time."""

    RELEASE = "release"
    WITHHOLD = "withhold"


class Remember(StrEnum):
    """How far a decision is remembered."""

    EXACT = "exact"
    """For this exact call."""
    TOOL = "tool"
    """For this tool in this conversation."""


class Surface(StrEnum):
    """The door a message came through."""

    CLIENT = "client"
    COMMAND_LINE = "command_line"
    TEMPORAL = "temporal"
    FEISHU = "feishu"
    HTTP = "http"
    PROBE = "probe"
    """Nobody's: a tool's own probe found it out."""
    POLICY = "policy"
    """Nobody's: the operator's policy says so."""


class Identity(Frozen):
    """A person, by any of the ids Feishu knows them by, within one tenant."""

    open_id: Id | None = None
    union_id: Id | None = None
    user_id: Id | None = None
    tenant_key: Id | None = None

    @model_validator(mode="after")
    def _names_someone(self) -> Self:
        if not self.keys:
            raise ValueError("an identity needs a non-empty open_id, union_id or user_id")
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `open_id:ou_1`, or several such keys separated by commas."""
        known = {"open_id", "union_id", "user_id", "tenant_key"}
        parts = [part.strip().partition(":") for part in text.split(",")]
        pairs = {kind.strip(): value.strip() for kind, _, value in parts}
        if not pairs.keys() <= known or len(pairs) < len(parts):
            raise ValueError(f"{text!r} is not an identity; write open_id:…, union_id:… or user_id:…")
        return cls(**pairs)

    @property
    def keys(self) -> frozenset[str]:
        """The typed ids that are known of this person."""
        ids = {"open_id": self.open_id, "union_id": self.union_id, "user_id": self.user_id}
        return frozenset(f"{kind}:{value}" for kind, value in ids.items() if value)

    def within(self, tenant_key: str | None) -> Identity:
        """This person in the tenant that is meant where none is named."""
        return self if self.tenant_key or not tenant_key else self.model_copy(update={"tenant_key": tenant_key})

    def is_outside(self, tenant_key: str | None) -> bool:
        """Whether this person is said to be of another tenant than the one there is."""
        return bool(tenant_key and self.tenant_key) and self.tenant_key != tenant_key

    def is_same_person(self, other: Identity) -> bool:
        """Whether both certainly name one person: one tenant, and every kind of id that is known of both agrees."""
        comparable = self._kinds & other._kinds
        return self.tenant_key == other.tenant_key and len(self.keys & other.keys) == len(comparable) > 0

    def may_be(self, other: Identity) -> bool:
        """Whether both might name one person: they share an id, or no kind of id is known of both."""
        if self.is_outside(other.tenant_key):
            return False
        return not self.keys.isdisjoint(other.keys) or self._kinds.isdisjoint(other._kinds)

    def is_among(self, people: Iterable[Identity]) -> bool:
        """Whether this person is certainly one of them."""
        return any(self.is_same_person(person) for person in people)

    @property
    def _kinds(self) -> frozenset[str]:
        return frozenset(key.partition(":")[0] for key in self.keys)

    def __str__(self) -> str:
        return min(self.keys)


class Approvers(Frozen):
    """Who may decide, and how many of them must agree."""

    class Kind(StrEnum):
        REQUESTER = "requester"
        ANYONE = "anyone"
        PEOPLE = "people"
        CHAT = "chat"
        """The members of a chat."""

    kind: Kind = Kind.REQUESTER
    people: tuple[Identity, ...] = ()
    chat_id: Id | None = None
    threshold: Annotated[int, Field(ge=1, le=100)] = 1
    """How many of them must approve."""
    exclude_requester: bool = False
    """Whether who asked for the call may not decide it."""
    rejections: Annotated[int, Field(ge=1, le=100)] = 1
    """How many of them must reject for the call to be rejected."""
    then: tuple[Approvers, ...] = ()
    """Who must approve after them, stage by stage."""

    @model_validator(mode="after")
    def _someone_may_decide(self) -> Self:
        if (self.kind is Approvers.Kind.PEOPLE) != bool(self.people):
            raise ValueError("approvers: name people exactly where people are meant; nobody could decide otherwise")
        if (self.kind is Approvers.Kind.CHAT) != bool(self.chat_id):
            raise ValueError("approvers: name a chat exactly where its members are meant")
        if self.kind is Approvers.Kind.REQUESTER and (self.exclude_requester or self.threshold > 1):
            raise ValueError("approvers: the requester alone can be neither excluded nor several")
        if self.kind is Approvers.Kind.PEOPLE and self.threshold > len(self.people):
            raise ValueError(f"approvers: {self.threshold} of {len(self.people)} people can never agree")
        if any(stage.then for stage in self.then):
            raise ValueError("approvers: stages follow one another; a stage has no stages of its own")
        return self

    @classmethod
    def of(cls, declared: str | Approvers | Iterable[Identity]) -> Approvers:
        """Read a tool's declaration: `"requester"`, `"anyone"`, the people themselves, or all there is to say."""
        if isinstance(declared, Approvers):
            return declared
        if isinstance(declared, str):
            if declared not in (cls.Kind.REQUESTER, cls.Kind.ANYONE):
                raise ValueError(f'approvers={declared!r}: say "requester", "anyone" or list identities')
            return cls(kind=cls.Kind(declared))
        people = tuple(declared)
        if not people:
            raise ValueError("approvers=[]: an approval that nobody may decide can only expire")
        return cls(kind=cls.Kind.PEOPLE, people=people)

    @property
    def stages(self) -> tuple[Approvers, ...]:
        """Who must approve, one group after the other."""
        return (self.model_copy(update={"then": ()}), *self.then)

    def within(self, tenant_key: str | None) -> Approvers:
        """The same people in the tenant that is meant where none is named."""
        return self.model_copy(
            update={
                "people": tuple(person.within(tenant_key) for person in self.people),
                "then": tuple(stage.within(tenant_key) for stage in self.then),
            }
        )

    def include(self, actor: Identity, requester: Identity) -> bool:
        """Whether *actor* may decide what *requester* asked for; of a chat, as far as can be said without asking it."""
        if self.exclude_requester and actor.may_be(requester):
            return False
        match self.kind:
            case Approvers.Kind.ANYONE | Approvers.Kind.CHAT:
                return actor.tenant_key == requester.tenant_key
            case Approvers.Kind.REQUESTER:
                return actor.is_same_person(requester)
            case Approvers.Kind.PEOPLE:
                return any(actor.is_same_person(person) for person in self.people)


class Deciders(Frozen):
    """Whose something is to decide, at one moment."""

    requester: Identity
    groups: tuple[Approvers, ...]
    """Those whom the plan names."""
    called: tuple[Identity, ...] = ()
    """And others: it was left to them, or they were called in when nobody had decided."""
    left_by: tuple[Identity, ...] = ()
    """Who left it to somebody else."""
    exclude_requester: bool = False

    def include(self, actor: Identity) -> bool:
        """Whether it is this person's to decide, as far as can be said without asking a chat who belongs to it."""
        if self.exclude_requester and actor.may_be(self.requester):
            return False
        if actor.is_among(self.left_by):
            return False
        return actor.is_among(self.called) or any(group.include(actor, self.requester) for group in self.groups)

    def chat_to_ask(self, actor: Identity) -> Approvers | None:
        """The group whose chat this person must belong to; None if it is theirs to decide without that."""
        people = (group for group in self.groups if group.kind is not Approvers.Kind.CHAT)
        if actor.is_among(self.called) or any(group.include(actor, self.requester) for group in people):
            return None
        return next((group for group in self.groups if group.kind is Approvers.Kind.CHAT), None)


class AddressKind(StrEnum):
    """What an address in Feishu names, in Feishu's own words."""

    CHAT_ID = "chat_id"
    OPEN_ID = "open_id"
    UNION_ID = "union_id"
    USER_ID = "user_id"


class Address(Frozen):
    """Where a card goes: a chat or a person's private chat, there possibly as the reply to a message."""

    kind: AddressKind
    id: Id
    reply_to: Id | None = None

    @classmethod
    def of(cls, person: Identity) -> Self:
        """A person's private chat."""
        for kind in (AddressKind.OPEN_ID, AddressKind.UNION_ID, AddressKind.USER_ID):
            if found := getattr(person, kind):
                return cls(kind=kind, id=found)
        raise ValueError("an identity names someone")


def _callback(url: str) -> str:
    parts = urlsplit(url)
    parts.port  # noqa: B018 - raises ValueError where it is no port
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ValueError("a completion callback goes to an https address")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("a completion callback carries no credentials and no fragment in its address")
    return url


CallbackUrl = Annotated[str, StringConstraints(strict=True, max_length=2000), AfterValidator(_callback)]
"""Where a completed approval is announced."""


class Request(Frozen):
    """What the agent sent."""

    approval_id: ApprovalId
    tool: Id
    arguments: dict[str, Any]
    requester: Identity
    tool_call_id: Id | None = None
    thread_id: Id | None = None
    when_pending: WhenPending = WhenPending.ALLOW
    message_id: Id | None = None
    event_id: Id | None = None
    idempotency_scope: Id | None = None
    ttl: Annotated[timedelta, Field(gt=timedelta(0), le=MAX_TTL)] = DEFAULT_TTL
    reason: Text | None = None
    chat_id: Id | None = None
    """The chat whose people see the card; without it the private chats of those who may decide."""
    reply_to: Id | None = None
    """The message that the card answers."""
    callback_url: CallbackUrl | None = None
    """Where the outcome is posted, signed, when it is there."""
    surface: Surface = Surface.CLIENT
    asked_by: Id | None = None
    """The name of the token that the agent showed."""
    bundle_id: Id | None = None
    """What the calls have in common that were asked for together, and are shown on one card."""
    is_bound_to_chat: bool = False
    """Whether its token may ask in certain chats alone: then a message it answers must be in `chat_id`."""

    @property
    def sha256(self) -> str:
        """What tells this request from another one under the same id: all of it but its door and its company."""
        by_its_door = {"surface", "asked_by", "bundle_id", "is_bound_to_chat"}
        fields = self.model_dump(mode="json", exclude={*by_its_door, "arguments"})
        return sha256(canonical_json({**fields, "arguments": self.arguments}))


class Manifest(Frozen):
    """What a tool says of itself, published by the worker that runs it."""

    name: str
    description: str
    queue: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, closed at every level."""
    risk: Risk
    approvers: Approvers
    retry_safe: bool
    attempts: int
    """How often a `retry_safe` tool may be begun for one consent."""
    timeout: timedelta
    has_probe: bool
    probe_for: timedelta = timedelta(hours=1)
    """How long the probe is asked about a call whose end is unknown."""
    in_flight: timedelta | None = None
    """After this time from its beginning a call can no longer take effect; None: that cannot be said."""
    sensitive: tuple[str, ...]
    max_ttl: timedelta | None
    permission: Permission = Permission()

    @property
    def shown_sha256(self) -> str:
        """The hash of what consent rests on: a tool that changed in any of it is another tool."""
        rests_on = {"name", "parameters", "risk", "approvers", "retry_safe", "permission"}
        return sha256(canonical_json(self.model_dump(mode="json", include=rests_on)))


class Rule(Frozen):
    """The operator's rule that a plan was made by."""

    name: str
    policy_sha256: str
    """The hash of the file that holds it."""


class Grant(Frozen):
    """A decision that is remembered, so that nobody is asked again."""

    grant_id: str
    scope: Remember
    tool: str
    payload_sha256: str | None = None
    """The exact call, where only that is meant."""
    chat_id: str | None = None
    """The conversation, where the whole tool is meant: the one that the click came from."""
    requester: Identity
    """For whom it counts."""
    decision: DecisionKind
    """approve or reject."""
    granted_by: Identity
    reason: str | None = None
    approval_id: str
    """Where it was decided."""
    granted_at: datetime
    expires_at: datetime
    manifest_sha256: str
    risk: Risk
    approvers: Approvers | None = None
    """Who had to agree: where others must, it does not count."""
    revoked_at: datetime | None = None
    revoked_by: Identity | None = None


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
    bundle_id: str | None = None
    """The bundle whose card shows it among others, if it was asked for together with them."""

    @property
    def asks_nobody(self) -> bool:
        """Whether it runs, or is rejected, without anybody being asked."""
        return self.grant is not None or self.permission.execution is Execution.AUTO

    @property
    def has_frozen_twin(self) -> bool:
        """Whether the identical call is frozen elsewhere."""
        return self.frozen_twin is not None or self.another_is_frozen

    @property
    def hash_is_true(self) -> bool:
        """Whether the payload still is the one that was hashed."""
        return sha256(self.payload) == self.payload_sha256


class Decision(Frozen):
    """What a person did, on which approval, seeing which payload."""

    approval_id: Id
    kind: DecisionKind
    payload_sha256: Id | None = None
    actor: Identity
    event_id: Id
    """The platform's id of the click: the same id is the same click."""
    delivery_id: Id | None = None
    """Which sending of that click this is."""
    stage: Stage = Stage.CALL
    message_id: Id | None = None
    reason: Text | None = None
    received_at: AwareDatetime | None = None
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"
    """What proves the actor's identity."""
    arguments: dict[str, Any] | None = None
    """All arguments of the call as edited."""
    fields: dict[str, str] | None = None
    """Or what was typed into a card's fields, by the name of the argument; the others stay as they were."""
    delegate_to: Identity | None = None
    remember: Remember | None = None
    """Whether, and how far, the decision is to be remembered."""
    chat_id: Id | None = None
    """The chat that the click came from, as the platform says."""


class Verdict(Frozen):
    """What became of one decision."""

    kind: VerdictKind
    status: Status | None = None
    decided_by: Identity | None = None
    reason: str | None = None
    """What was wrong, where something was."""
    approvals: int = 0
    """How many have approved so far,"""
    needed: int = 1
    """of how many that must."""


class Judged(Frozen):
    """A decision and its verdict, as the approval remembers them."""

    event_id: str
    delivery_id: str | None
    kind: DecisionKind
    actor: Identity
    verdict: VerdictKind
    received_at: datetime
    reason: str | None = None
    stage: Stage = Stage.CALL
    payload_sha256: str | None = None
    """What the decision was about."""
    problem: str | None = None
    """What was wrong with it, where something was."""
    proof: str | None = None
    """What proved the actor's identity."""

    @classmethod
    def of(cls, decision: Decision, verdict: VerdictKind, received_at: datetime, problem: str | None = None) -> Self:
        """What is remembered of a decision; of a long reason only its start, the audit has it whole."""
        return cls(
            event_id=decision.event_id,
            delivery_id=decision.delivery_id,
            kind=decision.kind,
            actor=decision.actor,
            verdict=verdict,
            received_at=received_at,
            reason=decision.reason[:200] if decision.reason else None,
            stage=decision.stage,
            payload_sha256=decision.payload_sha256,
            problem=problem[:500] if problem else None,
            proof=decision.proof,
        )


class RulingKind(StrEnum):
    """What is said of a frozen call."""

    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"
    RETRY = "retry"
    """It is to be tried again, under a new consent."""


class Ruling(Frozen):
    """What an operator says of a frozen call."""

    kind: RulingKind
    operator: Identity
    reason: Annotated[Text, StringConstraints(min_length=1)]
    """Why it is so, or how it was found out."""
    content: Any = None
    """The result, where the call was executed."""
    payload_hash: Id | None = None
    """The short hash of the payload, typed by the person who wants it tried again."""
    payload_sha256: Id | None = None
    """The payload that the operator was shown; a ruling about another one is refused."""
    retries: int | None = None
    """How often the call had been tried again when the operator looked; if it was again since, they must look anew."""
    ruling_id: Id | None = None
    """The same id is the same ruling."""
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"


class Settlement(Frozen):
    """How a review ended: what became of a call that was frozen."""

    approval_id: str
    kind: RulingKind
    """executed or not_executed."""
    content: Any = None
    truncated: bool = False
    """Whether `content` is only a preview; the whole is read with `handle.content()`."""
    settled_by: Identity | None = None
    """The operator, None where a probe found it out."""
    surface: Surface
    reason: str | None = None
    settled_at: datetime
    retried: bool = False
    """Whether the call was tried again, and this is what came of that."""
    also: tuple[str, ...] = ()
    """Other approvals that get the same answer: some of them, where there are many."""
    ruling_id: str | None = None
    """The ruling that settled it, where a person's did."""


class RuledKind(StrEnum):
    """What became of a ruling."""

    SETTLED = "settled"
    RETRYING = "retrying"
    ALREADY_SETTLED = "already_settled"
    FORBIDDEN = "forbidden"


class Ruled(Frozen):
    """What became of a ruling, and how the review stands."""

    kind: RuledKind
    settlement: Settlement | None = None
    consent: str | None = None
    """The consent under which the call is tried again, where that is so."""


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


class Awaited(Frozen):
    """Whom an approval waits for, and with what."""

    subject: Stage
    """What waits: the call, or its result."""
    deciders: Deciders
    approved_by: tuple[Identity, ...] = ()
    rejected_by: tuple[Identity, ...] = ()

    def asks(self, person: Identity) -> bool:
        """Whether it waits for this person, as far as can be said without asking a chat who belongs to it."""
        actor = person.within(self.deciders.requester.tenant_key)
        has_decided = any(actor.may_be(one) for one in self.approved_by) or actor.is_among(self.rejected_by)
        return not has_decided and self.deciders.include(actor)

    def chat_to_ask(self, person: Identity) -> str | None:
        """The chat that this person must belong to besides."""
        group = self.deciders.chat_to_ask(person.within(self.deciders.requester.tenant_key))
        return group.chat_id if group else None


class State(Frozen):
    """An approval as it stands."""

    approval_id: str
    phase: Phase
    tool: str
    requester: Identity
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
    grant_id: str | None = None
    edit: Edit | None = None
    result_sha256: str | None = None
    """The hash of the result that waits to be released, while it does."""
    result_deadline: datetime | None = None
    awaited: Awaited | None = None
    """Whom it waits for, while it does."""
    malformed: int = 0
    """Messages that could not be read and were set aside."""

    def awaits(self, person: Identity) -> bool:
        """Whether it waits for this person, as far as can be said without asking a chat who belongs to it."""
        return self.awaited is not None and self.awaited.asks(person)


class Outcome(Frozen):
    """How an approval ended, and what the agent gets."""

    approval_id: str
    status: Status
    content: Any = None
    """The tool's result; for other endings the tool's own words or a neutral sentence."""
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
        """False for executed and replayed only."""
        return self.status not in (Status.EXECUTED, Status.REPLAYED)
