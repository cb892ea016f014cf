"""Questions for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from assent.contracts.address import Address, AddressKind
from assent.contracts.answers import Answer
from assent.contracts.approvers import Approvers, Deciders, DecidingGroup
from assent.contracts.asking import QuestionPlan
from assent.contracts.identity import Identity
from assent.contracts.questions import Option, Question, QuestionKind, canonical_questions
from assent.contracts.runs import AnswerType, AskingRun, RunHolder
from assent.payload import sha256

ASKER = Identity(open_id="ou_asker")
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
DEADLINE = NOW + timedelta(minutes=15)

WHERE = Question(
    id="where",
    prompt="Where should it go?",
    kind=QuestionKind.CHOICE,
    options=(Option(value="staging", label="Staging"), Option(value="production", description="Customers see it")),
)
SURE = Question(id="sure", prompt="Is the backup there?", kind=QuestionKind.CONFIRM)
WHY = Question(id="why", prompt="Why now?", kind=QuestionKind.TEXT, required=False, max_length=20)
PARTS = Question(
    id="parts",
    prompt="Which parts?",
    kind=QuestionKind.CHOICE,
    options=(Option(value="web"), Option(value="api"), Option(value="jobs")),
    multi_select=True,
    allow_input=True,
    max_length=20,
)
ALL = (WHERE, SURE, WHY, PARTS)
GOOD: dict[str, Any] = {"where": "staging", "sure": True, "parts": ("web", "jobs")}


def question_plan(*questions: Question, approvers: Approvers | None = None, **known: Any) -> QuestionPlan:
    asked = questions or ALL
    group = DecidingGroup(approvers=approvers or Approvers())
    fields: dict[str, Any] = {
        "question_id": "q-1",
        "request_sha256": "0" * 64,
        "questions": asked,
        "questions_sha256": sha256(canonical_questions(asked)),
        "requester": ASKER,
        "deciders": Deciders(requester=ASKER, groups=(group,)),
        "asked_at": NOW,
        "deadline": DEADLINE,
        "grace": timedelta(seconds=3),
        "addresses": (Address(kind=AddressKind.OPEN_ID, id="ou_asker"),),
    }
    return QuestionPlan(**{**fields, **known})


def asking_run(run_id: str = "r", request_id: str = "a", holder: RunHolder = RunHolder.CLIENT) -> AskingRun:
    """A run that asks for some words."""
    return AskingRun(
        run_id=run_id,
        holder=holder,
        tool="deploy.sh",
        tool_session_id="s",
        interaction_request_id=request_id,
        answer_type=AnswerType.TEXT,
    )


def answer_to(plan: QuestionPlan, answers: dict[str, Any] | None = None, **said: Any) -> Answer:
    fields: dict[str, Any] = {
        "question_id": plan.question_id,
        "questions_sha256": plan.questions_sha256,
        "answers": GOOD if answers is None else answers,
        "actor": ASKER,
        "event_id": "event-1",
        "delivery_id": "delivery-1",
        "received_at": NOW + timedelta(minutes=1),
    }
    return Answer(**{**fields, **said})
