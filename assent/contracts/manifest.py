"""What a tool says of itself."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any

from assent.contracts.approvers import Approvers
from assent.contracts.permission import Permission
from assent.contracts.presentation import Presentation
from assent.contracts.values import Frozen
from assent.payload import canonical_json, sha256


class Risk(StrEnum):
    """How much harm a call can do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Definition(Frozen):
    """A tool, as models are told of it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""


class Program(Frozen):
    """A program that a tool is: run with an argument vector, never by a shell."""

    vector: tuple[str, ...]
    """Its name and arguments, in which `{name}` stands for an argument of the call."""
    cwd: str | None = None
    env: tuple[str, ...] = ()
    """Which of the worker's environment variables it gets, by their names."""
    failure_codes: tuple[int, ...] = ()
    """Exit codes that say for certain that it did nothing."""
    max_output: int
    """Bytes it may say before it is stopped."""
    returns_output: bool = False


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
    asks: timedelta = timedelta(0)
    """How long all questions together may take that the tool asks while it runs; none, if no time at all."""
    sensitive: tuple[str, ...]
    max_ttl: timedelta | None
    permission: Permission = Permission()
    presentation: Presentation = Presentation()
    """How its calls are read. Consent does not rest on it: what is approved are the arguments."""
    program: Program | None = None
    """The program that it is, if it is one."""
    is_consent_only: bool = False
    """Whether the agent makes the call itself, so that nothing runs here."""
    warnings: tuple[str, ...] = ()
    """What whoever decides should know of every call."""
    warns: bool = False
    """Whether the tool has a function that says, call by call, what else they should know."""

    @property
    def shown_sha256(self) -> str:
        """The hash of what consent rests on: a tool that changed in any of it is another tool."""
        rests_on = {"name", "parameters", "risk", "approvers", "retry_safe", "permission"}
        if self.program is not None:
            rests_on |= {"program", "timeout", "asks"}
        return sha256(canonical_json(self.model_dump(mode="json", include=rests_on)))
