"""Misbehaviour on demand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Place = Literal[
    "token",
    "send",
    "reply",
    "patch",
    "message",
    "upload",
    "images",
    "bot",
    "download",
    "users",
    "members",
    "callback",
    "ws",
    "any",
]
Kind = Literal[
    "429",
    "ratelimit",
    "5xx",
    "html",
    "lost_answer",
    "slow",
    "refuse",
    "disconnect",
    "duplicate_click",
    "expired_token",
    "code",
    "half",
    "undeclared",
    "understated",
]

EVERY_KIND: frozenset[str] = frozenset(get_args(Kind))


class Fault(BaseModel):
    """One way to misbehave. `any` is any call of the API; clicks and long connections are named explicitly."""

    model_config = ConfigDict(extra="forbid")

    on: Place
    kind: Kind
    code: int | None = None
    """`half` ends a file in its middle, `undeclared` sends one without saying how large it is,
    `understated` says that it has at most one MiB, and sends all of it.

    For `code`: the business code. For `5xx`: the HTTP status, 500 if not said."""
    seconds: float | None = Field(default=None, ge=0)
    """For `slow`: how late the answer is. For `ratelimit`: what the header tells to wait."""
    probability: float = Field(default=1.0, ge=0, le=1)
    times: int | None = Field(default=None, ge=0)
    """How often it still happens; None for ever."""
    match: dict[str, str] = Field(default_factory=dict)
    """What the call must be about: `chat_id`, `message_id`, `open_id`."""


class Faults:
    """The faults in force, in order: the first that fits happens."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._dice = random.Random(0)

    @property
    def all(self) -> list[Fault]:
        return list(self._faults)

    def replace(self, faults: list[Fault]) -> None:
        """Put these in the place of the others. The dice start over, so that a run can be repeated."""
        self._faults = faults
        self._dice = random.Random(0)

    def take(self, on: str, about: Mapping[str, str | None], kinds: frozenset[str] = EVERY_KIND) -> Fault | None:
        """The fault of these kinds that happens to this call, if any. It is one time less in force."""
        for fault in self._faults:
            if fault.kind not in kinds or not self._fits(fault, on, about):
                continue
            if self._dice.random() >= fault.probability:
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None

    def _fits(self, fault: Fault, on: str, about: Mapping[str, str | None]) -> bool:
        if fault.times == 0:
            return False
        place_fits = fault.on == on or (fault.on == "any" and on not in ("callback", "ws"))
        return place_fits and all(about.get(key) == value for key, value in fault.match.items())
