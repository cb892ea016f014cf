"""The ledger's tables. Times are ISO 8601 in UTC; JSON is canonical text."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text, text


class ClaimState(StrEnum):
    """Where the right to run once stands."""

    STARTED = "started"
    EXECUTED = "executed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CLOSED = "closed"
    """It never ran and never will; `answer` says what was told instead, if anything."""


ACTIVE = frozenset({ClaimState.STARTED, ClaimState.EXECUTED, ClaimState.UNKNOWN})
"""The states in which a claim keeps its key."""
VERSION = "0021"
"""The newest migration: what a database must be at for this code to use it."""

metadata = MetaData()

approvals = Table(
    "approvals",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("request_sha256", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("thread_id", Text),
    Column("requester", Text, nullable=False),
    Column("plan", Text),
    Column("refused", Text),
    Column("created_at", Text, nullable=False),
    Column("open_until", Text, nullable=False),
    Column("status", Text),
    Column("outcome", Text),
    Column("closed_at", Text),
    Column("revision", Integer, nullable=False, server_default="0"),
    Column("asked_by", Text),
    Column("temporal_namespace", Text),
    Column("unsealed_since", Text),
    Column("person", Text),
    Column("chat_id", Text),
    Column("size", Integer, nullable=False, server_default="0"),
    Column("awaited", Text),
    Column("deciders", Text),
    Column("grant_id", Text),
    Index("approvals_of_agent", "asked_by", "created_at"),
    Index("approvals_of_chat", "chat_id", "created_at"),
    Index(
        "approvals_open_of_agent",
        "asked_by",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "approvals_open_of_person",
        "person",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "approvals_open",
        "created_at",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "approvals_open_in_thread",
        "thread_id",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "approvals_unsealed",
        "unsealed_since",
        sqlite_where=text("unsealed_since IS NOT NULL"),
        postgresql_where=text("unsealed_since IS NOT NULL"),
    ),
    Index(
        "approvals_by_grant",
        "grant_id",
        "created_at",
        sqlite_where=text("grant_id IS NOT NULL"),
        postgresql_where=text("grant_id IS NOT NULL"),
    ),
)

"""`plan` is the plan as it was prepared; `revision` says which edit of it stands, 0 if none does.

