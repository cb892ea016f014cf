"""The door between the client and the approvals: what every way to them can do."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, Self

from pydantic import ValidationError

from assent.contracts.answers import Answer, AnswerVerdict, QuestionOutcome
from assent.contracts.approvers import Approvers
from assent.contracts.asking import QuestionState
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import Decision, DecisionKind, Verdict
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.outcome import Outcome
from assent.contracts.questions import Option, Question, QuestionRequest
from assent.contracts.request import Request
from assent.contracts.ruling import Ruled, Ruling, Settlement
from assent.contracts.signals import Withdrawal
from assent.contracts.state import PendingItem, State
from assent.contracts.values import Frozen, Surface
from assent.errors import InvalidRequest
from assent.payload import canonical_json, canonical_payload, sha256
from assent.sizes import DECISION, RULING, size


class Approval(Frozen):
    """One line of a list of approvals."""

    approval_id: str
    tool: str | None
    status: str
    """The status it ended with, or the phase it is in."""
    requester: str | None
    thread_id: str | None
    risk: str | None
    requested_at: datetime
    closed_at: datetime | None


class AskedQuestion(Frozen):
    """One line of a list of questions."""

    question_id: str
    status: str
    requester: str | None
    thread_id: str | None
    tool: str | None
    """The tool that asks while it runs, if one does."""
    asked_at: datetime
    closed_at: datetime | None


class FrozenReview(Frozen):
    """One line of a list of frozen calls."""

    approval_id: str
    review_id: str
    """The review's workflow in Temporal."""
    tool: str | None
    requester: str | None
    risk: str | None
    frozen_at: datetime


class ToolDescription(Frozen):
    """What an agent needs to know of a tool to ask for it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments, closed at every level."""
    risk: Risk
    approvers: Approvers.Kind
    """Who may decide; which people exactly is not the agent's concern."""
    retry_safe: bool
    max_ttl: timedelta | None
    """The longest that the tool lets a request wait."""

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        return cls(
            name=manifest.name,
            description=manifest.description,
            parameters=manifest.parameters,
            risk=manifest.risk,
            approvers=manifest.approvers.kind,
            retry_safe=manifest.retry_safe,
            max_ttl=manifest.max_ttl,
        )


class Questions(Protocol):
    """A way to questions. All raise what `assent.errors` lists, and nothing else."""

    async def ask(self, request: QuestionRequest) -> bool:
        """Start a question, or attach to it. Tells whether it is new."""

    async def outcome(self, question_id: str) -> QuestionOutcome:
        """Wait until it has ended, however long and through whatever restarts."""

    async def state(self, question_id: str) -> QuestionState:
        """The question as it stands."""

    async def answer(self, question_id: str, answer: Answer, *, answer_within: timedelta) -> AnswerVerdict:
        """Hand an answer to a question durably, and learn what became of it."""

    async def withdraw(self, question_id: str, withdrawal: Withdrawal) -> None:
        """Withdraw a question that nobody has answered."""

    def questions(self, *, status: str | None, thread_id: str | None, limit: int) -> AsyncIterator[AskedQuestion]:
        """The questions that are still known, open ones first."""

    def inbox(self, actor: Identity, *, thread_id: str | None) -> AsyncIterator[QuestionState]:
        """What is asked of this person, the oldest first."""

    async def audit(self, question_id: str) -> list[AuditRecord]:
        """What the audit says of one question."""


