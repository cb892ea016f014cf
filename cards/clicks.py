"""What comes in from Feishu once it is known to come from Feishu: clicks of ours, clicks of others, other events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, ValidationError

from assent import strict_json
from assent.contracts.decision import Decision, DecisionKind, Remember, Stage
from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id, Surface, Text
from assent.errors import Unhashable
from cards.answers import AnswerClick, answer_click
from cards.controls import MOST_REASON, VALUE_VERSION, is_ticked
from cards.editing import changed_in, filled_in
from cards.rulings import RulingClick

CLICK = "card.action.trigger"
_TRUSTED_AGE = timedelta(minutes=10)
"""How old the platform's own time of a click may be and still count as when it was received."""
_MOST_HASH = 64
_MOST_AT_ONCE = 50
_UNKNOWN_TIME = datetime.fromtimestamp(0, UTC)


class Challenge(Frozen):
    """Feishu asks whether this address is ours."""

    challenge: str


class Click(Frozen):
    """A person pressed a button of ours."""

    event_id: Id
    operator: Identity
    approval_id: Id
    kind: DecisionKind
    stage: Stage
    payload_sha256: Id
    message_id: Id
    chat_id: Id | None
    reason: Text | None
    occurred_at: datetime
    """When the platform says it happened; 1970 if it does not say."""
    proof: Id
    fields: dict[str, str] | None = None
    """What was typed into the fields in which arguments can be changed, by their names; of a click that approves the
    call as proposed, only what was changed."""
    remember: Remember | None = None
    persist_decision: bool = True
    delegate_to: Identity | None = None

    def decision(self, *, delivery_id: str, now: datetime) -> Decision:
        """The decision that this click makes."""
        is_recent = timedelta(0) <= now - self.occurred_at <= _TRUSTED_AGE
        return Decision(
            approval_id=self.approval_id,
            kind=self.kind,
            payload_sha256=self.payload_sha256,
            actor=self.operator,
            event_id=self.event_id,
            delivery_id=delivery_id,
            stage=self.stage,
            message_id=self.message_id,
            reason=self.reason,
            received_at=self.occurred_at if is_recent else now,
            surface=Surface.FEISHU,
            proof=self.proof,
            fields=self.fields,
            remember=self.remember,
            persist_decision=self.persist_decision,
            delegate_to=self.delegate_to,
            chat_id=self.chat_id,
        )


class BundleClick(Frozen):
    """A person approves several calls of one card at once."""

    event_id: Id
    operator: Identity
    bundle_id: Id
    approve: Annotated[tuple[tuple[Id, Id], ...], Field(min_length=1, max_length=_MOST_AT_ONCE)]
    """The approvals, each with the hash of the payload that was shown."""
    ask_again: bool = False
    """Whether a box of the card is ticked: then none of them is remembered."""
    message_id: Id
    chat_id: Id | None
    occurred_at: datetime
    """When the platform says it happened; 1970 if it does not say."""
    proof: Id

    def clicks(self) -> tuple[Click, ...]:
        """The same as one click on each."""
        shared = self.model_dump(include={"operator", "message_id", "chat_id", "occurred_at", "proof"})
        return tuple(
            Click(
                **shared,
                event_id=f"{self.event_id}:{place}",
                approval_id=approval_id,
                payload_sha256=payload_sha256,
                kind=DecisionKind.APPROVE,
                stage=Stage.CALL,
                reason=None,
                persist_decision=not self.ask_again,
            )
            for place, (approval_id, payload_sha256) in enumerate(self.approve)
        )


class RevokeClick(Frozen):
    """A person wants a remembered decision to count no longer."""

    event_id: Id
    operator: Identity
    grant_id: Id
    approval_id: Id | None = None
    """The approval on whose card that was."""
    message_id: Id
    chat_id: Id | None
    occurred_at: datetime
    """When the platform says it happened; 1970 if it does not say."""
    proof: Id


class ForeignClick(Frozen):
    """A true click whose value is not ours or cannot be read: answered, noted, and nothing else."""

    event_id: Id
    message_id: str | None
    why: str


class Event(Frozen):
    """Any other event."""

    event_id: Id
    event_type: str
    event: dict[str, Any]


def parse_event(
    envelope: dict[str, Any], *, proof: str, tenant_key: str | None
) -> Click | AnswerClick | RulingClick | RevokeClick | BundleClick | ForeignClick | Event:
    """Read an envelope whose sender, app and tenant are verified.

    proof: what verified it.
    tenant_key: the tenant its people belong to, if one is configured.
    Raises ValueError if it is no event at all.
    """
    header, event = part(envelope, "header"), part(envelope, "event")
    event_id, event_type = header.get("event_id"), header.get("event_type")
    if not isinstance(event_type, str):
        raise ValueError("the event has no type")
    known = Event.model_validate({"event_id": event_id, "event_type": event_type, "event": event})
    if event_type != CLICK:
        return known
    message_id = part(event, "context").get("open_message_id")
    try:
        return _click(known, _time(header.get("create_time")), proof, tenant_key)
    except (ValueError, RecursionError) as error:
        named = message_id if isinstance(message_id, str) else None
        return ForeignClick(event_id=known.event_id, message_id=named, why=_why(error))


