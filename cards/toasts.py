"""What a person is told right after a click."""

from __future__ import annotations

from typing import Any

from assent.contracts.decision import DecisionKind, Stage, Verdict, VerdictKind
from assent.contracts.grants import RevokedKind
from assent.contracts.ruling import Ruled, RuledKind, RulingKind
from assent.contracts.status import Status
from assent.contracts.values import Frozen
from assent.safe import one_line, shortened
from cards.reasons import problems_of
from cards.wording import Both, Wording

TYPES = {
    VerdictKind.ACCEPTED: "success",
    VerdictKind.DUPLICATE: "info",
    VerdictKind.TAMPERED: "error",
    VerdictKind.ALREADY_DECIDED: "info",
    VerdictKind.SUPERSEDED: "warning",
    VerdictKind.EXPIRED: "warning",
    VerdictKind.MISSING: "warning",
    VerdictKind.FORBIDDEN: "error",
    VerdictKind.INVALID: "error",
    VerdictKind.RECEIVED: "info",
}

_RULED_TYPES = {
    RuledKind.SETTLED: "success",
    RuledKind.RETRYING: "success",
    RuledKind.ALREADY_SETTLED: "info",
    RuledKind.FORBIDDEN: "error",
}
_REVOKED = {
    RevokedKind.REVOKED: ("success", "toast.revoked"),
    RevokedKind.ALREADY_REVOKED: ("info", "toast.already_revoked"),
    RevokedKind.FORBIDDEN: ("error", "toast.forbidden_revoke"),
    RevokedKind.MISSING: ("warning", "toast.missing_grant"),
}
_REASON_CHARACTERS = 160
_REFUSED = {
    "wrong_hash": "toast.wrong_hash",
    "not_certain": "toast.not_certain",
    "tried_again": "toast.tried_again",
    "no_reason": "toast.no_reason",
    "bad_content": "toast.bad_content",
    "not_a_result": "toast.not_a_result",
    "tampered": "toast.tampered",
    "missing": "toast.missing_review",
}


class Toast(Frozen):
    """A short message over the chat, in the language of whoever clicked."""

    type: str
    content: str
    i18n: dict[str, str]

    @classmethod
    def of(cls, kind: str, text: Both) -> Toast:
        """A toast of one of Feishu's four types."""
        return cls(type=kind, content=text.en, i18n={"zh_cn": text.zh, "en_us": text.en})

    def answer(self) -> dict[str, Any]:
        """The answer to the callback. It never carries a card: only the workflow writes those."""
        return {"toast": self.model_dump()}


def toast(
    verdict: Verdict, kind: DecisionKind, wording: Wording, *, name: str | None = None, stage: Stage = Stage.CALL
) -> Toast:
    """What became of a decision.

    name: who decided, where somebody else did and the name is known.
    stage: what the decision was about.
    """
    return Toast.of(TYPES[verdict.kind], _text(verdict, kind, wording, name, stage))


def bundle_toast(verdicts: list[Verdict], wording: Wording) -> Toast:
    """What became of approving several calls at once."""
    accepted = sum(verdict.kind is VerdictKind.ACCEPTED for verdict in verdicts)
    if len({verdict.kind for verdict in verdicts}) == 1 and not accepted:
        return toast(verdicts[0], DecisionKind.APPROVE, wording)
    if accepted == len(verdicts):
        return Toast.of("success", wording("toast.approved_all", count=str(accepted)))
    return Toast.of("info", wording("toast.approved_some", accepted=str(accepted), count=str(len(verdicts))))


def revoked_toast(revoked: RevokedKind, wording: Wording) -> Toast:
    """What became of the wish to revoke a remembered decision."""
    kind, text = _REVOKED[revoked]
    return Toast.of(kind, wording(text))


def ruled_toast(ruled: Ruled, kind: RulingKind, wording: Wording, *, name: str | None = None) -> Toast:
    """What became of a ruling.

    name: who settled it, where somebody else did and the name is known.
    """
    was_late = ruled.kind is RuledKind.RETRYING and kind is not RulingKind.RETRY
    return Toast.of("info" if was_late else _RULED_TYPES[ruled.kind], _ruled_text(ruled, kind, wording, name))


