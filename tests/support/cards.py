"""Plans and the cards that show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from assent.contracts.approvers import Approvers
from assent.contracts.decision import DecisionKind, Judged, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.plan import Plan
from assent.contracts.presentation import Presentation
from assent.payload import canonical_payload, sha256
from cards import Showing, Wording, card
from tests.support.card_rules import check, markdowns, objects, plain_texts

NOW = datetime(2026, 3, 15, 13, 42, tzinfo=UTC)


WORDING = Wording.load(None)


ARGUMENTS = {"customer": "acme", "amount": 120.5, "api_key": "hunter2-hunter2", "lines": [{"item": "Travel"}]}


APPROVED = Judged(
    event_id="e1",
    delivery_id="d1",
    kind=DecisionKind.APPROVE,
    actor=Identity(open_id="ou_ben"),
    verdict=VerdictKind.ACCEPTED,
    received_at=NOW,
)


REJECTED = APPROVED.model_copy(update={"kind": DecisionKind.REJECT, "reason": "Wrong amount."})


def plan(arguments: dict[str, Any] | None = None, **fields: Any) -> Plan:
    tool = fields.setdefault("tool", "send_invoice")
    arguments = ARGUMENTS if arguments is None else arguments
    payload = canonical_payload(tool, arguments)
    defaults: dict[str, Any] = {
        "approval_id": "inv-42",
        "request_sha256": "0" * 64,
        "description": "Send an invoice to a customer.\n\nMore about it.",
        "queue": "tools",
        "payload": payload,
        "payload_sha256": sha256(payload),
        "idempotency_key": "key",
        "manifest_sha256": "0" * 64,
        "requester": Identity(open_id="ou_ann"),
        "request_reason": "The customer asked for it.",
        "approvers": Approvers.of([Identity(open_id="ou_ben"), Identity(user_id="u_cat")]),
        "risk": Risk.MEDIUM,
        "sensitive": ("api_key",),
        "retry_safe": False,
        "attempts": 1,
        "has_probe": False,
        "deadline": NOW + timedelta(minutes=15),
        "timeout": timedelta(minutes=1),
        "start_within": timedelta(minutes=10),
        "heartbeat_timeout": timedelta(seconds=20),
        "grace": timedelta(seconds=3),
        "asked_at": NOW,
        "asked_by": "billing-agent",
        "presentation": Presentation(order=tuple(arguments)),
    }
    return Plan(**{**defaults, **fields})


def built(showing: Showing) -> dict[str, Any]:
    return check(card(showing, WORDING))


def said(shown: dict[str, Any], language: str = "en_us") -> str:
    return "\n".join([*plain_texts(shown, language), *markdowns(shown, language)])


def buttons(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in objects(shown) if each.get("tag") == "button"}


def values(card: Any) -> list[dict[str, Any]]:
    """What the buttons of a card send."""
    if isinstance(card, list):
        return [value for item in card for value in values(item)]
    if not isinstance(card, dict):
        return []
    own = [each["value"] for each in card.get("behaviors", ()) if each.get("type") == "callback"]
    return own + [value for item in card.values() for value in values(item)]
