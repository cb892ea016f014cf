"""What a person asks the bot."""

from __future__ import annotations

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id


class Enquiry(Frozen):
    """A person wrote to the bot, and wants to know what waits for them."""

    sender: Identity
    message_id: Id
    """What the answer answers."""
