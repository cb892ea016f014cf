"""A naive model of one card of questions: which verdict each answer gets, and where the question stands.

It says what docs/questions.md, docs/programs.md and, of verdicts and their order, docs/guarantees.md and
docs/approvers.md say. Nothing is kept but the list of all that happened; every answer is computed from that list anew.

Not modelled: tenants, sizes, options named by their places, a Feishu that does not answer. Hence the verdicts
`received` and `missing` never occur.

Where the documents are silent:

S1  A text of spaces alone is left empty; the spaces around a text are not part of it, those of an option are.
S2  One option may be given as a list of one. The same option twice is given once.
S3  Where several may be chosen, own words are one of them, once; else they stand alone.
S4  An answer to a question that was not asked is invalid, and so is a text with control characters.
S5  Whether somebody is a member of the chat is asked last: whoever sends what cannot count is told why it cannot.
S6  An answer was given when its door says, but not before the question was open, nor after it arrived.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field

Given = bool | str | tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """One question of the card."""

    id: str
    kind: str  # `confirm`, `choice` or `text`
    options: tuple[str, ...] = ()
    multi_select: bool = False
    allow_input: bool = False
    required: bool = True
    max_length: int = 1000


@dataclass(frozen=True)
class Config:
    """What is fixed about the question."""

    questions: tuple[Asked, ...]
    shown: str  # the hash of the questions
    people: frozenset[str] | None  # who may answer; None: the members of the chat
    members: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()  # the messages on which it was shown
    deadline: float = 100.0
    opened: float = 0.0
    is_run: bool = False  # whether a running program asks
    question: str = "q-1"


@dataclass(frozen=True)
class Said:
    """An answer as it arrives."""

    event_id: str
    actor: str
    answers: Mapping[str, Given]
    shown: str
    received: float
    question: str = "q-1"
    message: str | None = None  # the card that was clicked; None through another door
    is_signed: bool = True  # whether the callback was


@dataclass
class Naive:
    config: Config
    happened: list[tuple[str, float, Said | None]] = field(default_factory=list)
    """What happened, when, and what was said: `answer`, `withdraw`, `expire`."""

    def happen(self, what: str, now: float, said: Said | None = None) -> None:
        self.happened.append((what, now, said))

    @property
    def status(self) -> str:
        return self._told()[1]

    @property
    def answers(self) -> dict[str, Given] | None:
        """What counts, each answer in its one form."""
        verdicts = self._told()[0]
        for what, _, said in self.happened:
            if what == "answer" and said is not None and verdicts[said.event_id] == "accepted":
                found = {each.id: normal(each, said.answers.get(each.id)) for each in self.config.questions}
                return {name: given for name, given in found.items() if given is not None}
        return None

    def verdicts(self) -> dict[str, str]:
        """Of each event the one verdict: what comes again is judged as it was."""
        return self._told()[0]

    def _told(self) -> tuple[dict[str, str], str]:
        """All that happened, from the beginning: the verdicts, and how the question stands."""
        verdicts: dict[str, str] = {}
        stands = "pending"
        for what, now, said in self.happened:
            if said is None and stands == "pending":
                stands = {"withdraw": "cancelled", "expire": "expired"}[what]
            if said is None or said.event_id in verdicts:
                continue
            verdicts[said.event_id] = self._verdict(said, now, stands)
            if verdicts[said.event_id] == "accepted":
                stands = "resolved"
        return verdicts, stands

    def _verdict(self, said: Said, now: float, stands: str) -> str:
        config = self.config
        is_card = said.message is None or said.message in config.cards
        if said.question != config.question or said.shown != config.shown or not is_card:
            return "tampered"
        if config.is_run and not said.is_signed:
            return "tampered"
        if config.people is not None and said.actor not in config.people:
            return "forbidden"
        if stands != "pending":
            return "expired" if stands == "expired" else "already_decided"
        if max(min(said.received, now), config.opened) > config.deadline:
            return "expired"
        if not self._fits(said.answers):
            return "invalid"
        if config.people is None and said.actor not in config.members:
            return "forbidden"
        return "accepted"

    def _fits(self, answers: Mapping[str, Given]) -> bool:
        known = {each.id for each in self.config.questions}
        texts = [text for given in answers.values() for text in texts_of(given)]
        if self.config.is_run and not all(map(is_line, texts)):
            return False
        return known >= answers.keys() and all(fits(each, answers.get(each.id)) for each in self.config.questions)


def texts_of(given: Given | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given if isinstance(given, tuple) else ()


def is_line(text: str) -> bool:
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in text)


def normal(asked: Asked, given: Given | None) -> Given | None:
    """An answer in its one form; None where it was left empty."""
    if given is None or isinstance(given, bool):
        return given
    if asked.kind != "choice":
        return given if isinstance(given, tuple) else given.strip() or None
    chosen = [option for option in asked.options if option in texts_of(given)]
    own = dict.fromkeys(text.strip() for text in texts_of(given) if text not in asked.options and text.strip())
    own = dict.fromkeys(each for each in own if each not in asked.options)
    folded = [option for option in asked.options if option not in chosen and option in map(str.strip, texts_of(given))]
    found = (*sorted([*chosen, *folded], key=asked.options.index), *own)
    if not found:
        return None
    return found if asked.multi_select or len(found) > 1 else found[0]


def fits(asked: Asked, given: Given | None) -> bool:
    answer = normal(asked, given)
    if answer is None:
        return not asked.required
    if asked.kind == "confirm":
        return isinstance(answer, bool)
    if asked.kind == "text":
        return isinstance(answer, str) and _is_text(asked, answer)
    own = [text for text in texts_of(answer) if text not in asked.options]
    if isinstance(answer, bool) or (own and not asked.allow_input) or len(own) > 1:
        return False
    if not asked.multi_select and len(texts_of(answer)) > 1:
        return False
    return all(_is_text(asked, text) for text in own)


def _is_text(asked: Asked, text: str) -> bool:
    storable = all((c >= " " or c in "\t\n\r") and not "\ud800" <= c <= "\udfff" for c in text)
    return storable and len(text) <= asked.max_length
