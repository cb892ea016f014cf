"""What people read of a call, without the values that are nobody's to see, wherever a tool repeats them."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from heapq import merge
from typing import Any
from urllib.parse import quote, quote_plus

from assent.contracts.decision import Judged
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.review import Examined, FrozenCall, LateResult, SeenAttempt
from assent.contracts.ruling import Settlement
from assent.contracts.state import State
from assent.payload import argument_values

MASK = "•••"
"""What stands in the place of a sensitive value."""
_SHORTEST = 4
"""Characters from which on a hidden value is also looked for within words."""
_FEW = 32
"""Up to so many are looked for one by one; more, at every place of the text."""
_MOST_LOOKS = 200_000
"""How often a text is compared with one of them in vain before all of it is hidden."""

_QUOTED, _AFTER_QUOTED = "input_value=", ", input_type="
"""Between what an error of Pydantic quotes what it was given."""


class Mask:
    """The sensitive values of one call, to be hidden wherever they appear.

    What it costs grows with the values and with the text, never with both at once: a call may hold thousands of
    values, and what comes back thousands of texts.
    """

    def __init__(self, payload: str | None, sensitive: Iterable[str], proposed: str | None = None) -> None:
        """proposed: the payload that was proposed before it was edited to this one."""
        self._payloads = [each for each in (payload, proposed) if each]
        self._sensitive = tuple(sensitive)

    @classmethod
    def of(cls, call: Plan | State) -> Mask:
        """Of a call, also those that were proposed before it was edited."""
        return cls(call.payload, call.sensitive, call.edit.proposed_payload if call.edit else None)

    @cached_property
    def _values(self) -> frozenset[Any]:
        known = [argument_values(each) for each in self._payloads if self._sensitive]
        leaves = [
            leaf
            for arguments in known
            for name in self._sensitive
            if name in arguments
            for leaf in _leaves(arguments[name])
        ]
        # By their kind: a 1 is a value like any other, and equal to True.
        return frozenset(leaf for leaf in leaves if leaf != "" and leaf is not None and not isinstance(leaf, bool))

    @cached_property
    def _secrets(self) -> _Secrets:
        return _Secrets({form for value in self._values for form in _forms(value)})

    def text(self, text: str) -> str:
        """A text in which none of them stands, nor the beginning of one where the text was cut off."""
        if not self._values:
            return text
        shown = self._hidden(_unquoted(text))
        return self._hidden(shown.removesuffix("…")) + "…" if shown.endswith("…") else shown

    def value(self, value: Any) -> Any:
        """A JSON value in which none of them stands."""
        match value:
            case str():
                return self.text(value)
            case list() | tuple():
                return [self.value(each) for each in value]
            case dict():
                return self._named(value)
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
        return examined.model_copy(update={"attempts": tuple(map(self._sight, examined.attempts))})

    def _sight(self, seen: SeenAttempt) -> SeenAttempt:
        late = tuple(map(self._late, seen.late))
        return seen.model_copy(update={"error": self._said(seen.error), "late": late})

    def _late(self, late: LateResult) -> LateResult:
        return late.model_copy(update={"content": self._json(late.content), "error": self._said(late.error)})

    def _json(self, text: str | None) -> str | None:
        """The beginning of a JSON text, or all of it."""
        try:
            return None if text is None else json.dumps(self.value(json.loads(text)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return self._said(text)

    def _hidden(self, text: str) -> str:
        parts, at = list[str](), 0
        for start, stop in self._secrets.within(text):
            parts += text[at:start], MASK
            at = stop
        return "".join((*parts, text[at:])) if parts else text

    def _named(self, value: dict[str, Any]) -> dict[str, Any]:
        """An object without them, in which names that are hidden stay several."""
        shown: dict[str, Any] = {}
        for name, each in value.items():
            hidden = self.text(name)
            shown[f"{hidden} {len(shown) + 1}" if hidden in shown else hidden] = self.value(each)
        return shown

    def _said(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)


class _Secrets:
    """Texts that are looked for all at once."""

    def __init__(self, texts: set[str]) -> None:
        self._sorted = sorted(text for text in texts if len(text) >= _SHORTEST)
        self._all = frozenset(texts)
        self._words = sorted({len(text) for text in texts if len(text) < _SHORTEST}, reverse=True)
        lengths: dict[str, set[int]] = {}
        for text in self._sorted:
            lengths.setdefault(text[:_SHORTEST], set()).add(len(text))
        self._lengths = {beginning: sorted(found, reverse=True) for beginning, found in lengths.items()}
        self._beginnings = {text[:_SHORTEST] for text in texts}

    def within(self, text: str) -> Iterator[tuple[int, int]]:
        """Where they stand in a text, and where its end cuts one off: from where to where, apart from each other.

        Where a text is made so that looking takes too long, the rest of it counts as one.
        """
        start = stop = -1
        looks = 0
        for at in self._beginning(text):
            looks += len(self._lengths.get(text[at : at + _SHORTEST], ()))
            end = self._at(text, at) if looks <= _MOST_LOOKS else len(text)
            if end is None:
                continue
            if at > stop:
                if stop > 0:
                    yield start, stop
                start = at
            stop = max(stop, end)
            if stop == len(text):
                break
        if stop > 0:
            yield start, stop

    def _beginning(self, text: str) -> Iterable[int]:
        """Where one of them may begin, in order."""
        if len(self._beginnings) > _FEW:
            return range(len(text))
        return merge(*(_places(text, beginning) for beginning in self._beginnings))

    def _at(self, text: str, at: int) -> int | None:
        """Where the longest of them ends that begins here, None if none does."""
        lengths = self._lengths.get(text[at : at + _SHORTEST])
        if lengths is not None:
            for length in lengths:
                if text[at : at + length] in self._all:
                    return at + length
            if self._is_cut_off(text, at):
                return len(text)
        if self._words and (at == 0 or not _is_word(text[at - 1])):
            for length in self._words:
                end = at + length
                if text[at:end] in self._all and not (end < len(text) and _is_word(text[end])):
                    return end
        return None

    def _is_cut_off(self, text: str, at: int) -> bool:
        """Whether one of them begins with all that is left of the text."""
        if len(text) - at > self._longest:
            return False
        rest = text[at:]
        found = bisect_left(self._sorted, rest)
        return found < len(self._sorted) and self._sorted[found].startswith(rest)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._sorted), default=0)


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _forms(value: Any) -> set[str]:
    """How a value may stand in a text: as it is, inside JSON, inside an address."""
    text = value if isinstance(value, str) else json.dumps(value)
    if text.isascii() and text.isalnum():
        return {text}
    inside = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return {text, *inside, quote(text, safe=""), quote(text), quote_plus(text)}


def _unquoted(text: str) -> str:
    """A text without what Pydantic quotes in its errors: of a long value both ends, and no mask knows how much."""
    before, *quoting = text.split(_QUOTED)
    rest = (_QUOTED + MASK + _AFTER_QUOTED + each.partition(_AFTER_QUOTED)[2] for each in quoting)
    return before + "".join(rest)


def _leaves(value: Any) -> list[Any]:
    """All that is in a value, the names in its objects too."""
    match value:
        case list():
            return [leaf for each in value for leaf in _leaves(each)]
        case dict():
            return [*value, *(leaf for each in value.values() for leaf in _leaves(each))]
        case _:
            return [value]
