"""Agents for tests: models that say what they were told to, and what they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assent.hitl import HitlRequest
from tests.support.waiting import until

Message = dict[str, Any]


class ScriptedModel:
    """Says one thing after the other; keeps the messages that it was shown."""

    def __init__(self, *script: Message | str | Callable[[list[Message]], Message | str]) -> None:
        self._script = list(script)
        self.seen: list[list[Message]] = []

    async def __call__(self, messages: list[Message], tools: list[dict[str, Any]]) -> Message | str:
        self.seen.append(messages)
        said = self._script.pop(0)
        return said(messages) if callable(said) else said


def calling(*calls: tuple[str, str, dict[str, Any]]) -> Message:
    """An assistant message that calls tools: id, name, arguments."""
    listed = [{"id": number, "name": name, "arguments": arguments} for number, name, arguments in calls]
    return {"role": "assistant", "content": "", "tool_calls": listed}


async def opened(asking: Any) -> HitlRequest:
    """The request that a channel or an agent waits for, as soon as there is one."""

    async def request() -> HitlRequest | None:
        found: HitlRequest | None = getattr(asking, "in_flight_hitl_request", getattr(asking, "in_flight", None))
        return found

    return await until(request)
