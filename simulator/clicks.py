"""What a person can click, the event that a click becomes, and what its answer does to the card."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from simulator import people
from simulator.cards import INTERACTIVE, MOST_BYTES, Element, check_card, components
from simulator.delivery import Courier, Outcome
from simulator.errors import Refused
from simulator.people import Person
from simulator.state import Delivery, Message, Simulator, compact

_TOASTS = ("info", "success", "error", "warning")

NOTICES = {
    "no_callback": (200340, "未配置卡片回调地址", "No callback address is configured for this card"),
    "timeout": (200341, "目标回调服务超时未响应", "The callback service did not answer in time"),
    "unreachable": (200342, "无法连接目标回调服务", "The callback service cannot be reached"),
    "bad_status": (200671, "目标回调服务返回了错误的状态码", "The callback service answered with an error status"),
    "bad_answer": (200672, "目标回调服务返回了错误的内容", "The callback service answered with something unreadable"),
    "bad_card": (200673, "目标回调服务返回了错误的卡片", "The callback service answered with a card that is not valid"),
    "expired": (200340, "卡片已过期，无法操作", "This card is too old to be clicked"),
}
"""The platform's own words to the person who clicked, in Chinese and English, by what went wrong."""


class Click(BaseModel):
    """A click as `/api/clicks` takes it."""

    model_config = ConfigDict(extra="forbid")

    message_id: str
    open_id: str
    value: dict[str, Any] | str | None = None
    name: str | None = None
    form_value: dict[str, Any] | None = None
    input_value: str | None = None
    option: str | None = None
    options: list[str] | None = None
    checked: bool | None = None
    force: bool = False
    """Send it although no client could: a forged or stale one."""


class CannotClick(Exception):
    """No person could click this: it is not on the card, or not for them."""


@dataclass(frozen=True)
class _Aim:
    """A click that found its place."""

    message: Message
    person: Person
    action: dict[str, Any]


async def click(simulator: Simulator, courier: Courier, asked: Click) -> dict[str, Any]:
    """Let a person click, and say what they would see."""
    aim = _aim(simulator, asked)
    event = _event(simulator, aim)
    if simulator.is_past_changing(aim.message) and not asked.force:
        return _unsent(event, "expired")
    about = {"chat_id": aim.message.chat_id, "message_id": asked.message_id, "open_id": asked.open_id}
    twice = simulator.faults.take("callback", about, frozenset({"duplicate_click"})) is not None
    deliveries = [courier.deliver(event, asked.message_id) for _ in range(2 if twice else 1)]
    outcomes = await asyncio.gather(*deliveries)
    results = [settle(simulator, outcome) for outcome in outcomes]
    simulator.tell(
        "click", chat_id=aim.message.chat_id, message_id=asked.message_id, open_id=asked.open_id, **results[0]
    )
    return results[0]


def settle(simulator: Simulator, outcome: Outcome) -> dict[str, Any]:
    """Do what the app answered: show its toast, put its card in place."""
    delivery = outcome.delivery
    toast, card_applied = None, False
    if outcome.answer is not None:
        try:
            toast = _toast(outcome.answer)
            card_applied = _apply_card(simulator, delivery, outcome.answer)
        except Refused as refused:
            delivery.error, delivery.answer = "bad_card", f"{delivery.answer}\n{refused.message}"
        except _BadAnswer:
            delivery.error = "bad_answer"
        if delivery.error:
            toast = None
            simulator.keep_delivery(delivery)
    return {
        "delivered": delivery.status is not None or delivery.error == "timeout",
        "status": delivery.status,
        "toast": toast,
        "card_applied": card_applied,
        "error": delivery.error,
        "notice": notice(delivery.error),
        "elapsed_ms": delivery.elapsed_ms,
        "event_id": delivery.event_id,
        "delivery_id": delivery.delivery_id,
    }


def notice(error: str | None) -> dict[str, Any] | None:
    """What the platform itself tells the person who clicked."""
    if error is None:
        return None
    code, zh, en = NOTICES[error]
    return {"code": code, "zh": zh, "en": en}


def _unsent(event: dict[str, Any], error: str) -> dict[str, Any]:
    return {
        "delivered": False,
        "status": None,
        "toast": None,
        "card_applied": False,
        "error": error,
        "notice": notice(error),
        "elapsed_ms": 0.0,
        "event_id": event["header"]["event_id"],
        "delivery_id": None,
    }


# What can be clicked


def _aim(simulator: Simulator, asked: Click) -> _Aim:
    message = simulator.messages.get(asked.message_id)
    person = people.find("open_id", asked.open_id)
    if message is None or person is None:
        raise KeyError(asked.message_id if message is None else asked.open_id)
    element = next(_candidates(message, asked), None)
    if not asked.force:
        chat = simulator.chat(message.chat_id)
        if chat is None or person.open_id not in chat.members:
            raise CannotClick(f"{person.open_id} is not in {message.chat_id}")
        if element is None:
            raise CannotClick("nothing on this card has this value or name")
        _require_clickable(message, element, asked)
    return _Aim(message, person, _action(message, element, asked))


def _candidates(message: Message, asked: Click) -> Iterator[Element]:
    """The elements of the card as it is now that fit what was asked for."""
    if message.msg_type != "interactive" or (asked.value is None and asked.name is None):
        return
    for element in components(message.content):
        if element.tag not in INTERACTIVE or (asked.name is not None and element.name != asked.name):
            continue
        if asked.value is not None and (element.callback is None or element.callback["value"] != asked.value):
            continue
        yield element


