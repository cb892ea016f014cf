"""A click by which an operator says what became of a frozen call."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import StringConstraints

from assent import strict_json
from assent.contracts.identity import Identity
from assent.contracts.ruling import Ruling, RulingKind
from assent.contracts.values import Frozen, Id, Surface, Text

_MOST_TYPED = 4000
_UNFIT = {
    "no_reason": "say how you know it; a settlement without a reason cannot be checked later.",
    "bad_content": "the result begins like JSON and is none that can be kept; correct it, or leave it empty.",
    "not_a_result": "a result was given for a call that is not said to have happened; remove it, or say that it did.",
    "wrong_hash": "what was typed is not the payload's hash.",
}


class UnfitRuling(ValueError):
    """What was filled in cannot be meant.

    Its text is for people; *why* names the toast that says it in their language.
    """

    def __init__(self, why: str) -> None:
        super().__init__(_UNFIT[why])
        self.why = why


class RulingClick(Frozen):
    """An operator pressed a button of a review's card."""

    event_id: Id
    operator: Identity
    approval_id: Id
    kind: RulingKind
    reason: Text | None
    content_text: Annotated[str, StringConstraints(max_length=_MOST_TYPED)] | None
    """The result, as it was typed."""
    payload_hash: str | None
    payload_sha256: Id
    """The payload that the card showed."""
    retries: int | None = None
    """How often the call had been tried again when the card was shown."""
    message_id: Id
    chat_id: Id | None
    occurred_at: datetime
    """When the platform says it happened; 1970 if it does not say."""
    proof: Id

    def ruling(self) -> Ruling:
        """The ruling that this click makes. Raises UnfitRuling, a ValueError, if it makes none."""
        if self.reason is None:
            raise UnfitRuling("no_reason")
        if self.payload_hash is not None and not (self.payload_hash.isascii() and self.payload_hash.isalnum()):
            raise UnfitRuling("wrong_hash")
        return Ruling(
            kind=self.kind,
            operator=self.operator,
            reason=self.reason,
            content=self._content(),
            payload_hash=self.payload_hash,
            payload_sha256=self.payload_sha256,
            retries=self.retries,
            ruling_id=self.event_id,
            surface=Surface.FEISHU,
            proof=self.proof,
        )

    def _content(self) -> Any:
        if self.content_text is None:
            return None
        if self.kind is not RulingKind.EXECUTED:
            raise UnfitRuling("not_a_result")
        try:
            return strict_json.parse_or_text(self.content_text)
        except ValueError:
            raise UnfitRuling("bad_content") from None
