"""What is known of the attempts to make a frozen call: what the workers reported, and what came late."""

from __future__ import annotations

import json
from typing import NamedTuple

from assent.contracts.review import Examined, FrozenCall, LateResult, SeenAttempt
from assent.reading import written
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened
from cards.elements import Element, box, div, local_time, markdown, panel, row
from cards.paragraphs import reason, said
from cards.wording import Wording

_EARLIER_BYTES = 240
_WORKER_CHARACTERS = 120
_EARLIER_WORKER_CHARACTERS = 40
_LATE_STATES = {"executed": "line.late_executed", "failed": "line.late_failed"}


class Room(NamedTuple):
    """How much of what others wrote a review's card repeats."""

    words: int
    """Bytes of one text."""
    earlier: int
    """Attempts before the last."""
    late: int
    """Late truths."""


AMPLE = Room(words=700, earlier=3, late=3)
TIGHT = Room(words=200, earlier=0, late=1)
"""For a card that would be too large otherwise."""


def reported(frozen: FrozenCall, examined: Examined, wording: Wording, room: Room) -> list[Element]:
    """What the worker last reported, and folded what was reported before."""
    *earlier, last = examined.attempts or (None,)
    shown: list[Element] = []
    if frozen.error and not (last and last.error == frozen.error):
        shown += said("card.error", frozen.error, wording, room.words)
    if last is not None:
        shown += _last(last, wording, room)
    known = [seen for seen in earlier if seen is not None]
    return [*shown, _earlier(known, wording, room)] if known else shown


def _last(seen: SeenAttempt, wording: Wording, room: Room) -> list[Element]:
    rows = [div(wording("card.attempt", count=str(seen.attempt)))]
    if seen.worker:
        rows.append(row(wording("card.worker"), div(one_line(shortened(seen.worker, _WORKER_CHARACTERS)))))
    if seen.began_at:
        rows.append(row(wording("card.began"), markdown(local_time(seen.began_at))))
    if seen.ended_at:
        rows.append(row(wording("card.ended"), markdown(local_time(seen.ended_at))))
    if seen.error:
        rows += said("card.sight_error", seen.error, wording, room.words)
    rows.append(row(wording("card.body"), div(wording("card.body_ended" if seen.body_ended else "card.body_unknown"))))
    return rows


def _earlier(seen_attempts: list[SeenAttempt], wording: Wording, room: Room) -> Element:
    inside: list[Element] = []
    hidden = max(0, len(seen_attempts) - room.earlier)
    for seen in seen_attempts[hidden:]:
        inside.append(markdown(_on_one_line(seen), text_size="notation"))
        inside += reason(seen.error or "", _EARLIER_BYTES, wording, "grey")
    if hidden:
        inside.append(div(wording("card.more_attempts", count=str(hidden)), text_color="grey"))
    return panel(markdown(wording("card.earlier_attempts", count=str(len(seen_attempts)))), inside)


def _on_one_line(seen: SeenAttempt) -> str:
    """Which attempt, by which worker, from when to when; the same in every language."""
    worker = escaped(shortened(seen.worker, _EARLIER_WORKER_CHARACTERS)) if seen.worker else "–"
    began, ended = (local_time(at) if at else "…" for at in (seen.began_at, seen.ended_at))
    return f"**{seen.attempt}** · {worker} · {began} – {ended}"


def late_truths(examined: Examined, wording: Wording, room: Room) -> list[Element]:
    """What attempts that had been given up on said in the end."""
    found = sorted((late for seen in examined.attempts for late in seen.late), key=lambda late: late.at)
    hidden = max(0, len(found) - room.late)
    inside = [element for late in found[hidden:] for element in _late(late, wording, room)]
    if hidden:
        inside.append(div(wording("card.more_late", count=str(hidden)), text_color="grey"))
    if examined.did_not_run:
        inside.append(markdown(wording("line.did_not_run")))
    return [box(inside, "yellow-50")] if inside else []


def _late(late: LateResult, wording: Wording, room: Room) -> list[Element]:
    key = _LATE_STATES.get(late.state)
    line = wording(key) if key else wording("line.late", state=escaped(shortened(late.state, 40)))
    preview = _preview(late.content) if late.content is not None else late.error or ""
    return [
        markdown(line),
        markdown(local_time(late.at), text_size="notation"),
        *reason(preview, room.words, wording),
    ]


def _preview(content: str) -> str:
    """The beginning of a JSON text as people read it; one that was cut off stays as it is."""
    try:
        return written(json.loads(content))
    except (ValueError, RecursionError):
        return content
