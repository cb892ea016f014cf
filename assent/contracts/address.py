"""Where a card goes."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id


class AddressKind(StrEnum):
    """What an address in Feishu names, in Feishu's own words."""

    CHAT_ID = "chat_id"
    OPEN_ID = "open_id"
    UNION_ID = "union_id"
    USER_ID = "user_id"


class Address(Frozen):
    """Where a card goes: a chat or a person's private chat, there possibly as the reply to a message."""

    kind: AddressKind
    id: Id
    reply_to: Id | None = None

    @classmethod
    def of(cls, person: Identity) -> Self:
        """A person's private chat."""
        for kind in (AddressKind.OPEN_ID, AddressKind.UNION_ID, AddressKind.USER_ID):
            if found := getattr(person, kind):
                return cls(kind=kind, id=found)
        raise ValueError("an identity names someone")
