"""Persons, by the ids that Feishu knows them by."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Self

from pydantic import model_validator

from assent.contracts.values import Frozen, Id


class Identity(Frozen):
    """A person, by any of the ids Feishu knows them by, within one tenant."""

    open_id: Id | None = None
    union_id: Id | None = None
    user_id: Id | None = None
    tenant_key: Id | None = None

    @model_validator(mode="after")
    def _names_someone(self) -> Self:
        if not self.keys:
            raise ValueError("an identity needs a non-empty open_id, union_id or user_id")
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `open_id:ou_1`, or several such keys separated by commas."""
        known = {"open_id", "union_id", "user_id", "tenant_key"}
        parts = [part.strip().partition(":") for part in text.split(",")]
        pairs = {kind.strip(): value.strip() for kind, _, value in parts}
        if not pairs.keys() <= known or len(pairs) < len(parts):
            raise ValueError(f"{text!r} is not an identity; write open_id:…, union_id:… or user_id:…")
        return cls(**pairs)

    @property
    def keys(self) -> frozenset[str]:
        """The typed ids that are known of this person."""
        return _keys(self.open_id, self.union_id, self.user_id)

    def within(self, tenant_key: str | None) -> Identity:
        """This person in the tenant that is meant where none is named."""
        return self if self.tenant_key or not tenant_key else self.model_copy(update={"tenant_key": tenant_key})

    def is_outside(self, tenant_key: str | None) -> bool:
        """Whether this person is said to be of another tenant than the one there is."""
        return bool(tenant_key and self.tenant_key) and self.tenant_key != tenant_key

    def is_same_person(self, other: Identity) -> bool:
        """Whether both certainly name one person: one tenant, and every kind of id that is known of both agrees."""
        comparable = self._kinds & other._kinds
        return self.tenant_key == other.tenant_key and len(self.keys & other.keys) == len(comparable) > 0

    def may_be(self, other: Identity) -> bool:
        """Whether both might name one person: they share an id, or no kind of id is known of both."""
        if self.is_outside(other.tenant_key):
            return False
        return not self.keys.isdisjoint(other.keys) or self._kinds.isdisjoint(other._kinds)

    def is_among(self, people: Iterable[Identity]) -> bool:
        """Whether this person is certainly one of them."""
        return any(self.is_same_person(person) for person in people)

    @property
    def _kinds(self) -> frozenset[str]:
        return _kinds(self.keys)

    def __str__(self) -> str:
        return min(self.keys)


@lru_cache(4096)
def _keys(open_id: str | None, union_id: str | None, user_id: str | None) -> frozenset[str]:
    ids = {"open_id": open_id, "union_id": union_id, "user_id": user_id}
    return frozenset(f"{kind}:{value}" for kind, value in ids.items() if value)


@lru_cache(4096)
def _kinds(keys: frozenset[str]) -> frozenset[str]:
    return frozenset(key.partition(":")[0] for key in keys)