class Door(Protocol):
    """A way to the approvals. All raise what `assent.errors` lists, and nothing else."""

    @property
    def questions(self) -> Questions:
        """The way to questions."""

    may_decide_anything: bool
    """Whether it leads to Temporal itself: whoever has it is trusted with everything."""

    async def principal(self) -> str:
        """The agent that asks through it, by the name that the service knows it by; none over Temporal."""

    async def request(self, request: Request, *, in_doubt: bool) -> bool:
        """Start an approval, or attach to it. Tells whether it is new.

        in_doubt: whether it may be refused once it is looked at, so that this is worth waiting for.
        """

    async def request_many(self, requests: tuple[Request, ...]) -> None:
        """Start several approvals that share a card, or attach to them."""

    async def outcome(self, approval_id: str) -> Outcome:
        """Wait until the approval has ended, however long and through whatever restarts."""

    async def state(self, approval_id: str) -> State:
        """The approval as it stands."""

    async def submit(self, approval_id: str, decision: Decision, *, answer_within: timedelta) -> Verdict:
        """Hand a decision to an approval durably, and learn what became of it."""

    async def withdraw(self, approval_id: str, withdrawal: Withdrawal) -> None:
        """Withdraw a request that nobody has decided."""

    async def content(self, approval_id: str) -> str:
        """The whole result of an approval that has ended, as JSON."""

    async def files(self, requester: Identity, limit: int) -> list[FileSummary]:
        """The files that a person shared, the newest first."""

    async def file(self, requester: Identity, file_id: str) -> FileSummary | None:
        """One of them, if there is such a file of theirs."""

    def approvals(self, *, status: str | None, thread_id: str | None, limit: int) -> AsyncIterator[Approval]:
        """The approvals that are still known, open ones first."""

    async def tools(self) -> list[ToolDescription]:
        """The tools that can be asked for."""

    async def audit(self, approval_id: str) -> list[AuditRecord]:
        """What the audit says of one approval."""

    def frozen(self, *, limit: int) -> AsyncIterator[FrozenReview]:
        """The calls of which nobody knows whether they took effect."""

    async def settle(self, approval_id: str, ruling: Ruling) -> Ruled:
        """Say what became of a frozen call."""

    async def settled(self, approval_id: str) -> Settlement | None:
        """What was settled of a frozen call, if anything was."""

    async def settlement(self, approval_id: str) -> Settlement:
        """Wait until a frozen call is settled."""

    def inbox(self, actor: Identity, *, thread_id: str | None) -> AsyncIterator[PendingItem]:
        """What waits for this person's decision, calls and results, the oldest first."""

    async def result(self, approval_id: str, *, actor: Identity) -> str | None:
        """The result that waits to be released, as JSON, for whoever decides about it; None if none waits."""

    def grants(self) -> AsyncIterator[Grant]:
        """The decisions that were remembered, also those that no longer count."""

    async def revoke(
        self, grant_id: str, *, actor: Identity, surface: Surface, seen_on: str | None = None
    ) -> RevokedKind:
        """Let a remembered decision no longer count."""

    async def close(self) -> None:
        """Let go of connections."""


def check_decision(decision: Decision) -> None:
    """Refuse, before anything is sent, what could not be shown and hashed, or would not be looked at.

    An edit without arguments is sent: whoever judges it says that it is invalid, and it is on record.
    """
    if decision.arguments is not None:
        if decision.kind is not DecisionKind.EDIT:
            raise InvalidRequest(f"arguments: they belong to an edit; {decision.kind} would not look at them")
        canonical_payload("", decision.arguments)
    if size(decision) > DECISION:
        raise InvalidRequest(f"arguments: a decision holds at most {DECISION} bytes; propose the call anew")
    if decision.delegate_to is not None and decision.kind is not DecisionKind.DELEGATE:
        raise InvalidRequest(f"delegate_to: it belongs to delegate; {decision.kind} would not look at it")


def parse_questions(questions: object, **fields: Any) -> QuestionRequest:
    """Refuse, before anything starts, what could not be shown or answered."""
    if not isinstance(fields["requester"], Identity):
        raise InvalidRequest("requester: say on whose behalf the agent asks, as an Identity")
    given = [questions] if isinstance(questions, Question | Mapping) else questions
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidRequest("questions: a list is needed, of questions or of mappings")
    asked = [_question(place, each) for place, each in enumerate(given)]
    try:
        request = QuestionRequest.model_validate({**fields, "questions": asked})
        request.sha256  # noqa: B018 - refuses what cannot be hashed
        return request
    except ValidationError as error:
        raise invalid(error) from None


