"""Whose secret signs a completion callback: each agent's own, and two of them while one takes the other's place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from assent.contracts.values import Id
from assent.settings import Settings
from assent.watched import Watched
from assent.webhooks import signing_key

_MOST = 4
"""How many secrets of one agent may be valid at the same time."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    principal: Id
    secrets: Annotated[tuple[SecretStr, ...], Field(min_length=1, max_length=_MOST)]


class CallbackSecrets:
    """The secrets that callbacks are signed with."""

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError, a sentence, where the file cannot be used."""
        self._default = tuple(settings.callback_secret.get_secret_value().split())
        self._own = Watched(settings.callback_secrets, load) if settings.callback_secrets else None

    def of(self, principal: str | None) -> tuple[str, ...]:
        """All secrets that sign what this agent is told, the newest first; the installation's if it has none."""
        own = self._own.held.get(principal) if self._own and principal is not None else None
        return own or self._default


def load(path: Path) -> dict[str, tuple[str, ...]]:
    """Read the file. A ValueError says in one sentence what is wrong with it, and quotes no secret."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ValueError(f"{path} is not TOML") from None
    entries = found.pop("callback", [])
    if found or not isinstance(entries, list):
        raise ValueError(f"{path}: each agent is a table [[callback]] with principal and secrets")
    known: dict[str, tuple[str, ...]] = {}
    for n, given in enumerate(entries, 1):
        try:
            entry = _Entry.model_validate(given)
        except ValidationError as error:
            flaws = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
            raise ValueError(f"{path}, [[callback]] number {n}: {flaws}") from None
        secrets = tuple(secret.get_secret_value() for secret in entry.secrets)
        if entry.principal in known or not all(secrets):
            raise ValueError(f"{path}, [[callback]] number {n}: its principal is named twice, or a secret is empty")
        try:
            for secret in secrets:
                signing_key(secret)
        except ValueError as error:
            raise ValueError(f"{path}, [[callback]] number {n}: {error}") from None
        known[entry.principal] = secrets
    return known