def _click(
    known: Event, occurred_at: datetime, proof: str, tenant_key: str | None
) -> Click | AnswerClick | RulingClick | RevokeClick | BundleClick:
    action, context = part(known.event, "action"), part(known.event, "context")
    value = _object(action.get("value"), "the button's value")
    if value.get("assent") != VALUE_VERSION:
        raise ValueError("the button is not one of ours")
    if sum(name in value for name in ("review", "approval_id", "revoke", "bundle", "question")) > 1:
        raise ValueError("the button is two of ours at once")
    form = _object(action.get("form_value") or {}, "the form")
    operator = {key: found or None for key, found in part(known.event, "operator").items()}
    shared = {
        "event_id": known.event_id,
        "operator": Identity.model_validate({**operator, "tenant_key": tenant_key or None}),
        "payload_sha256": value.get("payload_sha256"),
        "message_id": context.get("open_message_id"),
        "chat_id": context.get("open_chat_id") or None,
        "reason": _typed(form, "reason", MOST_REASON),
        "occurred_at": occurred_at,
        "proof": proof,
    }
    if "review" in value:
        return _ruling_click(shared, value, form)
    if "bundle" in value:
        said = {"bundle_id": value["bundle"], "approve": value.get("approve"), "ask_again": is_ticked(form)}
        return BundleClick.model_validate({**shared, **said})
    if "question" in value:
        return answer_click(shared, value, form)
    if "revoke" in value:
        return RevokeClick.model_validate({**shared, "grant_id": value["revoke"], "approval_id": value.get("on")})
    asked = {"approval_id": value.get("approval_id"), "kind": value.get("decision"), "stage": value.get("stage")}
    return Click.model_validate({**shared, **asked, **_wishes(value, form, tenant_key)})


def _wishes(value: dict[str, Any], form: dict[str, Any], tenant_key: str | None) -> dict[str, Any]:
    """What a decision asks for besides yes or no."""
    wishes: dict[str, Any] = {
        "remember": value.get("remember"),
        "persist_decision": not is_ticked(form, value.get("again")),
    }
    if value.get("decision") == DecisionKind.EDIT:
        wishes["fields"] = filled_in(value.get("fields"), form)
    if value.get("decision") == DecisionKind.APPROVE and "fields" in value:
        wishes["fields"] = changed_in(value["fields"], value.get("shown"), form) or None
    if value.get("decision") == DecisionKind.DELEGATE and (chosen := form.get("delegate_to")):
        wishes["delegate_to"] = {"open_id": chosen, "tenant_key": tenant_key or None}
    return wishes


def _ruling_click(shared: dict[str, Any], value: dict[str, Any], form: dict[str, Any]) -> RulingClick:
    content = form.get("content")
    said = {
        "approval_id": value.get("review"),
        "kind": value.get("ruling"),
        "content_text": content.strip() or None if isinstance(content, str) else content,
        "payload_hash": _typed(form, "payload_hash", _MOST_HASH),
        "retries": value.get("retries"),
    }
    return RulingClick.model_validate({**shared, **said})


def part(whole: dict[str, Any], name: str) -> dict[str, Any]:
    """An object within another; an empty one where there is none."""
    found = whole.get(name)
    return found if isinstance(found, dict) else {}


def _object(value: object, what: str) -> dict[str, Any]:
    """The platform sends objects as they are, or as JSON in a string."""
    found = strict_json.parse(value, exact=False) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise ValueError(f"{what} is not an object")
    return found


def _typed(form: dict[str, Any], name: str, most: int) -> str | None:
    """What was typed into a field of a form, as every database can keep it."""
    given = form.get(name)
    if not isinstance(given, str):
        return None
    kept = "".join(c if c in "\t\n\r" or c >= " " else " " for c in given)
    return kept.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()[:most].strip() or None


def _time(given: object) -> datetime:
    """Feishu writes seconds, milli- or microseconds, by event."""
    text = str(given) if isinstance(given, str | int) else ""
    if not (text.isascii() and text.isdigit() and 10 <= len(text) <= 16):
        return _UNKNOWN_TIME
    seconds = int(text) / 10 ** (len(text) - 10)
    return datetime.fromtimestamp(seconds, UTC)


def _why(error: Exception) -> str:
    """What was wrong, without a word of what was sent."""
    if isinstance(error, ValidationError):
        return "unreadable: " + ", ".join(".".join(map(str, each["loc"])) or each["type"] for each in error.errors())
    return "unreadable: the value is no JSON" if isinstance(error, strict_json.NotJson | Unhashable) else str(error)