def _require_clickable(message: Message, element: Element, asked: Click) -> None:
    """What the client enforces before it sends anything."""
    if element.properties.get("disabled") is True:
        raise CannotClick(f"{element.path} is disabled")
    if not _is_submit(element):
        if element.form is not None:
            raise CannotClick(f"{element.path} stands in a form: only its submit button sends anything")
        if element.callback is None:
            raise CannotClick(f"{element.path} has no callback")
        if asked.form_value is not None:
            raise CannotClick(f"{element.path} does not submit a form")
        return
    filled = asked.form_value or {}
    fields = {str(field.name): field for field in _fields_of(message, element)}
    for name in filled.keys() - fields.keys():
        raise CannotClick(f"the form has no field {name}")
    for name, field in fields.items():
        given = filled.get(name, _untouched(field))
        if name in filled and not _is_offered(field, given):
            raise CannotClick(f"the field {name} does not offer this")
        if field.properties.get("required") is True and given in (None, "", []):
            raise CannotClick(f"the field {name} is required")
        if isinstance(given, str) and len(given) > field.properties.get("max_length", 1000) and field.tag == "input":
            raise CannotClick(f"the field {name} is too long")


def _untouched(field: Element) -> Any:
    """What a field holds before anybody fills it in; None for a choice that was not made."""
    kept = {"input": ("default_value", ""), "checker": ("checked", False)}
    if field.tag in ("select_static", "select_person"):
        return field.properties.get("initial_option")
    name, otherwise = kept.get(field.tag, ("selected_values", None))
    return field.properties.get(name, otherwise)


def _is_offered(field: Element, given: Any) -> bool:
    """Whether a choice is one of those that the client shows; without a list of people those of the chat."""
    if field.tag not in ("select_static", "select_person") or given in (None, ""):
        return True
    offered = [option.get("value") for option in field.properties.get("options") or []]
    if field.tag == "select_person" and not offered:
        return people.find("open_id", str(given)) is not None
    return given in offered


def _is_submit(element: Element) -> bool:
    return element.form is not None and element.properties.get("form_action_type") == "submit"


def _fields_of(message: Message, button: Element) -> Iterator[Element]:
    for element in components(message.content):
        if element.form is button.form and element.is_field:
            yield element


# The event


def _action(message: Message, element: Element | None, asked: Click) -> dict[str, Any]:
    value = asked.value
    if value is None and element is not None and element.callback is not None:
        value = element.callback["value"]
    action: dict[str, Any] = {"value": {} if value is None else value, "tag": element.tag if element else "button"}
    name = asked.name if element is None else element.name
    if name:
        action["name"] = name
    if element is not None and _is_submit(element):
        fields = {field.name: _untouched(field) for field in _fields_of(message, element)}
        untouched = {name: value for name, value in fields.items() if value is not None}
        action["form_value"] = {**untouched, **(asked.form_value or {})}
    elif asked.form_value is not None:
        action["form_value"] = asked.form_value
    for key in ("input_value", "option", "options", "checked"):
        if (given := getattr(asked, key)) is not None:
            action[key] = given
    return {**action, "timezone": "Asia/Shanghai"}


def _event(simulator: Simulator, aim: _Aim) -> dict[str, Any]:
    settings = simulator.settings
    return {
        "schema": "2.0",
        "header": {
            "event_id": secrets.token_hex(16),
            "token": settings.verification_token,
            "create_time": str(int(simulator.clock() * 1_000_000)),
            "event_type": "card.action.trigger",
            "tenant_key": settings.tenant_key,
            "app_id": settings.app_id,
        },
        "event": {
            "operator": {
                "tenant_key": settings.tenant_key,
                "open_id": aim.person.open_id,
                "union_id": aim.person.union_id,
                "user_id": aim.person.user_id,
            },
            "token": f"c-{secrets.token_hex(20)}",
            "action": aim.action,
            "host": "im_message",
            "context": {"open_message_id": aim.message.message_id, "open_chat_id": aim.message.chat_id},
        },
    }


# The answer


class _BadAnswer(Exception):
    """JSON, but not what an answer looks like."""


def _toast(answer: dict[str, Any]) -> dict[str, Any] | None:
    toast = answer.get("toast")
    if toast is None:
        return None
    if not isinstance(toast, dict) or toast.get("type", "info") not in _TOASTS:
        raise _BadAnswer
    words = toast.get("i18n") or {}
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise _BadAnswer
    if not isinstance(toast.get("content", ""), str) or not (toast.get("content") or words):
        raise _BadAnswer
    return {"type": toast.get("type", "info"), "content": toast.get("content", ""), "i18n": words}


def _apply_card(simulator: Simulator, delivery: Delivery, answer: dict[str, Any]) -> bool:
    card = answer.get("card")
    if card is None:
        return False
    if not isinstance(card, dict) or card.get("type") != "raw":
        raise _BadAnswer
    message = simulator.messages.get(delivery.message_id or "")
    if message is None:
        return False
    checked = check_card(card.get("data"))
    if len(compact(checked).encode()) > MOST_BYTES:
        raise Refused(230025, "The length of the message content reaches its limit.")
    simulator.revise(message, checked)
    return True
