"""Errors on their way over HTTP: problem details (RFC 9457) that become the same exceptions at the other end."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from assent.contracts.values import Frozen
from assent.errors import (
    ApprovalConflict,
    ApprovalInterrupted,
    ApprovalNotFound,
    AssentError,
    ConversationBusy,
    InteractionRefused,
    InvalidRequest,
    NotAllowed,
    NotFrozen,
    QuestionConflict,
    QuestionInterrupted,
    QuestionNotFound,
    QuotaExceeded,
    RulingRefused,
    Unavailable,
    Unhashable,
)

MEDIA_TYPE = "application/problem+json"


class Code(StrEnum):
    """What went wrong, in a word that programs can rely on."""

    MALFORMED = "malformed"
    INVALID_REQUEST = "invalid_request"
    UNHASHABLE = "unhashable"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    FORBIDDEN_OPERATOR = "forbidden_operator"
    FORBIDDEN_GRANT = "forbidden_grant"
    APPROVAL_NOT_FOUND = "approval_not_found"
    QUESTION_NOT_FOUND = "question_not_found"
    NO_SETTLEMENT = "no_settlement"
    NO_RESULT = "no_result"
    GRANT_NOT_FOUND = "grant_not_found"
    FILE_NOT_FOUND = "file_not_found"
    NO_SUCH_PATH = "no_such_path"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    APPROVAL_CONFLICT = "approval_conflict"
    QUESTION_CONFLICT = "question_conflict"
    CONVERSATION_BUSY = "conversation_busy"
    APPROVAL_INTERRUPTED = "approval_interrupted"
    QUESTION_INTERRUPTED = "question_interrupted"
    NOT_ENDED = "not_ended"
    NOT_FROZEN = "not_frozen"
    RULING_REFUSED = "ruling_refused"
    INTERACTION_NOT_FOUND = "HELIOS-HITL-404-INTERACTION_NOT_FOUND"
    INTERACTION_NOT_PENDING = "HELIOS-HITL-409-INTERACTION_NOT_PENDING"
    ANSWER_ALREADY_CONSUMED = "HELIOS-HITL-409-ANSWER_ALREADY_CONSUMED"
    RUN_NOT_ACTIVE = "HELIOS-TOOL-409-RUN_NOT_ACTIVE"
    LARK_SIGNATURE_INVALID = "HELIOS-HITL-401-LARK_SIGNATURE_INVALID"
    INTERACTION_EXPIRED = "HELIOS-HITL-408-INTERACTION_EXPIRED"
    TOO_LARGE = "too_large"
    QUOTA_EXCEEDED = "quota_exceeded"
    UNAVAILABLE = "unavailable"
    FAULT = "fault"


class Flaw(Frozen):
    """One thing that is wrong with what was sent."""

    path: str = Field(description="Where it is, such as $.arguments.amount.")
    problem: str


class Problem(Frozen):
    """What went wrong, what is certain, and what to do."""

    type: str = Field(description="A URI that names this kind of problem; it ends with the code.")
    title: str
    status: int
    detail: str
    code: Code
    certain: str = Field(description="What is certain nevertheless.")
    advice: str = Field(description="What to do.")
    approval_id: str | None = None
    question_id: str | None = None
    thread_id: str | None = None
    pending: str | None = Field(None, description="The open approval that holds the conversation.")
    how: str | None = Field(None, description="How the approval, or the question, was ended from outside.")
    why: str | None = Field(
        None, description="Why a ruling was refused: not_certain, wrong_hash, tried_again, or refused."
    )
    quota: str | None = Field(None, description="The quota that is used up.")
    limit: int | None = Field(None, description="How much it allows.")
    retry_after: int | None = Field(None, description="In how many seconds it is worth asking again.")
    errors: tuple[Flaw, ...] = ()


class _Kind(Frozen):
    """What all problems with one code have in common."""

    status: int
    title: str
    certain: str
    advice: str


_NOTHING = "Nothing was started and nothing was changed."
_STAYS_FROZEN = "Nothing was changed; the call stays frozen."
_KINDS = {
    Code.MALFORMED: _Kind(
        status=400, title="The request cannot be read", certain=_NOTHING, advice="Send a JSON object in UTF-8."
    ),
    Code.INVALID_REQUEST: _Kind(
        status=422,
        title="The request is not valid",
        certain=_NOTHING,
        advice="Correct what is named and send it again.",
    ),
    Code.UNHASHABLE: _Kind(
        status=422,
        title="A value cannot be carried exactly",
        certain=_NOTHING,
        advice="Send the value as a string; nobody could approve exactly what was meant otherwise.",
    ),
    Code.UNAUTHENTICATED: _Kind(
        status=401,
        title="The token is missing or not known",
        certain=_NOTHING,
        advice="Send the header Authorization: Bearer … with a token of this installation.",
    ),
    Code.FORBIDDEN: _Kind(
        status=403,
        title="The token does not reach that far",
        certain=_NOTHING,
        advice="Ask the operator to widen the token, or ask for something else.",
    ),
    Code.FORBIDDEN_OPERATOR: _Kind(
        status=403,
        title="Only operators settle frozen calls",
        certain=_STAYS_FROZEN,
        advice="Let one of the people in ASSENT_OPERATORS settle it.",
    ),
    Code.FORBIDDEN_GRANT: _Kind(
        status=403,
        title="Only who decided it, or an operator, revokes it",
        certain="The remembered decision still counts.",
        advice="Let one of them revoke it.",
    ),
    Code.APPROVAL_NOT_FOUND: _Kind(
        status=404,
        title="The approval is not known",
        certain="No approval with this id can be seen with this token.",
        advice="Check the id; in a path it is percent-encoded, a slash as %2F.",
    ),
    Code.QUESTION_NOT_FOUND: _Kind(
        status=404,
        title="The question is not known",
        certain="No question with this id can be seen with this token.",
        advice="Check the id; in a path it is percent-encoded, a slash as %2F.",
    ),
    Code.NO_SETTLEMENT: _Kind(
        status=404,
        title="There is nothing to be settled",
        certain="The approval is not frozen.",
        advice="See how it stands with GET /v1/approvals/{id}.",
    ),
    Code.NO_RESULT: _Kind(
        status=404,
        title="No result waits to be released",
        certain="Nothing of a result was told.",
        advice="See how it stands with GET /v1/approvals/{id}.",
    ),
    Code.GRANT_NOT_FOUND: _Kind(
        status=404,
        title="The remembered decision is not known",
        certain="Nothing was revoked.",
        advice="See those that this token may see with GET /v1/grants.",
    ),
    Code.FILE_NOT_FOUND: _Kind(
        status=404,
        title="There is no such file",
        certain="Nothing of a file was told.",
        advice="See those that the requester shared with GET /v1/files, or ask them to send it again.",
    ),
    Code.NO_SUCH_PATH: _Kind(status=404, title="There is nothing here", certain=_NOTHING, advice="See /docs."),
    Code.METHOD_NOT_ALLOWED: _Kind(
        status=405, title="The method is not known here", certain=_NOTHING, advice="See the header Allow, and /docs."
    ),
    Code.APPROVAL_CONFLICT: _Kind(
        status=409,
        title="The approval id belongs to another request",
        certain=_NOTHING,
        advice="Repeat the first request unchanged to attach to it, or choose a new id.",
    ),
    Code.QUESTION_CONFLICT: _Kind(
        status=409,
        title="The question id belongs to another question",
        certain="Nothing was asked.",
        advice="Repeat the first question unchanged to attach to it, or choose a new id.",
    ),
    Code.CONVERSATION_BUSY: _Kind(
        status=409,
        title="The conversation has an open request",
        certain="Nothing was asked.",
        advice='Wait for the open request, or ask with "when_pending": "supersede".',
    ),
    Code.APPROVAL_INTERRUPTED: _Kind(
        status=409,
        title="The approval was ended by hand",
        certain="Whether its call ran, only the ledger can tell.",
        advice="Do not repeat the call before an operator has checked.",
    ),
    Code.QUESTION_INTERRUPTED: _Kind(
        status=409,
        title="The question was ended by hand",
        certain="Nobody's answer was taken.",
        advice="Ask it again, under a new id.",
    ),
    Code.NOT_ENDED: _Kind(
        status=409,
        title="The approval has not ended",
        certain="It goes on.",
        advice="Wait for it with GET /v1/approvals/{id}?wait=30.",
    ),
    Code.NOT_FROZEN: _Kind(
        status=409,
        title="The approval is not frozen",
        certain=_NOTHING,
        advice="See how it stands with GET /v1/approvals/{id}.",
    ),
    Code.RULING_REFUSED: _Kind(
        status=409,
        title="The ruling cannot be taken as it is",
        certain=_STAYS_FROZEN,
        advice="Find out whether the call took effect, and say that; or type the payload's hash correctly.",
    ),
    Code.INTERACTION_NOT_FOUND: _Kind(
        status=404,
        title="The interaction is not known",
        certain="Nothing was written.",
        advice="Check that the run and the interaction belong together.",
    ),
    Code.INTERACTION_NOT_PENDING: _Kind(
        status=409,
        title="The interaction was cancelled",
        certain="Nothing more is written for it.",
        advice="See why with GET /internal/interactions/{id}.",
    ),
    Code.ANSWER_ALREADY_CONSUMED: _Kind(
        status=409,
        title="Another answer counts",
        certain="This one is not written.",
        advice="See who answered with GET /internal/interactions/{id}.",
    ),
    Code.RUN_NOT_ACTIVE: _Kind(
        status=409,
        title="The program has ended",
        certain="Nothing more is written to it, and its interaction is cancelled.",
        advice="Start it again, if that is what is wanted.",
    ),
    Code.LARK_SIGNATURE_INVALID: _Kind(
        status=401,
        title="The callback was not signed",
        certain="Nothing was written.",
        advice="Set an Encrypt Key in Feishu and here, or use the long connection.",
    ),
    Code.INTERACTION_EXPIRED: _Kind(
        status=408,
        title="The interaction has expired",
        certain="Nothing was written.",
        advice="Let the program ask again.",
    ),
    Code.TOO_LARGE: _Kind(
        status=413,
        title="The request is too large",
        certain=_NOTHING,
        advice="Store the large part elsewhere and pass a reference to it.",
    ),
    Code.QUOTA_EXCEEDED: _Kind(
        status=429,
        title="A quota is used up",
        certain=_NOTHING,
        advice="Wait as long as Retry-After says, or let open requests end; an operator can raise the quota.",
    ),
    Code.UNAVAILABLE: _Kind(
        status=503,
        title="Temporal or the workers did not answer",
        certain="What was sent durably before is not lost.",
        advice="Send the same again: under the same ids nothing happens twice.",
    ),
    Code.FAULT: _Kind(
        status=500,
        title="A fault of the service",
        certain="What was sent durably before is not lost.",
        advice="Send the same again: under the same ids nothing happens twice. If it stays, tell the operator.",
    ),
}


_WHY = {"NotCertain": "not_certain", "WrongHash": "wrong_hash", "TriedAgain": "tried_again"}
"""Why a ruling is refused: as the workflow says it, and as it travels."""


def problem(code: Code, detail: str, *, errors: tuple[Flaw, ...] = (), **about: str | int | None) -> Problem:
    """A problem with what its kind always says."""
    kind = _KINDS[code]
    return Problem(
        type=f"urn:assent:problem:{code}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        code=code,
        certain=kind.certain,
        advice=kind.advice,
        errors=errors,
        **about,
    )


def problem_of(error: AssentError) -> Problem:
    """An exception as it travels."""
    said = str(error)
    match error:
        case Unhashable():
            return problem(Code.UNHASHABLE, said, errors=(Flaw(path=error.path, problem=error.problem),))
        case InvalidRequest():
            return problem(Code.INVALID_REQUEST, said)
        case ApprovalConflict():
            return problem(Code.APPROVAL_CONFLICT, said, approval_id=error.approval_id)
        case ConversationBusy():
            return problem(Code.CONVERSATION_BUSY, said, thread_id=error.thread_id, pending=error.pending)
        case ApprovalNotFound():
            return problem(Code.APPROVAL_NOT_FOUND, said, approval_id=error.approval_id)
        case ApprovalInterrupted():
            return problem(Code.APPROVAL_INTERRUPTED, said, approval_id=error.approval_id, how=error.how)
        case QuestionConflict():
            return problem(Code.QUESTION_CONFLICT, said, question_id=error.question_id)
        case QuestionNotFound():
            return problem(Code.QUESTION_NOT_FOUND, said, question_id=error.question_id)
        case QuestionInterrupted():
            return problem(Code.QUESTION_INTERRUPTED, said, question_id=error.question_id, how=error.how)
        case InteractionRefused():
            return problem(Code(error.code), said, question_id=error.question_id)
        case NotFrozen():
            return problem(Code.NOT_FROZEN, said, approval_id=error.approval_id)
        case RulingRefused():
            why = _WHY.get(error.code, "refused")
            return problem(Code.RULING_REFUSED, error.why, approval_id=error.approval_id, why=why)
        case QuotaExceeded():
            return problem(
                Code.QUOTA_EXCEEDED, said, quota=error.quota, limit=error.limit, retry_after=error.retry_after
            )
        case NotAllowed():
            return problem(Code.FORBIDDEN, said)
        case Unavailable():
            return problem(Code.UNAVAILABLE, said)
        case _:
            return problem(Code.FAULT, "the service met an error that it does not know")


def error_of(found: Problem) -> AssentError:
    """The exception that a problem was, or stands for."""
    match found:
        case Problem(code=Code.UNHASHABLE, errors=(flaw, *_)):
            return Unhashable(flaw.path, flaw.problem)
        case Problem(code=Code.APPROVAL_CONFLICT, approval_id=str(approval_id)):
            return ApprovalConflict(approval_id)
        case Problem(code=Code.CONVERSATION_BUSY, thread_id=str(thread_id)):
            return ConversationBusy(thread_id, found.pending)
        case Problem(code=Code.APPROVAL_NOT_FOUND, approval_id=str(approval_id)):
            return ApprovalNotFound(approval_id)
        case Problem(code=Code.APPROVAL_INTERRUPTED, approval_id=str(approval_id)):
            return ApprovalInterrupted(approval_id, found.how or "ended")
        case Problem(code=Code.QUESTION_CONFLICT, question_id=str(question_id)):
            return QuestionConflict(question_id)
        case Problem(code=Code.QUESTION_NOT_FOUND, question_id=str(question_id)):
            return QuestionNotFound(question_id)
        case Problem(code=Code.QUESTION_INTERRUPTED, question_id=str(question_id)):
            return QuestionInterrupted(question_id, found.how or "ended")
        case Problem(question_id=str(question_id)) if found.code.startswith("HELIOS-"):
            return InteractionRefused(found.code.value, question_id)
        case Problem(code=Code.NOT_FROZEN | Code.NO_SETTLEMENT, approval_id=str(approval_id)):
            return NotFrozen(approval_id)
        case Problem(code=Code.RULING_REFUSED, approval_id=str(approval_id)):
            code = next((code for code, why in _WHY.items() if why == found.why), "Refused")
            return RulingRefused(approval_id, code, found.detail)
        case Problem(code=Code.QUOTA_EXCEEDED, quota=str(quota), limit=int(limit), retry_after=int(retry_after)):
            return QuotaExceeded(quota, limit, retry_after)
        case Problem(status=401 | 403):
            return NotAllowed(" ".join(f"{part.rstrip('.')}." for part in (found.detail, found.advice) if part))
        case Problem(status=400 | 413 | 422):
            return InvalidRequest(found.detail)
        case _:
            return Unavailable(found.detail)
