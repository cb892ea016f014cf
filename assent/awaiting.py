"""The bot's answer to a private message: its workflow, its activity, and what both are told.

The names live in Temporal's history: they are persisted data, change none of them.
"""

from __future__ import annotations

from assent.contracts import Frozen, Id, Identity

INBOX_REPLY = "InboxReply"
REPLY_INBOX = "reply_inbox"


class Enquiry(Frozen):
    """A person wrote to the bot, and wants to know what waits for them."""

    sender: Identity
    message_id: Id
    """What the answer answers."""


def inbox_reply_workflow(message_id: str) -> str:
    """One answer for one message, however often the platform tells of it."""
    return f"inbox-reply/{message_id}"
