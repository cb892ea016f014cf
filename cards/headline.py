"""What a call is, in one line: as its tool says it, or else by its most telling arguments."""

from __future__ import annotations

from typing import NamedTuple

from assent.contracts.plan import Plan
from assent.payload import argument_values
from assent.reading import Line, Spoken
from assent.safe import one_line, shortened
from cards.arguments import arguments_of
from cards.wording import Both

_TOOL_CHARACTERS = 120
_LEAST_OF_A_TOOL = 40
_ABOUT_CHARACTERS = 160
CALL_CHARACTERS = 160
"""How long a call is in a line, wherever somebody is asked about it."""


class Headline(NamedTuple):
    """What a call is."""

    title: Both
    """What its tool is called,"""
    lines: tuple[Line, Line]
    """and what it is about, in both languages; may be nothing."""
    is_told: bool
    """Whether the tool itself says so."""
    is_named: bool
    """Whether its tool has a title besides its name."""

    @property
    def about(self) -> Both:
        """What it is about; may be nothing."""
        return self._about(_ABOUT_CHARACTERS)

    def _about(self, most: int) -> Both:
        return Both(*(line.within(most) for line in self.lines))

    @property
    def question(self) -> Both:
        """The title as a part of a sentence."""
        return Both(f"“{self.title.en}”", f"“{self.title.zh}”") if self.is_named else self.title

    @property
    def call(self) -> Both:
        """Both, on one line; where the tool says what its calls are, that alone."""
        if self.is_told:
            return self._about(CALL_CHARACTERS)
        return Both(*(_with_title(title, line) for title, line in zip(self.title, self.lines, strict=True)))


def headline(plan: Plan) -> Headline:
    """What a call is, in one line."""
    read = plan.presentation
    name = shortened(one_line(plan.subject), _TOOL_CHARACTERS)
    title = Both(one_line(read.title.en), one_line(read.title.zh)) if read.title else Both(name, name)
    en, zh = (read.summary.en, read.summary.zh) if read.summary else (None, None)
    lines = (Line(en, _spoken(plan, 0)), Line(zh, _spoken(plan, 1)))
    return Headline(title, lines, is_told=read.summary is not None, is_named=read.title is not None)


def cut(text: Both, most: int) -> Both:
    """Both languages, shortened."""
    return Both(*(shortened(each, most) for each in text))


def _with_title(title: str, line: Line) -> str:
    about = line.within(CALL_CHARACTERS - min(len(title), _LEAST_OF_A_TOOL) - 3)
    room = max(_LEAST_OF_A_TOOL, CALL_CHARACTERS - len(about) - 3)
    return " · ".join(filter(None, (shortened(title, room), about)))


def _spoken(plan: Plan, language: int) -> tuple[Spoken, ...]:
    """The arguments in a language; of a call that the agent makes itself, those of the call."""
    if plan.is_consent_only and isinstance(inner := argument_values(plan.payload).get("arguments"), dict):
        return Spoken.all_of(inner, plan.presentation, ())
    return tuple(
        Spoken(each.name, each.label[language], each.value, each.text, each.masked) for each in arguments_of(plan)
    )
