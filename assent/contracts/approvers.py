"""Who may decide, and how many of them must agree."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen, Id


class Approvers(Frozen):
    """Who may decide, and how many of them must agree."""

    class Kind(StrEnum):
        REQUESTER = "requester"
        ANYONE = "anyone"
        PEOPLE = "people"
        CHAT = "chat"
        """The members of a chat."""

    kind: Kind = Kind.REQUESTER
    people: tuple[Identity, ...] = ()
    chat_id: Id | None = None
    threshold: Annotated[int, Field(ge=1, le=100)] = 1
    """How many of them must approve."""
    exclude_requester: bool = False
    """Whether who asked for the call may not decide it."""
    rejections: Annotated[int, Field(ge=1, le=100)] = 1
    """How many of them must reject for the call to be rejected."""
    then: tuple[Approvers, ...] = ()
    """Who must approve after them, stage by stage."""

    @model_validator(mode="after")
    def _someone_may_decide(self) -> Self:
        if (self.kind is Approvers.Kind.PEOPLE) != bool(self.people):
            raise ValueError("approvers: name people exactly where people are meant; nobody could decide otherwise")
        if (self.kind is Approvers.Kind.CHAT) != bool(self.chat_id):
            raise ValueError("approvers: name a chat exactly where its members are meant")
        if self.kind is Approvers.Kind.REQUESTER and (self.exclude_requester or self.threshold > 1):
            raise ValueError("approvers: the requester alone can be neither excluded nor several")
        if self.kind is Approvers.Kind.PEOPLE and self.threshold > len(self.people):
            raise ValueError(f"approvers: {self.threshold} of {len(self.people)} people can never agree")
        if any(stage.then for stage in self.then):
            raise ValueError("approvers: stages follow one another; a stage has no stages of its own")
        return self

    @classmethod
    def of(cls, declared: str | Approvers | Iterable[Identity]) -> Approvers:
        """Read a tool's declaration: `"requester"`, `"anyone"`, the people themselves, or all there is to say."""
        if isinstance(declared, Approvers):
            return declared
        if isinstance(declared, str):
            if declared not in (cls.Kind.REQUESTER, cls.Kind.ANYONE):
                raise ValueError(f'approvers={declared!r}: say "requester", "anyone" or list identities')
            return cls(kind=cls.Kind(declared))
        people = tuple(declared)
        if not people:
            raise ValueError("approvers=[]: an approval that nobody may decide can only expire")
        return cls(kind=cls.Kind.PEOPLE, people=people)

    @property
    def stages(self) -> tuple[Approvers, ...]:
        """Who must approve, one group after the other."""
        return (self.model_copy(update={"then": ()}), *self.then)

    def within(self, tenant_key: str | None) -> Approvers:
        """The same people in the tenant that is meant where none is named."""
        return self.model_copy(
            update={
                "people": tuple(person.within(tenant_key) for person in self.people),
                "then": tuple(stage.within(tenant_key) for stage in self.then),
            }
        )

    def include(self, actor: Identity, requester: Identity) -> bool:
        """Whether *actor* may decide what *requester* asked for; of a chat, as far as can be said without asking it."""
        if self.exclude_requester and actor.may_be(requester):
            return False
        match self.kind:
            case Approvers.Kind.ANYONE | Approvers.Kind.CHAT:
                return actor.tenant_key == requester.tenant_key
            case Approvers.Kind.REQUESTER:
                return actor.is_same_person(requester)
            case Approvers.Kind.PEOPLE:
                return any(actor.is_same_person(person) for person in self.people)
