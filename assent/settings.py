"""The service's own settings, from `ASSENT_*` variables."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from assent.contracts.identity import Identity
from assent.files import MAX_BYTES
from assent.webhooks import signing_key


def _default_database() -> str:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return f"sqlite+aiosqlite:///{state / 'assent' / 'ledger.db'}"


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be positive")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError("must not be negative")
    return value


def _seconds(value: object) -> object:
    try:
        return timedelta(seconds=float(value)) if isinstance(value, str) else value
    except ValueError:
        return value  # pydantic reads the other forms


def _signing(secret: SecretStr) -> SecretStr:
    for each in secret.get_secret_value().split():
        signing_key(each)
    return secret


_DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}


def _domain(value: str) -> str:
    known = _DOMAINS.get(value, value).rstrip("/")
    parts = urlsplit(known)
    local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not local:
        raise ValueError("say feishu, lark, or an https address")
    return known


OptionalPath = Annotated[Path | None, BeforeValidator(lambda given: None if given == "" else given)]
"""A path, or nothing: a variable that is set to nothing names no file."""
NotNegative = Annotated[timedelta, BeforeValidator(_seconds), AfterValidator(_not_negative)]
Positive = Annotated[timedelta, BeforeValidator(_seconds), AfterValidator(_positive)]


class Settings(BaseSettings):
    """What an operator can set. Durations are seconds or ISO 8601 (`PT10M`)."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_", frozen=True, extra="ignore", hide_input_in_errors=True)

    namespace: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "default"
    """The id space: calls of two namespaces never replay each other."""
    database_url: str = Field(default_factory=_default_database)
    """The ledger, in SQLAlchemy's form."""
    tools: Annotated[tuple[str, ...], NoDecode] = ()
    """The tool modules, comma-separated."""
    heartbeat_timeout: Annotated[Positive, Field(le=timedelta(seconds=25))] = timedelta(seconds=20)
    """How long a tool worker may be silent before it counts as dead."""
    cached_workflows: Annotated[int, Field(ge=10)] = 1000
    """How many open approvals a worker keeps in memory; others are replayed when something happens to them."""
    start_within: Positive = timedelta(minutes=10)
    """How long after the decision a call may still begin."""
    grace: Positive = timedelta(seconds=3)
    """How long after the deadline an in-time decision may still arrive."""

    feishu_app_id: str = ""
    """The app that sends cards; without one, approvals are decided by other doors."""
    feishu_app_secret: SecretStr = SecretStr("")
    feishu_encrypt_key: SecretStr = SecretStr("")
    """Encrypts and signs callbacks; once set, nothing else is accepted."""
    feishu_verification_token: SecretStr = SecretStr("")
    """The token that callbacks carry."""
    feishu_domain: Annotated[str, AfterValidator(_domain)] = Field(default="feishu", validate_default=True)
    """`feishu`, `lark`, or an address of your own."""
    feishu_tenant_key: str = Field(default="", validate_default=True)
    """The company whose people are meant where an identity names no tenant; callbacks of others are refused."""
    operators: Annotated[tuple[Identity, ...], NoDecode] = ()
    """Who may settle frozen calls, separated by spaces: `open_id:ou_1 open_id:ou_2,union_id:on_2`."""
    operators_chat: str = ""
    """The chat where frozen calls are shown to the operators."""
    remind_every: Positive = timedelta(days=1)
    """How often the operators are reminded of a call that is still frozen."""
    question_remind_after: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """After which part of its time those are reminded who may answer a question; 0 for never."""
    sweep_every: Positive = timedelta(minutes=1)
    """How often calls are looked for whose approval was ended by hand while they ran."""
    audit_sinks: Annotated[tuple[str, ...], NoDecode] = ()
    """Where each entry of the audit also goes, comma-separated: `file:PATH`, an https address, or a Python function."""
    temporal_ui: str = ""
    """The address of Temporal's UI, for links to frozen calls."""
    texts: OptionalPath = None
    """A directory with texts that replace ours, `en.toml` and `zh-CN.toml`."""
    card_builder: str = ""
    """A Python function that frames cards: an entry point of `assent.card_builders`, or `module:function`."""
    policy: OptionalPath = None
    """The operator's rules, a TOML file that is read again when it changes."""
    policy_every: Positive = timedelta(seconds=2)
    """How often it is looked at."""
    remember_for: Positive = timedelta(days=7)
    """How long a decision is remembered where a rule does not say."""
    tokens: OptionalPath = None
    """The file with the tokens of the agents."""
    callback_secret: Annotated[SecretStr, AfterValidator(_signing)] = SecretStr("")
    """Signs completion callbacks of agents that have no secret of their own; two, separated by a space, both do.

    As Standard Webhooks are signed: `whsec_` and base64, or any text.
    """
    callback_secrets: OptionalPath = None
    """The file with the secrets of the agents, a TOML file that is read again when it changes."""
    requester_pending: Annotated[int, Field(ge=0)] = 100
    """How many approvals may be open on one person's behalf; 0 for any number."""
    chat_requests_per_hour: Annotated[int, Field(ge=0)] = 100
    """How many requests one chat, or one person in private, may be shown in an hour; 0 for any number."""
    files_ttl: NotNegative = timedelta(days=7)
    """How long a file that somebody shares with the bot can be used; 0 for ever."""
    files_max: Annotated[int, Field(ge=1, le=100 * 1024 * 1024)] = MAX_BYTES
    """How many bytes a file may hold that a tool is to read."""
    files_in_groups: bool = False
    """Whether files are also taken from groups, where somebody mentions the bot."""
    hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """The names under which the doors answer, comma-separated; without any, they answer under every name."""
    host: str = "127.0.0.1"
    """Where the API or the webhook listens."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """And on which port; else the API on 8500, the webhook on 8501."""

    @field_validator("feishu_tenant_key")
    @classmethod
    def _one_company(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("feishu_app_id") and not value.strip():
            raise ValueError(
                "say which company this app belongs to: without it, clicks of every other company would count. "
                "docs/feishu.md says where its key is found"
            )
        return value.strip()

    @field_validator("operators", mode="before")
    @classmethod
    def _people(cls, value: object) -> object:
        return tuple(Identity.parse(part) for part in value.split()) if isinstance(value, str) else value

    @field_validator("tools", "hosts", "audit_sinks", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
