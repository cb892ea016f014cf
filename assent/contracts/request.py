"""What the agent sent."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.values import ApprovalId, Frozen, Id, Surface, Text
from assent.payload import canonical_json, sha256

DEFAULT_TTL = timedelta(minutes=15)
"""How long an approval waits for a person when nobody says otherwise."""


MAX_TTL = timedelta(days=365)
"""The longest that anyone may be asked to wait."""


class WhenPending(StrEnum):
    """What to do when the conversation already has an open request."""

    ALLOW = "allow"
    FAIL = "fail"
    SUPERSEDE = "supersede"


def _callback(url: str) -> str:
    parts = urlsplit(url)
    parts.port  # noqa: B018 - raises ValueError where it is no port
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ValueError("a completion callback goes to an https address")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("a completion callback carries no credentials and no fragment in its address")
    return url


CallbackUrl = Annotated[str, StringConstraints(strict=True, max_length=2000), AfterValidator(_callback)]
"""Where a completed approval is announced."""


class OwnDispatch(Frozen):
    """That whoever decides makes the call, by code of their own. Only trusted doors can say so."""

    manifest: Manifest
    """What is to be known of the tool, which no worker publishes."""
    namespace: Id
    """What stands for this product in idempotency keys."""


class Request(Frozen):
    """What the agent sent."""

    approval_id: ApprovalId
    tool: Id
    arguments: dict[str, Any]
    requester: Identity
    tool_call_id: Id | None = None
    thread_id: Id | None = None
    when_pending: WhenPending = WhenPending.ALLOW
    message_id: Id | None = None
    event_id: Id | None = None
    idempotency_scope: Id | None = None
    ttl: Annotated[timedelta, Field(gt=timedelta(0), le=MAX_TTL)] = DEFAULT_TTL
    reason: Text | None = None
    chat_id: Id | None = None
    """The chat whose people see the card; without it the private chats of those who may decide."""
    reply_to: Id | None = None
    """The message that the card answers."""
    callback_url: CallbackUrl | None = None
    """Where the outcome is posted, signed, when it is there."""
    surface: Surface = Surface.CLIENT
    asked_by: Id | None = None
    """The name of the token that the agent showed."""
    bundle_id: Id | None = None
    """What the calls have in common that were asked for together, and are shown on one card."""
    is_bound_to_chat: bool = False
    """Whether its token may ask in certain chats alone: then a message it answers must be in `chat_id`."""

    dispatch: OwnDispatch | None = None
    """Where whoever decides makes the call: no card is sent, and no worker of ours makes it."""

    @property
    def sha256(self) -> str:
        """What tells this request from another one under the same id: all of it but its door and its company."""
        by_its_door = {"surface", "asked_by", "bundle_id", "is_bound_to_chat"}
        if self.dispatch is None:  # as before there was one
            by_its_door.add("dispatch")
        fields = self.model_dump(mode="json", exclude={*by_its_door, "arguments"})
        return sha256(canonical_json({**fields, "arguments": self.arguments}))
