"""What is answered to Feishu, whatever it sends and whichever way it comes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from activities.feishu.errors import safe
from activities.feishu.verifier import Callback
from assent import Assent
from cards import AnswerClick, BundleClick, Click, Event, ForeignClick, RevokeClick, RulingClick, Wording, unreadable
from workers.clicks import Names, answer_bundle, answer_click, answer_question, answer_revoke, answer_ruling
from workers.private_messages import PrivateMessages

_log = logging.getLogger(__name__)
_ANSWER_WITHIN = 2.0
"""How long a click waits for its verdict; Feishu waits 3 seconds."""


@dataclass(frozen=True)
class Callbacks:
    """Answers what was proved to come from Feishu."""

    gate: Assent
    wording: Wording
    names: Names | None = None
    """Tells what a person is called, for those who click too late."""
    messages: PrivateMessages | None = None
    """Takes what people write to the bot."""

    async def answer(self, sent: Callback) -> dict[str, Any] | None:
        """What Feishu is told; None of what needs no answer."""
        gate, wording, within = self.gate, self.wording, _ANSWER_WITHIN
        match sent:
            case Click():
                return await answer_click(gate, sent, wording, within=within, names=self.names)
            case AnswerClick():
                return await answer_question(gate, sent, wording, within=within, names=self.names)
            case RulingClick():
                return await answer_ruling(gate, sent, wording, within=within, names=self.names)
            case BundleClick():
                return await answer_bundle(gate, sent, wording, within=within)
            case RevokeClick():
                return await answer_revoke(gate, sent, wording, within=within)
            case ForeignClick():
                _log.warning("a click (event %s) is about nothing of ours: %s", sent.event_id, sent.why)
                return unreadable(wording).answer()
            case Event():
                if self.messages is None or not await self.messages.take(sent):
                    _log.info("event %s of type %s is not for us", sent.event_id, safe(sent.event_type))
                return None
