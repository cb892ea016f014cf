"""What the command line says of decisions, rulings and grants, each in one sentence that says what to do next."""

from __future__ import annotations

from assent.contracts.decision import DecisionKind, Stage, Verdict, VerdictKind
from assent.contracts.grants import RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.ruling import Ruled, RuledKind, RulingKind, Settlement
from assent.contracts.status import Status
from assent.safe import one_line


def verdict_sentence(
    verdict: Verdict, approval_id: str, kind: DecisionKind, actor: Identity, stage: Stage = Stage.CALL
) -> str:
    """What became of a decision."""
    look = f"assent show {one_line(approval_id)}"
    match verdict.kind:
        case VerdictKind.ACCEPTED:
            return f"{_done(verdict, kind, stage)} What became of it: {look}"
        case VerdictKind.DUPLICATE:
            return f"This decision has already been counted. What became of it: {look}"
        case VerdictKind.RECEIVED:
            return f"Received; it waits until a worker judges it. What became of it: {look}"
        case VerdictKind.TAMPERED:
            what = "result that waits" if stage is Stage.RESULT else "call as it is now"
            return f"Not counted: the hash is not that of the {what}. Look at it again: {look}"
        case VerdictKind.FORBIDDEN:
            return f"Not counted: {one_line(str(actor))} may not decide this. Who may: {look}"
        case VerdictKind.INVALID:
            why = one_line(verdict.reason) if verdict.reason else "what it asks for is not possible"
            return f"Not counted: {why}. It still waits: {look}"
        case VerdictKind.ALREADY_DECIDED:
            return f"Not counted: {_already(verdict)}."
        case VerdictKind.SUPERSEDED:
            if verdict.status is Status.SUPERSEDED:
                return "Not counted: a newer request replaced this one."
            return f"Not counted: the arguments were changed meanwhile. Look at the call again: {look}"
        case VerdictKind.EXPIRED:
            return "Not counted: the deadline has passed."
        case VerdictKind.MISSING:
            return f"approval {one_line(repr(approval_id))} is not known."


def _done(verdict: Verdict, kind: DecisionKind, stage: Stage) -> str:
    match kind:
        case DecisionKind.APPROVE if stage is Stage.RESULT:
            return "Released: the agent gets the result."
        case DecisionKind.REJECT if stage is Stage.RESULT:
            return "Withheld: the agent does not get the result."
        case DecisionKind.DELEGATE:
            return "Left to somebody else."
        case DecisionKind.REJECT:
            return "Rejected." if verdict.status is Status.REJECTED else "Rejection counted; others decide too."
        case DecisionKind.APPROVE | DecisionKind.EDIT:
            done = "Approved" if kind is DecisionKind.APPROVE else "Approved with the changed arguments"
            waits = verdict.status is None and verdict.approvals < verdict.needed
            return f"{done}: {verdict.approvals} of {verdict.needed}." if waits else f"{done}."


def _already(verdict: Verdict) -> str:
    who = f"{one_line(str(verdict.decided_by))} has already decided" if verdict.decided_by else "it was already decided"
    return f"{who}, and it ended as {verdict.status}" if verdict.status else who


def ruled_sentence(
    ruled: Ruled, approval_id: str, operator: Identity, wanted: RulingKind | None = RulingKind.RETRY
) -> str:
    """What became of a ruling."""
    shown = f"assent show {one_line(approval_id)}"
    match ruled.kind:
        case RuledKind.SETTLED:
            return f"Settled: {happened(ruled.settlement)}."
        case RuledKind.RETRYING:
            if wanted is RulingKind.RETRY:
                return f"It is being tried again. What became of it: {shown}"
            return f"Not settled: it is being tried again, or was since you looked. Look anew: {shown}"
        case RuledKind.FORBIDDEN:
            return f"Not settled: {one_line(str(operator))} is not an operator (ASSENT_OPERATORS)."
        case RuledKind.ALREADY_SETTLED:
            return f"Not settled: {settler(ruled.settlement)} has already settled it: {happened(ruled.settlement)}."


def happened(settlement: Settlement | None) -> str:
    """What a frozen call turned out to be."""
    if settlement is None:
        return "it is known what became of it"
    return "it was executed" if settlement.kind is RulingKind.EXECUTED else "it was not executed"


def settler(settlement: Settlement | None) -> str:
    """Who found it out."""
    person = settlement.settled_by if settlement else None
    return one_line(str(person)) if person else "the tool's probe"


def revoked_sentence(kind: RevokedKind, grant_id: str, actor: Identity) -> str:
    """What became of the wish to revoke a grant."""
    match kind:
        case RevokedKind.REVOKED:
            return f"Revoked {one_line(grant_id)}: from now on somebody is asked again."
        case RevokedKind.ALREADY_REVOKED:
            return f"{one_line(grant_id)} was already revoked."
        case RevokedKind.FORBIDDEN:
            return f"Not revoked: {one_line(grant_id)} is not for {one_line(str(actor))} to revoke."
        case RevokedKind.MISSING:
            return f"grant {one_line(repr(grant_id))} is not known. See: assent grants"
