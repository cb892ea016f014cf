"""What people read of a call, without the values that are nobody's to see, wherever a tool repeats them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

from assent.contracts import Judged, Outcome, Settlement
from assent.messages import Examined, FrozenCall, LateResult, Sight

MASK = "•••"
"""What stands in the place of a sensitive value."""
_SHORTEST = 4
"""Characters from which on a hidden value is also looked for within words."""
_MOST_LOOKS = 1000


class Mask:
    """The sensitive values of one call, to be hidden wherever they appear."""

    def __init__(self, payload: str | None, sensitive: Iterable[str]) -> None:
        arguments: dict[str, Any] = json.loads(payload)["arguments"] if payload else {}
        values = [leaf for name in sensitive if name in arguments for leaf in _leaves(arguments[name])]
        self._values = [value for value in values if value not in ("", None, True, False)]
        texts = {form for value in self._values for form in _forms(value)}
        self._texts = sorted((text for text in texts if len(text) >= _SHORTEST), key=len, reverse=True)
        words = sorted((re.escape(text) for text in texts if len(text) < _SHORTEST), key=len, reverse=True)
        self._words = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)") if words else None

    def text(self, text: str) -> str:
        """A text in which none of them stands, nor the beginning of one where the text was cut off."""
        if not self._values:
            return text
        for secret in self._texts:
            text = text.replace(secret, MASK)
        if self._words:
            text = self._words.sub(MASK, text)
        return self._without_a_beginning(text)

    def value(self, value: Any) -> Any:
        """A JSON value in which none of them stands."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.value(each) for each in value]
            case dict():
                return {self.text(name): self.value(each) for name, each in value.items()}
            case None | bool():
                return value
            case _:
                return MASK if value in self._values else value

    def address(self, url: str | None) -> str | None:
        """An address, or a mask in its place: with a part of it hidden it would lead elsewhere."""
        return url if url is None or self.text(url) == url else MASK

    def outcome(self, outcome: Outcome) -> Outcome:
        """An outcome as people may read it."""
        return outcome.model_copy(
            update={
                "content": self.value(outcome.content),
                "reason": self._said(outcome.reason),
                "withheld_reason": self._said(outcome.withheld_reason),
                "authorize_url": self.address(outcome.authorize_url),
            }
        )

    def settlement(self, settlement: Settlement) -> Settlement:
        """A settlement as people may read it."""
        said = {"reason": self._said(settlement.reason), "content": self.value(settlement.content)}
        return settlement.model_copy(update=said)

    def judged(self, judged: Judged) -> Judged:
        """A decision as people may read it."""
        return judged.model_copy(update={"reason": self._said(judged.reason)})

    def frozen(self, frozen: FrozenCall) -> FrozenCall:
        """A frozen call as people may read it."""
        return frozen.model_copy(update={"error": self._said(frozen.error), "seen": self.value(frozen.seen)})

    def examined(self, examined: Examined) -> Examined:
        """What the ledger knows of a frozen call, as people may read it."""
        return examined.model_copy(update={"sights": tuple(map(self._sight, examined.sights))})

    def _sight(self, sight: Sight) -> Sight:
        late = tuple(map(self._late, sight.late))
        return sight.model_copy(update={"error": self._said(sight.error), "late": late})

    def _late(self, late: LateResult) -> LateResult:
        return late.model_copy(update={"content": self._json(late.content), "error": self._said(late.error)})

    def _json(self, text: str | None) -> str | None:
        """The beginning of a JSON text, or all of it."""
        try:
            return None if text is None else json.dumps(self.value(json.loads(text)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self._said(text)

    def _said(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def _without_a_beginning(self, text: str) -> str:
        """A text that does not end within one of them, as one does that was cut off to fit."""
        end = "…" if text.endswith("…") else ""
        kept = text.removesuffix(end) if end else text
        for secret in self._texts:
            at = kept.find(secret[:_SHORTEST], max(0, len(kept) - len(secret) + 1))
            for _ in range(_MOST_LOOKS):
                if at < 0:
                    break
                if secret.startswith(kept[at:]):
                    return kept[:at] + MASK + end
                at = kept.find(secret[:_SHORTEST], at + 1)
        return text


def _forms(value: Any) -> set[str]:
    """How a value may stand in a text: as it is, inside JSON, inside an address."""
    text = value if isinstance(value, str) else json.dumps(value)
    inside = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {text, *inside, quote(text, safe=""), quote(text), quote_plus(text)}


def _leaves(value: Any) -> list[Any]:
    match value:
        case list():
            return [leaf for each in value for leaf in _leaves(each)]
        case dict():
            return [leaf for each in value.values() for leaf in _leaves(each)]
        case _:
            return [value]
