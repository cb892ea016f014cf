"""Reading a conversation: which calls a model asked for, and which of them have no result yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from assent.errors import InvalidRequest
from assent.hitl.checkpoints import Message


@dataclass(frozen=True)
class LoopCall:
    """One call that a model asked for."""

    id: str
    name: str
    arguments: Any
    """A JSON object, if the model did as it should."""


def user_message(said: str | Mapping[str, Any]) -> Message:
    return {"role": "user", "content": said} if isinstance(said, str) else dict(said)


def assistant_message(said: Any, known: Iterable[Message]) -> Message:
    """What the model returned, as it is kept. Its calls have ids that no earlier call of the thread has.

    Raises InvalidRequest for what is no message.
    """
    if isinstance(said, str):
        return {"role": "assistant", "content": said}
    if not isinstance(said, Mapping) or said.get("role", "assistant") != "assistant":
        raise InvalidRequest("the model must return an assistant message: a mapping, or its text")
    message: Message = {"role": "assistant", **said}
    if not message.get("tool_calls"):
        return message
    try:
        calls = [dict(call) for call in message["tool_calls"]]
        called(message)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidRequest("tool_calls: each has an id, a name and arguments") from None
    taken = {call.id for each in known for call in called(each)}
    for call in calls:
        call["id"] = _unused(call["id"], taken)
        taken.add(call["id"])
    return {**message, "tool_calls": calls}


def _unused(call_id: str, taken: set[str]) -> str:
    """An id of its own for a call: consent to an earlier one is no consent to it."""
    number, unused = 2, call_id
    while unused in taken:
        number, unused = number + 1, f"{call_id}~{number}"
    return unused


def called(message: Message) -> list[LoopCall]:
    """The calls of a message, also in the form where each is a `function` with its arguments as a text."""
    return [_call(call) for call in message.get("tool_calls") or () if message.get("role") == "assistant"]


def _call(call: Mapping[str, Any]) -> LoopCall:
    named = call.get("function") or call
    arguments = named.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError):  # what is no JSON is refused where the tool is known: the model is told
            arguments = json.loads(arguments or "{}")
    call_id, name = call["id"], named["name"]
    if not (isinstance(call_id, str) and call_id and isinstance(name, str) and name):
        raise ValueError("an id and a name are texts")
    return LoopCall(id=call_id, name=name, arguments=arguments if arguments is not None else {})


def unresolved(messages: list[Message]) -> list[LoopCall]:
    """The calls of the last assistant message that have no result yet, in order."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") == "assistant":
            done = {each.get("tool_call_id") for each in messages[place + 1 :] if each.get("role") == "tool"}
            return [call for call in called(messages[place]) if call.id not in done]
    return []


def tool_message(call: LoopCall, content: Any, *, is_error: bool = False) -> Message:
    """The result of a call, as the model reads it."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text, "is_error": is_error}
