"""What a call returned, without the values that are nobody's to see."""

from __future__ import annotations

import json
from typing import Any

from assent.contracts import Plan
from cards.arguments import MASK, written

_SHORTEST = 4
"""Characters from which on a hidden value is also looked for within other texts."""


class Mask:
    """The sensitive values of one call, to be hidden wherever they appear."""

    def __init__(self, plan: Plan) -> None:
        arguments: dict[str, Any] = json.loads(plan.payload)["arguments"]
        values = [leaf for name in plan.sensitive if name in arguments for leaf in _leaves(arguments[name])]
        self._values = [value for value in values if value not in ("", None, True, False)]
        texts = {value if isinstance(value, str) else json.dumps(value) for value in self._values}
        texts |= {json.dumps(text)[1:-1] for text in texts} | {
            json.dumps(text, ensure_ascii=False)[1:-1] for text in texts
        }
        self._texts = sorted((text for text in texts if len(text) >= _SHORTEST), key=len, reverse=True)

    def text(self, text: str) -> str:
        """A text in which none of them stands."""
        for secret in self._texts:
            text = text.replace(secret, MASK)
        return MASK if text in self._values else text

    def json(self, data: bytes) -> str:
        """JSON as people read it, in which none of them stands."""
        try:
            return self.text(written(self._masked(json.loads(data))))
        except (ValueError, RecursionError):
            return self.text(data.decode("utf-8", "replace"))

    def start(self, data: bytes, most_bytes: int) -> str:
        """The beginning of JSON that is too large to be laid out, in which none of them stands, nor a part of one."""
        longest = max(map(len, self._texts), default=0)
        text = self.text(data[:most_bytes].decode("utf-8", "ignore"))
        return text[: max(0, len(text) - longest)]

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._masked(each) for each in value]
            case dict():
                return {self.text(name): self._masked(each) for name, each in value.items()}
            case None | bool():
                return value
            case _:
                return MASK if value in self._values else value


def _leaves(value: Any) -> list[Any]:
    match value:
        case list():
            return [leaf for each in value for leaf in _leaves(each)]
        case dict():
            return [leaf for each in value.values() for leaf in _leaves(each)]
        case _:
            return [value]
