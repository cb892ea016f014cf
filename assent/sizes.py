"""How large what a workflow keeps may become, in bytes of JSON; and how deep.

Temporal refuses a message of two megabytes, and a task that would send one fails again and again, for good. So what is
kept is bounded as it comes in, and what does not fit is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel
from pydantic_core import from_json, to_json

DECISION = 224 * 1024
"""One decision: an edit carries all arguments of the call."""
ANSWER = 64 * 1024
"""One answer: all texts of a card."""
EDIT = 192 * 1024
"""Both payloads of an edit together: the one that was proposed, and the one it became."""
WAITING = 256 * 1024
"""All decisions that wait for what they are judged by."""
JUDGED = 96 * 1024
"""All verdicts that an approval remembers."""
UNWRITTEN = 288 * 1024
"""All that the ledger does not have yet."""
REFUSALS = 64 * 1024
"""How much of that may be about decisions that were refused: they crowd out none that count."""
RULING = 512 * 1024
"""What an operator says of a frozen call, with its result."""
CARDS = 64 * 1024
"""The messages of all cards that an approval sent and remembers."""
STANDING = 32 * 1024
"""What a call tells the bundle whose card it shares, and the other way round."""
BUNDLE = 768 * 1024
"""What a bundle keeps of all its calls, though of each it keeps whether it has ended."""
BATCH = 256 * 1024
"""What is written into the audit at once, though one entry goes in any case."""
CARRIED = 1600 * 1024
"""An approval with all that it takes along when it continues as new."""


_ENVELOPES = 20
"""More messages inside each other than anything ever travels in."""


def size(value: BaseModel) -> int:
    """How many bytes a message takes."""
    return len(value.__pydantic_serializer__.to_json(value))


def travels(data: bytes) -> bool:
    """Whether JSON can be read at the other end, inside the messages that carry it: readers limit the depth."""
    try:
        from_json(b"[" * _ENVELOPES + data + b"]" * _ENVELOPES)
    except ValueError:
        return False
    return True


def is_too_deep(value: BaseModel) -> bool:
    """Whether a message can be written and not be read again: whoever is handed it would fail for good."""
    return not travels(value.__pydantic_serializer__.to_json(value))


def total(values: Iterable[BaseModel]) -> int:
    return sum(map(size, values))


def text_size(*texts: str) -> int:
    """How many bytes texts take within a message."""
    return sum(len(to_json(text)) for text in texts)
