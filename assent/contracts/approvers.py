"""Who may decide, and how many of them must agree."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from assent.contracts.decision import Stage
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


class DecidingGroup(Frozen):
    """One group of approvers as it stands: with those who were called in, and who left it to whom since."""

    approvers: Approvers
    called: tuple[Identity, ...] = ()
    """Who was called in when nobody had decided."""
    passed: tuple[tuple[Identity, Identity], ...] = ()
    """Who left it to whom, in order."""

    def include(self, actor: Identity, requester: Identity) -> bool:
        """Whether it is this person's to decide, as far as can be said without asking a chat who belongs to it."""
        if self.approvers.exclude_requester and actor.may_be(requester):
            return False
        got_it = self._got_it(actor)
        if got_it is not None:
            return got_it
        return actor.is_among(self.called) or self.approvers.include(actor, requester)

    def chat_to_ask(self, actor: Identity) -> str | None:
        """The chat that this person must belong to besides."""
        is_named = self._got_it(actor) or actor.is_among(self.called)
        return None if is_named else self.approvers.chat_id

    def _got_it(self, actor: Identity) -> bool | None:
        """Whether this person was left it, and has it still; or gave it away, and did not get it back."""
        got_it = None
        for giver, taker in self.passed:
            got_it = True if actor.is_same_person(taker) else got_it
            got_it = False if actor.is_same_person(giver) else got_it
        return got_it


class Deciders(Frozen):
    """Whose something is to decide, at one moment: whoever is of one of these groups."""

    requester: Identity
    groups: tuple[DecidingGroup, ...]

    def include(self, actor: Identity) -> bool:
        """Whether it is this person's to decide, as far as can be said without asking a chat who belongs to it."""
        return any(group.include(actor, self.requester) for group in self.groups)

    def chats_to_ask(self, actor: Identity) -> tuple[str, ...]:
        """The chats one of which this person must belong to; none if it is theirs to decide without that."""
        chats = [group.chat_to_ask(actor) for group in self.groups if group.include(actor, self.requester)]
        asked = tuple(chat for chat in chats if chat is not None)
        return tuple(dict.fromkeys(asked)) if len(asked) == len(chats) else ()

    def ask(self, person: Identity) -> bool:
        """The same, of a person of whom no tenant may be said."""
        return self.include(person.within(self.requester.tenant_key))

    def ask_member(self, person: Identity, chats: Collection[str]) -> bool:
        """Whether it is this person's to decide, who belongs to these chats."""
        must_belong = self.chats_to_ask(person.within(self.requester.tenant_key))
        return self.ask(person) and (not must_belong or not {*chats}.isdisjoint(must_belong))


class Awaited(Frozen):
    """Whom an approval waits for, and with what."""

    subject: Stage
    """What waits: the call, or its result."""
    deciders: Deciders
    approved_by: tuple[Identity, ...] = ()
    rejected_by: tuple[Identity, ...] = ()

    def asks(self, person: Identity) -> bool:
        """Whether it waits for this person, as far as can be said without asking a chat who belongs to it."""
        actor = person.within(self.deciders.requester.tenant_key)
        has_decided = any(actor.may_be(one) for one in self.approved_by) or actor.is_among(self.rejected_by)
        return not has_decided and self.deciders.include(actor)

    def asks_member(self, person: Identity, chats: Collection[str]) -> bool:
        """Whether it waits for this person, who belongs to these chats."""
        return self.asks(person) and self.deciders.ask_member(person, chats)

    def chats_to_ask(self, person: Identity) -> tuple[str, ...]:
        """The chats one of which this person must belong to besides."""
        return self.deciders.chats_to_ask(person.within(self.deciders.requester.tenant_key))
