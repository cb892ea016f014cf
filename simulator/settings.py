"""What the simulator is told, from `SIMULATOR_*` variables. It is a test double: no address may leave this machine."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class BadSettings(ValueError):
    """A variable does not say what it should; the message names it."""


@dataclass(frozen=True)
class Settings:
    """Every variable, and what holds without it."""

    port: int = 8400
    data: Path | None = None
    """An SQLite file that keeps messages, files and deliveries; without it they end with the process."""
    app_id: str = "cli_assent"
    app_secret: str = "secret"
    encrypt_key: str = "encrypt-key"
    """Empty: clicks go out in plaintext, unsigned, with the verification token."""
    verification_token: str = "verification-token"
    tenant_key: str = "tenant_1"
    callback_url: str = ""
    shortcuts: tuple[dict[str, Any], ...] = ()
    catalogue: dict[str, Any] | None = None
    """Where it is said what can be asked for, and how: a form for each that the page offers.

    `list` is GET for `{"tools": [{"name", "description", "parameters"}]}`, `url`, `headers` and `body` are a
    shortcut's, with the blanks `{tool}` and `{arguments}` besides.
    """
    links: tuple[dict[str, Any], ...] = ()
    limits: bool = True
    """Rate limits; off for benchmarks."""
    ping_seconds: int = 5
    """How often a long connection is told to ping. The platform says 120."""
    click_timeout: float = field(default=3.0, kw_only=True)
    """The platform's patience with an answer. Only a test has reason to shorten it."""

    def __post_init__(self) -> None:
        if self.callback_url:
            require_loopback(self.callback_url, "SIMULATOR_CALLBACK_URL")
        for shortcut in self.shortcuts:
            require_loopback(str(shortcut.get("url", "")), "SIMULATOR_SHORTCUTS")
        for address in ("list", "url") if self.catalogue else ():
            require_loopback(str((self.catalogue or {}).get(address, "")), "SIMULATOR_CATALOGUE")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        def said(name: str, default: str) -> str:
            return environ.get(f"SIMULATOR_{name}", default)

        data = said("DATA", "")
        return cls(
            port=_number("SIMULATOR_PORT", said("PORT", "8400")),
            data=Path(data) if data else None,
            app_id=said("APP_ID", cls.app_id),
            app_secret=said("APP_SECRET", cls.app_secret),
            encrypt_key=said("ENCRYPT_KEY", cls.encrypt_key),
            verification_token=said("VERIFICATION_TOKEN", cls.verification_token),
            tenant_key=said("TENANT_KEY", cls.tenant_key),
            callback_url=said("CALLBACK_URL", ""),
            shortcuts=_objects("SIMULATOR_SHORTCUTS", said("SHORTCUTS", "")),
            catalogue=next(iter(_objects("SIMULATOR_CATALOGUE", f"[{said('CATALOGUE', '')}]")), None),
            links=_objects("SIMULATOR_LINKS", said("LINKS", "")),
            limits=said("LIMITS", "on") != "off",
            ping_seconds=_number("SIMULATOR_PING_SECONDS", said("PING_SECONDS", "5")),
        )


def require_loopback(url: str, what: str) -> None:
    """Refuse any address that is not on this machine."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not is_loopback(parts.hostname or ""):
        raise BadSettings(f"{what} must be a loopback address such as http://127.0.0.1:8500/…, not {url!r}.")


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _number(variable: str, said: str) -> int:
    try:
        return int(said)
    except ValueError:
        raise BadSettings(f"{variable} must be a number, not {said!r}.") from None


def _objects(variable: str, said: str) -> tuple[dict[str, Any], ...]:
    try:
        parsed = json.loads(said or "[]")
    except ValueError:
        parsed = None
    if not isinstance(parsed, list) or not all(isinstance(item, dict) for item in parsed):
        raise BadSettings(f"{variable} must be a JSON list of objects.")
    return tuple(parsed)
