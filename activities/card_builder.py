"""A builder of the operator's own, which frames our cards. What it does wrong costs the frame, never the card."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from activities.bodies import Body, Raised, TimedOut
from assent.masking import MASK, Mask
from assent.named_functions import named_function
from assent.payload import argument_values
from cards.endings import state_of
from cards.frames import CardFrame, in_frame
from cards.showing import Showing

GROUP = "assent.card_builders"
"""Where a package names functions that frame cards."""
_WITHIN = timedelta(seconds=1)
_AT_ONCE = 16
"""How many frames are built at the same time: each has a thread of its own, which one that hangs keeps."""
_log = logging.getLogger(__name__)


class CardBuilder:
    """A function from what a card is about to its frame."""

    def __init__(self, build: Callable[[dict[str, Any]], Any]) -> None:
        self._build = build
        self._running = 0

    @classmethod
    def load(cls, name: str) -> CardBuilder | None:
        """The function that an entry point of ours names, or `module:function`; None for no name. Raises ValueError."""
        return cls(named_function(name, GROUP)) if name else None

    async def framed(self, card: str, showing: Showing) -> str:
        """The card in its frame; as it is, where there is none."""
        try:
            made = await self._made(_about(showing))
            return in_frame(card, CardFrame.model_validate(made)) if made is not None else card
        except Exception as error:
            _log.warning("a card goes out without its frame: %s", type(error).__name__)
            return card

    async def _made(self, about: dict[str, Any]) -> Any:
        if self._running >= _AT_ONCE:
            raise TimeoutError("those before it have not ended")
        self._running += 1
        body = Body(partial(self._build, about))
        body.then(self._ended)
        made = await body.end(_WITHIN)
        if isinstance(made, Raised | TimedOut):
            raise RuntimeError(made.error)
        return made

    def _ended(self) -> None:
        self._running -= 1


def _about(showing: Showing) -> dict[str, Any]:
    """What a builder may know: what people are shown."""
    plan, mask = showing.plan, Mask.of(showing.plan)
    arguments = argument_values(plan.payload)
    return {
        "approval_id": plan.approval_id,
        "state": state_of(showing),
        "tool": plan.tool,
        "description": plan.description,
        "arguments": {name: MASK if name in plan.sensitive else mask.value(value) for name, value in arguments.items()},
        "requester": str(plan.requester),
        "reason": mask.text(plan.request_reason) if plan.request_reason else None,
        "risk": plan.risk.value,
        "deadline": plan.deadline.isoformat(),
        "asked_by": plan.asked_by,
        "reminder": showing.reminder,
    }