`temporal_namespace` is where its workflow lives; `unsealed_since` says since when its closed audit waits for its seal.
By `asked_by` (the agent), `person` (the requester's one id), `chat_id` (`chat:…` or `person:…`, who sees the card) and
`size` (the bytes that were asked with) quotas are counted. `awaited` says whom it waits for, while it does; `deciders`
whose it was to decide, where others than the plan names were called in.
"""

questions = Table(
    "questions",
    metadata,
    Column("record", Text, primary_key=True),
    Column("request_sha256", Text, nullable=False),
    Column("requester", Text, nullable=False),
    Column("thread_id", Text),
    Column("plan", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("open_until", Text, nullable=False),
    Column("status", Text),
    Column("outcome", Text),
    Column("closed_at", Text),
    Column("unsealed_since", Text),
    Column("temporal_namespace", Text),
    Column("consent", Text),
    Column("asked_by", Text),
    Column("person", Text),
    Column("chat_id", Text),
    Column("size", Integer, nullable=False, server_default="0"),
    Index("questions_of_agent", "asked_by", "created_at"),
    Index("questions_of_chat", "chat_id", "created_at"),
    Index(
        "questions_open_of_agent",
        "asked_by",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "questions_open_of_person",
        "person",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "questions_open_of_consent",
        "consent",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "questions_open",
        "created_at",
        sqlite_where=text("status IS NULL"),
        postgresql_where=text("status IS NULL"),
    ),
    Index(
        "questions_unsealed",
        "unsealed_since",
        sqlite_where=text("unsealed_since IS NOT NULL"),
        postgresql_where=text("unsealed_since IS NOT NULL"),
    ),
)
"""What people are asked that is no consent. `record` is what the audit, the messages and the inboxes call it; `consent`
is that of the running call whose tool asks, if one does. The other columns are as those of an approval."""

awaited_keys = Table(
    "awaited_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("approval_id", Text, primary_key=True),
    Index("awaited_keys_of_approval", "approval_id"),
)
"""By which ids of people, and which chats, an open approval is found by those it waits for."""

chats_seen = Table(
    "chats_seen", metadata, Column("chat_id", Text, primary_key=True), Column("seen_at", Text, nullable=False)
)
chat_members = Table(
    "chat_members",
    metadata,
    Column("chat_id", Text, primary_key=True),
    Column("open_id", Text, primary_key=True),
    Index("chat_members_by_person", "open_id"),
)
"""Who belonged to a chat when Feishu was asked last."""

revisions = Table(
    "revisions",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("event_id", Text, nullable=False),
    Column("payload_sha256", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Index("revisions_event", "approval_id", "event_id", unique=True),
)
"""What plans became when people changed their arguments."""

conversations = Table("conversations", metadata, Column("thread_id", Text, primary_key=True))
"""One row to lock per conversation, so that two requests cannot take its slot at once."""

thread_messages = Table(
    "thread_messages",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("message", Text, nullable=False),
)
"""What was said in the threads of agent loops that keep it here."""

thread_calls = Table(
    "thread_calls",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("tool_call_id", Text, primary_key=True),
    Column("is_begun", Integer, nullable=False),
)
"""The calls that those loops have begun."""

thread_holds = Table(
    "thread_holds",
    metadata,
    Column("thread_id", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("held_until", Text, nullable=False),
)
"""Who runs a thread, and until when nobody else may."""

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("run", Text, nullable=False),
    Column("consent", Text),
    Column("asked_by", Text),
    Column("started_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("exit_code", Integer),
    Column("output", LargeBinary),
)
"""Executions of programs. `consent` is that of the call, where it is one; `output` the last of what it said."""

_PENDING = text("is_over = 0")

interactions = Table(
    "interactions",
    metadata,
    Column("question_id", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("request_id", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("n", Integer, nullable=False),
    Column("is_over", Integer, nullable=False, server_default="0"),
    Column("state", Text, nullable=False),
    Column("line", Text),
    Column("answer", Text),
    Column("event_id", Text),
    Column("token", Text),
    Column("written_bytes", Integer),
    Column("at", Text),
    Index("interactions_of_run", "run_id", "n", unique=True),
    Index("interactions_named", "request_id"),
    Index(
        "interactions_one_pending_per_run",
        "run_id",
        unique=True,
        sqlite_where=_PENDING,
        postgresql_where=_PENDING,
    ),
)
"""What runs ask, beside its question: where the line stands that answers it. `token` is whoever took it to write it."""

decisions = Table(
    "decisions",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("event_id", Text, primary_key=True),
    Column("judged", Text, nullable=False),
    Column("place", Integer, nullable=False, server_default="0"),
)
"""`place` orders decisions that were received at the same moment."""

_ACTIVE = text("state IN ('started', 'executed', 'unknown')")
_UNKNOWN = text("state = 'unknown'")
_STARTED = text("state = 'started'")
_MET = text("answer = 'unknown'")

claims = Table(
    "claims",
    metadata,
    Column("consent", Text, primary_key=True),
    Column("idempotency_key", Text, nullable=False),
    Column("approval_id", Text, nullable=False),
    Column("payload_sha256", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("holder", Text),
    Column("worker", Text),
    Column("activity", Text),
    Column("turn", Integer),
    Column("began_at", Text),
    Column("ended_at", Text),
    Column("content", LargeBinary),
    Column("note", Text),
    Column("authorize_url", Text),
    Column("error", Text),
    Column("answer", Text),
    Column("answered_by", Text),
    Column("sealed", Integer, nullable=False, server_default="0"),
    Column("released", Text),
    Column("scope_key", Text),
    Column("requester", Text),
    Column("begun_with", Text),
    Index("claims_one_active_per_key", "idempotency_key", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
    Index("claims_active_in_scope", "scope_key", sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
    Index("claims_unknown_payload", "payload_sha256", sqlite_where=_UNKNOWN, postgresql_where=_UNKNOWN),
    Index("claims_started", "began_at", sqlite_where=_STARTED, postgresql_where=_STARTED),
    Index("claims_answered_by", "answered_by", sqlite_where=_MET, postgresql_where=_MET),
)

"""A `sealed` claim's result is told only while `released` is that result's hash.

`scope_key` is the key without its requester, `requester` who it was, and `begun_with` who let it run and of which
conversation and tool call it is: only what was begun has them.
"""

claim_aliases = Table(
    "claim_aliases",
    metadata,
    Column("alias", Text, primary_key=True),
    Column("consent", Text, nullable=False),
)
"""What else calls are known by, and for each the consent that has it, for as long as the call of that is active."""

IS_ACTIVE = text("claims.state IN ('started', 'executed', 'unknown')")
"""Said in the words of the index, which is found by nothing else: not by parameters that mean the same."""
IS_UNKNOWN = text("claims.state = 'unknown'")

person_ids = Table(
    "person_ids",
    metadata,
    Column("tenant_key", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Index("person_ids_of_person", "tenant_key", "person"),
)
"""Who is who, as Feishu has proved it: typed ids, and for each the one that stands for the person."""

attempts = Table(
    "attempts",
    metadata,
    Column("consent", Text, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text),
    Column("worker", Text),
    Column("activity", Text),
    Column("turn", Integer),
    Column("state", Text, nullable=False),
    Column("began_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("body_ended", Integer, nullable=False, server_default="0"),
    Column("in_flight", Float),
    Index("attempts_holder", "holder", unique=True),
)
"""Every attempt that began; `state` is what it said of its own end, `began_at` is the database's time.

`in_flight` is for how many seconds after that it could take effect, as the tool that was run says; null: while it runs.
"""

late_results = Table(
    "late_results",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("consent", Text, nullable=False, index=True),
    Column("state", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("worker", Text),
    Column("content", LargeBinary),
    Column("note", Text),
    Column("authorize_url", Text),
    Column("error", Text),
)
"""What an attempt found out after it had been given up on."""

settlements = Table(
    "settlements",
    metadata,
    Column("consent", Text, primary_key=True),
    Column("settlement", Text, nullable=False),
    Column("entry", Text, nullable=False),
    Column("settled_at", Text, nullable=False),
    Column("told", Integer, nullable=False, server_default="0"),
    Index("settlements_untold", "settled_at", sqlite_where=text("told = 0"), postgresql_where=text("told = 0")),
)
"""What became of frozen calls: one row for the claim that everybody who waits is led to, however many they are.

`entry` is what the audit of each of them says; `told` is 1 once all of them have it, and their cards show it.
"""

retries = Table(
    "retries",
    metadata,
    Column("consent", Text, primary_key=True),
    Column("approval_id", Text, nullable=False, index=True),
    Column("idempotency_key", Text, nullable=False, index=True),
    Column("ruling", Text, nullable=False),
    Column("asked_at", Text, nullable=False),
    Column("namespace", Text),
)
"""Operators' words that a frozen call is to be tried again: promised from here on, made once they have a claim.

`namespace` is Temporal's, of the review that promised it and makes it.
"""

messages = Table(
    "messages",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("generation", Integer, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("tried_at", Text, nullable=False),
    Column("message_id", Text),
    Column("chat_id", Text),
    Column("shown", Text),
    Column("address", Text),
)
"""What was sent to Feishu. A row without a message id was tried: it may have arrived or not."""

grants = Table(
    "grants",
    metadata,
    Column("grant_id", Text, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("payload_sha256", Text),
    Column("granted", Text, nullable=False),
    Column("granted_at", Text, nullable=False),
    Column("revoked_at", Text),
    Column("revoked_by", Text),
    Index("grants_of_tool", "tool", "payload_sha256"),
)
"""Decisions that are remembered: `granted` is the grant as it was given."""

policies = Table(
    "policies",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("since", Text, nullable=False),
)
"""Every policy that was in force, in order; the last one is."""

shared_files = Table(
    "shared_files",
    metadata,
    Column("file_id", Text, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("file_key", Text, nullable=False),
    Column("resource_type", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("media_type", Text),
    Column("size", Integer),
    Column("chat_id", Text),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("pinned", Integer, nullable=False),
    Column("meta", Text, nullable=False),
    Index("shared_files_of_message", "message_id", "file_key"),
    Index(
        "shared_files_expiring",
        "expires_at",
        sqlite_where=text("expires_at <> 0"),
        postgresql_where=text("expires_at <> 0"),
    ),
)
"""What people sent to the bot: times are seconds since 1970, `expires_at` 0 is never."""

shared_file_owners = Table(
    "shared_file_owners",
    metadata,
    Column("owner_key", Text, primary_key=True),
    Column("file_id", Text, primary_key=True),
    Column("message_id", Text, nullable=False),
    Column("file_key", Text, nullable=False),
    Index("shared_file_owners_of_file", "file_id"),
    Index("shared_file_owners_once", "owner_key", "message_id", "file_key", unique=True),
)
"""Whose each is: a row for each id of its owner. A person, a message and a file key have one file."""

file_pins = Table(
    "file_pins",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("file_id", Text, primary_key=True),
    Column("sha256", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("preview", Text),
    Column("until", Text, nullable=False),
    Index("file_pins_of_bytes", "sha256"),
)
"""Which bytes are kept for whom: `holder` is an approval, or nothing for the file's own sake.

`preview` is the image that Feishu shows of it; `until` is when an approval that was never stored is given up.
"""

file_chunks = Table(
    "file_chunks",
    metadata,
    Column("sha256", Text, primary_key=True),
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
    Column("written_at", Text, nullable=False),
)
"""The bytes themselves, once for each hash, however many keep them."""

overrides = Table(
    "overrides",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("tool", Text, nullable=False, index=True),
    Column("once", Text, nullable=False, unique=True),
    Column("until", Text),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
"""Every override of a tool's permission, chained to each other; the last of a tool is in force until it expires."""

catalogue = Table(
    "catalogue",
    metadata,
    Column("name", Text, primary_key=True),
    Column("manifest", Text, nullable=False),
    Column("published_at", Text, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("approval_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("once", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("audit_once", "approval_id", "once", unique=True),
)

audit_sinks = Table(
    "audit_sinks",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text),
    Column("held_until", Text),
)
"""Where each entry of the audit goes besides, and which process brings it there just now."""

audit_outbox = Table(
    "audit_outbox",
    metadata,
    Column("sink", Text, primary_key=True),
    Column("approval_id", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
)
"""Entries of the audit that a sink has not taken yet."""

seals = Table(
    "seals",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("approval_id", Text, nullable=False, index=True),
    Column("entries", Integer, nullable=False),
    Column("head", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("outcome_sha256", Text),
)
"""The closing heads of the approvals' audits and what stands for their outcomes, chained to each other."""