def refused_ruling(why: str, wording: Wording) -> Toast:
    """Why a ruling could not be taken: one of the names in `UnfitRuling.why`, or `not_certain`, `tampered`, `missing`.

    Any other word is answered with the one thing that is certain: nothing was changed.
    """
    return Toast.of("error", wording(_REFUSED.get(why, "toast.ruling_refused")))


def unreadable(wording: Wording) -> Toast:
    """The answer to a click that is not about any approval of ours."""
    return Toast.of("warning", wording("toast.unreadable"))


def not_recorded(wording: Wording) -> Toast:
    """The answer to a click that could not be handed on."""
    return Toast.of("error", wording("toast.not_recorded"))


def not_in_time(wording: Wording) -> Toast:
    """The answer to a click on a review of which nobody can say yet what became of it."""
    return Toast.of("error", wording("toast.not_in_time"))


def _text(verdict: Verdict, kind: DecisionKind, wording: Wording, name: str | None, stage: Stage) -> Both:
    match verdict.kind:
        case VerdictKind.ACCEPTED:
            return _accepted(verdict, kind, wording, stage)
        case VerdictKind.INVALID if verdict.reason:
            said = problems_of(verdict.reason, wording)
            reason = Both(*(shortened(one_line(each), _REASON_CHARACTERS) for each in said))
            return wording("toast.invalid_because", reason=reason)
        case VerdictKind.SUPERSEDED if verdict.status is not Status.SUPERSEDED:
            return wording("toast.superseded_edit")
        case VerdictKind.ALREADY_DECIDED:
            return _decided_already(verdict, wording, name, stage)
        case _:
            return wording(f"toast.{verdict.kind}")


def _accepted(verdict: Verdict, kind: DecisionKind, wording: Wording, stage: Stage) -> Both:
    if stage is Stage.RESULT and kind is not DecisionKind.DELEGATE:
        return wording("toast.withheld" if kind is DecisionKind.REJECT else "toast.released")
    how = "_agent" if verdict.status is Status.APPROVED else _how_far(verdict)
    count = {"approvals": str(verdict.approvals), "needed": str(verdict.needed)} if how == "_more" else {}
    match kind:
        case DecisionKind.APPROVE:
            return wording(f"toast.approved{how}", **count)
        case DecisionKind.EDIT:
            return wording(f"toast.edited{how}", **count)
        case DecisionKind.DELEGATE:
            return wording("toast.delegated")
        case DecisionKind.REJECT:
            return wording("toast.rejected" if verdict.status is Status.REJECTED else "toast.rejected_more")


def _how_far(verdict: Verdict) -> str:
    """Whether it takes more people, some of this step or all of the next, by the ending of the text's name."""
    if verdict.status is not None or verdict.approvals >= verdict.needed:
        return ""
    return "_more" if verdict.approvals else "_next"


def _decided_already(verdict: Verdict, wording: Wording, name: str | None, stage: Stage) -> Both:
    is_open = verdict.status is None and verdict.decided_by is None and verdict.approvals < verdict.needed
    if is_open and stage is Stage.CALL:
        return wording("toast.counted_already")
    known = _known(name)
    said = wording("toast.already_decided_by", name=known) if known else wording("toast.already_decided")
    return said + wording("toast.now", state=wording(f"state.{verdict.status}")) if verdict.status else said


def _ruled_text(ruled: Ruled, kind: RulingKind, wording: Wording, name: str | None) -> Both:
    settled = ruled.settlement.kind if ruled.settlement else kind
    match ruled.kind:
        case RuledKind.SETTLED:
            return wording("toast.settled_executed" if settled is RulingKind.EXECUTED else "toast.settled_not_executed")
        case RuledKind.RETRYING:
            return wording("toast.retrying" if kind is RulingKind.RETRY else "toast.retried_since")
        case RuledKind.FORBIDDEN:
            return wording("toast.forbidden_ruling")
        case RuledKind.ALREADY_SETTLED:
            known = _known(name)
            said = wording("toast.already_settled_by", name=known) if known else wording("toast.already_settled")
            if ruled.settlement is None:
                return said
            state = "state.settled_executed" if settled is RulingKind.EXECUTED else "state.settled_not_executed"
            return said + wording("toast.now", state=wording(state))


def _known(name: str | None) -> str | None:
    return shortened(one_line(name.strip()), 40) if name and name.strip() else None
