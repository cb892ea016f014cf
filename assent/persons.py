"""Whether two identities name one person, and the one id by which a person stands in a key. No I/O."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from assent.contracts.identity import Identity
from assent.contracts.values import Frozen


class Likeness(StrEnum):
    """Whether two identities name one person."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"
    """No kind of id is known of both, or their ids contradict each other: nobody can say."""


class Person(Frozen):
    """Somebody of one tenant, by every id that is known of them."""

    tenant_key: str | None
    keys: frozenset[str]
    """Typed ids, such as `open_id:ou_1`."""
    standing: str | None = None
    """The id that stands for them in the ledger; None where nobody has proved anything of them."""

    is_unproved: bool = False
    """Whether several ids were given for one person, and nobody has proved that they are one person's."""
    is_mixed_up: bool = False
    """Whether the ids that were given for one person are known to be of two."""

    @classmethod
    def of(cls, identity: Identity, *, known: Set[str] = frozenset(), **proved: Any) -> Person:
        """Whom an identity names, with what is known beside it."""
        return cls(tenant_key=identity.tenant_key, keys=identity.keys | known, **proved)

    @property
    def canonical(self) -> str:
        """The one id that stands for them in a key; of all its parts only one colon is not encoded."""
        kind, _, value = (self.standing or min(self.keys)).partition(":")
        tenant = f"{quote(self.tenant_key, safe='')}/" if self.tenant_key else ""
        return f"{tenant}{kind}:{quote(value, safe='')}"

    def likeness(self, other: Person) -> Likeness:
        """Every kind of id that is known of both must agree, or every one must not: else nobody can say."""
        alike = _likeness(self.keys, other.keys)
        if self.tenant_key == other.tenant_key or alike is Likeness.OTHER:
            return alike
        return Likeness.OTHER if self.tenant_key and other.tenant_key else Likeness.UNKNOWN

    def named(self, identity: Identity) -> Identity:
        """The identity with what is known beside it; what it says itself stays.

        Of a kind of which several are known, such as a user_id that was changed, none is added: the one that is no
        longer theirs would contradict whatever they do.
        """
        known: dict[str, list[str]] = {}
        for kind, _, value in (key.partition(":") for key in self.keys):
            known.setdefault(kind, []).append(value)
        found = {kind: values[0] for kind, values in known.items() if len(values) == 1}
        return Identity.model_validate({**found, **identity.model_dump(exclude_none=True)})


def _likeness(one: Set[str], other: Set[str]) -> Likeness:
    comparable = kinds(one) & kinds(other)
    agreeing = kinds(one & other)
    if not comparable or (agreeing and agreeing != comparable):
        return Likeness.UNKNOWN
    return Likeness.SAME if agreeing else Likeness.OTHER


def kinds(keys: Set[str]) -> frozenset[str]:
    """The kinds of id among typed ids: `open_id`, `union_id`, `user_id`."""
    return frozenset(key.partition(":")[0] for key in keys)
