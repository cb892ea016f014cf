"""What is said of a frozen call, and how its review ended."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import StringConstraints

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id, Surface, Text


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

    def is_by(self, ruling: Ruling) -> bool:
        """Whether it is this very ruling that settled it."""
        is_same = self.retried if ruling.kind is RulingKind.RETRY else self.kind is ruling.kind
        return is_same and ruling.ruling_id is not None and self.ruling_id == ruling.ruling_id


class RuledKind(StrEnum):
    """What became of a ruling."""

    SETTLED = "settled"
    RETRYING = "retrying"
    """It is being tried again, whoever's word that was; or was since whoever found something out had looked."""
    ALREADY_SETTLED = "already_settled"
    FORBIDDEN = "forbidden"


class Ruled(Frozen):
    """What became of a ruling, and how the review stands."""

    kind: RuledKind
    settlement: Settlement | None = None
    consent: str | None = None
    """The consent under which the call is tried again, where that is so."""

    @classmethod
    def of(cls, settlement: Settlement, ruling: Ruling | None) -> Ruled:
        """What becomes of a ruling on what is settled."""
        is_theirs = ruling is not None and settlement.is_by(ruling)
        return cls(kind=RuledKind.SETTLED if is_theirs else RuledKind.ALREADY_SETTLED, settlement=settlement)
