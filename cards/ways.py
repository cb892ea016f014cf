"""How a call would be made, where that is not by a tool of the service's own."""

from __future__ import annotations

import shlex

from assent.contracts.plan import Plan
from assent.safe import one_line, shortened
from cards.arguments import arguments_of
from cards.elements import Element, box, div, markdown, row
from cards.wording import Wording

_ARGUMENT_CHARACTERS, _COMMAND_CHARACTERS = 200, 2000


def agent_runs(plan: Plan, wording: Wording) -> list[Element]:
    """That nothing runs here, and what therefore cannot be promised."""
    return [box([markdown(wording("line.agent_runs"))], "wathet-50")] if plan.is_consent_only else []


def command_row(plan: Plan, wording: Wording) -> list[Element]:
    """The argument vector, where a program would run, quoted so that it is clear where each argument ends."""
    values = {each.name: each.text for each in arguments_of(plan)} if plan.presentation.command else {}
    vector = plan.presentation.command
    shown = [shortened(one_line(argument.format(**values)), _ARGUMENT_CHARACTERS) for argument in vector]
    return [row(wording("run.command"), div(shortened(shlex.join(shown), _COMMAND_CHARACTERS)))] if shown else []
