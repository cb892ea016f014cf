"""What a person is told right after a click."""

from __future__ import annotations

from typing import Any

from assent.contracts import DecisionKind, Frozen, Ruled, RuledKind, RulingKind, Verdict, VerdictKind
from cards.safe import one_line, shortened
from cards.wording import Both, Wording

_TYPES = {
    VerdictKind.ACCEPTED: "success",
    VerdictKind.DUPLICATE: "info",
    VerdictKind.TAMPERED: "error",
    VerdictKind.ALREADY_DECIDED: "info",
    VerdictKind.SUPERSEDED: "warning",
    VerdictKind.EXPIRED: "warning",
    VerdictKind.MISSING: "warning",
    VerdictKind.FORBIDDEN: "error",
    VerdictKind.RECEIVED: "info",
}

_RULED_TYPES = {
    RuledKind.SETTLED: "success",
    RuledKind.RETRYING: "success",
    RuledKind.ALREADY_SETTLED: "info",
    RuledKind.FORBIDDEN: "error",
}
_REFUSED = {
    "wrong_hash": "toast.wrong_hash",
    "not_certain": "toast.not_certain",
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


def toast(verdict: Verdict, kind: DecisionKind, wording: Wording, *, name: str | None = None) -> Toast:
    """What became of a decision.

    name: who decided, where somebody else did and the name is known.
    """
    return Toast.of(_TYPES[verdict.kind], _text(verdict, kind, wording, name))


def ruled_toast(ruled: Ruled, kind: RulingKind, wording: Wording, *, name: str | None = None) -> Toast:
    """What became of a ruling.

    name: who settled it, where somebody else did and the name is known.
    """
    return Toast.of(_RULED_TYPES[ruled.kind], _ruled_text(ruled, kind, wording, name))


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


def _text(verdict: Verdict, kind: DecisionKind, wording: Wording, name: str | None) -> Both:
    if verdict.kind is VerdictKind.ACCEPTED:
        return wording("toast.approved" if kind is DecisionKind.APPROVE else "toast.rejected")
    if verdict.kind is not VerdictKind.ALREADY_DECIDED:
        return wording(f"toast.{verdict.kind}")
    known = _known(name)
    said = wording("toast.already_decided_by", name=known) if known else wording("toast.already_decided")
    return said + wording("toast.now", state=wording(f"state.{verdict.status}")) if verdict.status else said


def _ruled_text(ruled: Ruled, kind: RulingKind, wording: Wording, name: str | None) -> Both:
    settled = ruled.settlement.kind if ruled.settlement else kind
    match ruled.kind:
        case RuledKind.SETTLED:
            return wording("toast.settled_executed" if settled is RulingKind.EXECUTED else "toast.settled_not_executed")
        case RuledKind.RETRYING:
            return wording("toast.retrying")
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
