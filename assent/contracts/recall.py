"""What a door without a database asks the ledger."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import AwareDatetime

from assent.contracts.answers import Answer, AnswerVerdict
from assent.contracts.decision import Decision, DecisionKind, Stage, Verdict
from assent.contracts.grants import RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.policy import NewOverride, Overridden
from assent.contracts.review import ReviewRecord
from assent.contracts.values import Frozen, Id, Surface


class RecallKind(StrEnum):
    VERDICT = "verdict"
    """What a decision is told that came after the end."""
    ANSWER = "answer"
    """What an answer is told that came after the end."""
    REVOKE = "revoke"
    """End a remembered decision."""
    OVERRIDE = "override"
    """Override a tool's permission for a while."""
    REVIEW = "review"
    """Which review a frozen call has, and whether it is settled."""


class LateDecision(Frozen):
    """A decision that came after the end: who decided what about which payload, without any of the words."""

    approval_id: Id
    kind: DecisionKind
    payload_sha256: Id | None = None
    actor: Identity
    event_id: Id
    delivery_id: Id | None = None
    stage: Stage = Stage.CALL
    message_id: Id | None = None
    received_at: AwareDatetime | None = None
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"

    @classmethod
    def of(cls, decision: Decision) -> Self:
        return cls.model_validate({name: getattr(decision, name) for name in cls.model_fields})

    def decision(self) -> Decision:
        return Decision.model_validate(dict(self))


class LateAnswer(Frozen):
    """An answer that came after the end: who answered which questions, without any of the words."""

    question_id: Id
    questions_sha256: Id | None = None
    actor: Identity
    event_id: Id
    delivery_id: Id | None = None
    message_id: Id | None = None
    received_at: AwareDatetime | None = None
    surface: Surface = Surface.TEMPORAL
    proof: Id = "temporal"

    @classmethod
    def of(cls, answer: Answer) -> Self:
        return cls.model_validate({name: getattr(answer, name) for name in cls.model_fields})

    def answer(self) -> Answer:
        return Answer.model_validate({**dict(self), "answers": {}})


class Recall(Frozen):
    """A question to the ledger from a door that has no database. It lives in Temporal's history: ids and hashes only.

    What is read of the ledger is read from the ledger, never through here.
    """

    kind: RecallKind
    approval_id: str = ""
    decision: LateDecision | None = None
    answer: LateAnswer | None = None
    grant_id: str = ""
    actor: Identity | None = None
    """Who revokes a grant; `approval_id` then is the approval on whose card they did, if they did on one."""
    override: NewOverride | None = None
    surface: Surface = Surface.CLIENT


class Recalled(Frozen):
    """What the ledger says to a door that has no database."""

    verdict: Verdict | None = None
    answered: AnswerVerdict | None = None
    revoked: RevokedKind | None = None
    overridden: Overridden | None = None
    review: ReviewRecord | None = None
    redraw: tuple[str, ...] = ()
    """Approvals whose cards say something that is no longer so."""
