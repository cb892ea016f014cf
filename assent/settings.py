"""The service's own settings, from `ASSENT_*` variables."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


def _default_database() -> str:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return f"sqlite+aiosqlite:///{state / 'assent' / 'ledger.db'}"


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("must be positive")
    return value


def _seconds(value: object) -> object:
    try:
        return timedelta(seconds=float(value)) if isinstance(value, str) else value
    except ValueError:
        return value  # pydantic reads the other forms


Positive = Annotated[timedelta, BeforeValidator(_seconds), AfterValidator(_positive)]


class Settings(BaseSettings):
    """What an operator can set. Durations are seconds or ISO 8601 (`PT10M`)."""

    model_config = SettingsConfigDict(env_prefix="ASSENT_", frozen=True, extra="ignore")

    namespace: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "default"
    """The id space: calls of two namespaces never replay each other."""
    database_url: str = Field(default_factory=_default_database)
    """The ledger, in SQLAlchemy's form."""
    tools: Annotated[tuple[str, ...], NoDecode] = ()
    """The tool modules, comma-separated."""
    heartbeat_timeout: Annotated[Positive, Field(le=timedelta(seconds=25))] = timedelta(seconds=20)
    """How long a tool worker may be silent before it counts as dead."""
    start_within: Positive = timedelta(minutes=10)
    """How long after the decision a call may still begin."""
    grace: Positive = timedelta(seconds=3)
    """How long after the deadline an in-time decision may still arrive."""

    @field_validator("tools", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
