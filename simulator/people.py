"""The people and groups of the simulated tenant. They are always the same."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    open_id: str
    union_id: str
    user_id: str
    name: str
    en_name: str
    role: str

    def id(self, kind: str) -> str:
        """Their identifier of one kind: open_id, union_id or user_id."""
        return {"open_id": self.open_id, "union_id": self.union_id, "user_id": self.user_id}[kind]


@dataclass(frozen=True)
class Chat:
    chat_id: str
    name: str
    kind: str
    """group or p2p"""
    members: tuple[str, ...]
    """open ids"""
    has_bot: bool = True


def _person(role: str, name: str, en_name: str) -> Person:
    return Person(f"ou_{role}", f"on_{role}", f"u_{role}", name, en_name, role)


PEOPLE = (
    _person("requester", "韩梅梅", "Han Meimei"),
    _person("approver", "李雷", "Li Lei"),
    _person("outsider", "王芳", "Wang Fang"),
    _person("operator", "陈静", "Chen Jing"),
)

GROUPS = (
    Chat("oc_team", "付款审批 · Payments", "group", tuple(person.open_id for person in PEOPLE)),
    Chat("oc_ops", "值班 · Operators", "group", ("ou_operator", "ou_approver")),
    Chat("oc_elsewhere", "别处 · Elsewhere", "group", ("ou_outsider", "ou_requester"), has_bot=False),
)

ID_KINDS = ("open_id", "union_id", "user_id")


def find(kind: str, identifier: str) -> Person | None:
    """The person with this identifier of this kind."""
    return next((person for person in PEOPLE if person.id(kind) == identifier), None)


def private_chat(person: Person) -> Chat:
    """The chat of this person with the bot."""
    return Chat(f"oc_p2p_{person.role}", person.name, "p2p", (person.open_id,))