def _question(place: int, given: object) -> Question:
    if isinstance(given, Question):
        return given
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"questions[{place}]: a question or a mapping is needed")
    _refuse_unknown(place, given, Question)
    for option in given.get("options") or ():
        if isinstance(option, Mapping):
            _refuse_unknown(place, option, Option)
    try:
        return Question.model_validate(dict(given))
    except ValidationError as error:
        wrong = invalid(error)
        raise InvalidRequest(f"questions[{place}]: {wrong}") from None


def _refuse_unknown(place: int, given: Mapping[str, Any], model: type[Question] | type[Option]) -> None:
    """A misspelt field would be lost in silence."""
    if unknown := sorted(map(str, given.keys() - model.model_fields.keys())):
        raise InvalidRequest(f"questions[{place}]: {', '.join(unknown)}: there is no such field")


def check_ruling(ruling: Ruling) -> None:
    """Refuse, before anything is sent, what no review would take."""
    if size(ruling) > RULING:
        raise InvalidRequest(
            f"content: a ruling holds at most {RULING} bytes; keep the large part elsewhere, and name it"
        )


def parse_request(**fields: Any) -> Request:
    """Refuse, before anything starts, what could not be shown, hashed or carried."""
    if not isinstance(fields["requester"], Identity):
        raise InvalidRequest("requester: say on whose behalf the agent asks, as an Identity")
    if not isinstance(fields["arguments"], dict):
        raise InvalidRequest("arguments: they must be a JSON object")
    canonical_payload(str(fields["tool"]), fields["arguments"])
    try:
        request = Request.model_validate(fields)
        request.sha256  # noqa: B018 - refuses what cannot be hashed
        return request
    except ValidationError as error:
        raise invalid(error) from None


MOST_CALLS = 50
"""How many calls may be asked for together."""
_OF_A_CALL = frozenset(Request.model_fields) - {"asked_by", "bundle_id"}


def parse_requests(
    calls: Sequence[Mapping[str, Any]], *, asked_by: str | None = None, **shared: Any
) -> tuple[Request, ...]:
    """Refuse, before anything starts, calls of which one could not be asked for.

    The calls of one bundle are known by their ids: asked for again under the same, they are the same bundle.
    """
    if isinstance(calls, str | Mapping) or not isinstance(calls, Sequence):
        raise InvalidRequest("calls: a list is needed, with one mapping for each call")
    if not 1 <= len(calls) <= MOST_CALLS:
        raise InvalidRequest(f"calls: from 1 to {MOST_CALLS} calls can be asked for together, not {len(calls)}")
    fields = [_fields_of(place, call, shared) for place, call in enumerate(calls)]
    ids = [each["approval_id"] for each in fields]
    for each in fields:
        each["approval_id"] = each["approval_id"] if each["approval_id"] is not None else str(uuid.uuid4())
    requests = [_numbered(place, each) for place, each in enumerate(fields)]
    if len({request.approval_id for request in requests}) < len(requests):
        raise InvalidRequest("calls: two of them have the same approval_id")
    named = None not in ids
    bundle_id = sha256(canonical_json(ids))[:32] if named else uuid.uuid4().hex
    company = {"bundle_id": bundle_id, "asked_by": asked_by}
    return tuple(request.model_copy(update=company) for request in requests)


def _fields_of(place: int, call: Mapping[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(call, Mapping):
        raise InvalidRequest(f"calls[{place}]: a mapping is needed, with tool and arguments")
    fields = {"approval_id": None, **shared, **call}
    if unknown := sorted(map(str, fields.keys() - _OF_A_CALL)):
        raise InvalidRequest(f"calls[{place}]: {', '.join(unknown)}: there is no such field in a request")
    if missing := [name for name in ("tool", "arguments", "requester") if name not in fields]:
        raise InvalidRequest(f"calls[{place}]: {', '.join(missing)} must be said")
    return fields


def _numbered(place: int, fields: dict[str, Any]) -> Request:
    try:
        return parse_request(**fields)
    except InvalidRequest as error:
        error.add_note(f"in calls[{place}]")
        raise


def invalid(error: ValueError) -> InvalidRequest:
    """What a model objects to, as one sentence with the paths."""
    if isinstance(error, ValidationError):
        return InvalidRequest("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()))
    return InvalidRequest(str(error))
