"""Frozen calls and the cards that operators get of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from assent.contracts.execute import ToolCall
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.review import Examined, FrozenCall, LateResult, SeenAttempt
from assent.contracts.ruling import RulingKind, Settlement
from assent.contracts.values import Surface
from cards import ReviewShowing, review_card
from tests.support.card_rules import check
from tests.support.cards import NOW, WORDING, plan

URL = "https://temporal.example/namespaces/default/workflows/frozen%2Fabc"


SETTLED = Settlement(
    approval_id="inv-42",
    kind=RulingKind.EXECUTED,
    content={"invoice": "2026-42"},
    settled_by=Identity(open_id="ou_olga"),
    surface=Surface.FEISHU,
    reason="It is in the outbox.",
    settled_at=NOW + timedelta(hours=2),
)


REFUTED = SETTLED.model_copy(update={"kind": RulingKind.NOT_EXECUTED, "content": None, "reason": "Nothing was sent."})


PROBED = SETTLED.model_copy(update={"settled_by": None, "surface": Surface.PROBE, "reason": None})


RETRIED = SETTLED.model_copy(update={"retried": True})


SEEN = SeenAttempt(
    consent="inv-42",
    state="unknown",
    attempt=2,
    worker="71@tools-1",
    began_at=NOW,
    ended_at=None,
    error="the worker went silent",
    body_ended=False,
)


ENDED = SEEN.model_copy(update={"body_ended": True, "ended_at": NOW + timedelta(seconds=30)})


LATE = LateResult(
    state="executed", at=NOW + timedelta(minutes=3), worker="71@tools-1", content='{"invoice":"2026-42"}', error=None
)


def frozen(of: Plan, **fields: Any) -> FrozenCall:
    defaults: dict[str, Any] = {
        "call": ToolCall.of(of),
        "queue": of.queue,
        "risk": of.risk,
        "has_cards": True,
        "has_probe": True,
        "probe_for": timedelta(hours=1),
        "heartbeat_timeout": of.heartbeat_timeout,
        "decided_by": Identity(open_id="ou_ben"),
        "error": "the tool did not answer within its time",
        "frozen_at": NOW + timedelta(minutes=1),
        "probes": 3,
    }
    return FrozenCall(**{**defaults, **fields})


def review(of: Plan | None = None, *seen: SeenAttempt, did_not_run: bool = False, **fields: Any) -> ReviewShowing:
    of = of or plan()
    examined = Examined(attempts=seen or (SEEN,), did_not_run=did_not_run)
    return ReviewShowing(**{"plan": of, "frozen": frozen(of), "examined": examined, "url": URL, **fields})


def shown(showing: ReviewShowing) -> dict[str, Any]:
    from simulator.cards import check_card

    return check_card(check(review_card(showing, WORDING)))
