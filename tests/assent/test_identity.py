"""Who is who, and who may decide: one person by any shared id within one tenant, and nobody by chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assent import Approvers, Identity
from assent.persons import Person
from tests.support.hypothesis_settings import unhurried

IDS = st.none() | st.sampled_from(["a", "b"])
PEOPLE = (
    st.fixed_dictionaries({"open_id": IDS, "union_id": IDS, "user_id": IDS, "tenant_key": IDS})
    .filter(lambda ids: any(ids[kind] for kind in ("open_id", "union_id", "user_id")))
    .map(lambda ids: Identity(**ids))
)
ME = Identity(open_id="ou_me", union_id="on_me", user_id="me", tenant_key="t")
OTHER = Identity(open_id="ou_other", tenant_key="t")


@pytest.mark.parametrize(
    "known",
    [
        {"open_id": "ou_me"},
        {"union_id": "on_me"},
        {"user_id": "me"},
        {"open_id": "ou_me", "union_id": "on_me", "user_id": "me"},
    ],
)
def test_any_shared_id_makes_the_same_person(known: dict[str, str]) -> None:
    assert ME.is_same_person(Identity(**known, tenant_key="t"))


@pytest.mark.parametrize(
    "other",
    [
        {"open_id": "ou_other"},
        {"open_id": "on_me"},
        {"user_id": "ou_me"},
        {"union_id": "me"},
        {"open_id": "OU_ME"},
        {"open_id": "ou_me "},
        {"open_id": "ou_m"},
        {"open_id": "ou_me", "union_id": "on_other"},
        {"open_id": "ou_me", "union_id": "on_me", "user_id": "other"},
    ],
)
def test_an_id_that_is_another_one_is_somebody_elses_whatever_else_agrees(other: dict[str, str]) -> None:
    assert not ME.is_same_person(Identity(**other, tenant_key="t"))


@pytest.mark.parametrize("tenant", [None, "u", "T"])
def test_nobody_is_the_same_across_tenants(tenant: str | None) -> None:
    elsewhere = ME.model_copy(update={"tenant_key": tenant})
    assert elsewhere.keys == ME.keys
    assert not ME.is_same_person(elsewhere)
    assert not elsewhere.is_same_person(ME)


@unhurried
@given(PEOPLE, PEOPLE)
def test_being_the_same_person_is_mutual_and_needs_a_tenant_and_every_id_in_common(
    one: Identity, other: Identity
) -> None:
    pairs = [(getattr(one, kind), getattr(other, kind)) for kind in ("open_id", "union_id", "user_id")]
    both = [(mine, theirs) for mine, theirs in pairs if mine and theirs]
    agree = bool(both) and all(mine == theirs for mine, theirs in both)
    assert one.is_same_person(other) == (one.tenant_key == other.tenant_key and agree)
    assert one.is_same_person(other) == other.is_same_person(one)
    assert one.is_same_person(one)


@unhurried
@given(PEOPLE)
def test_identity_survives_json_and_its_own_text(person: Identity) -> None:
    assert Identity.model_validate_json(person.model_dump_json()) == person
    ids = {kind: value for kind, value in person.model_dump().items() if value is not None}
    assert Identity.parse(", ".join(f"{kind}:{value}" for kind, value in ids.items())) == person
    assert str(person) in person.keys


@pytest.mark.parametrize("ids", [{}, {"tenant_key": "t"}, {"open_id": ""}, {"open_id": "", "user_id": "me"}])
def test_identity_without_an_id_is_refused(ids: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="open_id"):
        Identity(**ids)


@pytest.mark.parametrize("text", ["", "ou_me", "open_id", "open_id:", "email:a@b", "tenant_key:t", "open_id:a,b"])
def test_text_that_names_nobody_is_no_identity(text: str) -> None:
    with pytest.raises(ValueError, match=r"identity|open_id"):
        Identity.parse(text)


def test_identity_is_a_value() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ME.open_id = "ou_other"  # type: ignore[misc]


# Approvers


def test_only_the_requester_decides_unless_the_tool_says_otherwise() -> None:
    for requester_decides in (Approvers(), Approvers.of("requester")):
        assert requester_decides.include(ME, requester=ME)
        assert requester_decides.include(Identity(union_id="on_me", tenant_key="t"), requester=ME)
        assert not requester_decides.include(OTHER, requester=ME)
        assert not requester_decides.include(ME.model_copy(update={"tenant_key": None}), requester=ME)


def test_nobody_decides_for_another_to_whom_one_of_their_ids_was_given() -> None:
    mixed = Identity(open_id="ou_other", union_id="on_me", tenant_key="t")
    assert not Approvers.of("requester").include(ME, requester=mixed)
    assert not Approvers.of([mixed]).include(ME, requester=OTHER)
    others = Approvers(kind=Approvers.Kind.ANYONE, exclude_requester=True)
    assert not others.include(ME, requester=mixed), "who might be the requester is excluded"


def test_an_exclusion_holds_where_only_one_of_two_names_a_tenant() -> None:
    others = Approvers(kind=Approvers.Kind.PEOPLE, people=(Identity(open_id="ou_me"),), exclude_requester=True)
    assert not others.include(Identity(open_id="ou_me"), requester=ME)


def test_anyone_decides_where_the_tool_says_so() -> None:
    anyone = Approvers.of("anyone")
    assert anyone.include(OTHER, requester=ME)
    assert anyone.include(ME, requester=ME)


def test_named_people_decide_and_the_requester_is_not_one_of_them_by_asking() -> None:
    named = Approvers.of([OTHER, Identity(user_id="boss", tenant_key="t")])
    assert named.include(OTHER, requester=ME)
    assert named.include(Identity(open_id="ou_boss", user_id="boss", tenant_key="t"), requester=ME)
    assert not named.include(ME, requester=ME)
    assert not named.include(Identity(open_id="ou_other", tenant_key="u"), requester=ME)
    assert not named.include(Identity(open_id="ou_other"), requester=ME)


@unhurried
@given(st.lists(PEOPLE, min_size=1, max_size=3), PEOPLE, PEOPLE)
def test_named_people_are_exactly_those_who_are_included(
    people: list[Identity], actor: Identity, requester: Identity
) -> None:
    included = Approvers.of(people).include(actor, requester)
    assert included == any(person.is_same_person(actor) for person in people)
    assert Approvers.of(iter(people)) == Approvers.of(people)


@pytest.mark.parametrize("declared", ["", "people", "Anyone", "everyone", "ou_boss", [], (), iter(())])
def test_declaration_that_nobody_could_follow_is_refused(declared: Any) -> None:
    with pytest.raises(ValueError, match="approvers="):
        Approvers.of(declared)


@pytest.mark.parametrize("people", [["ou_boss"], [None], [{}]])
def test_people_are_identities(people: Any) -> None:
    with pytest.raises(ValidationError, match="people"):
        Approvers.of(people)


def test_approvers_without_people_are_refused_however_they_are_declared() -> None:
    with pytest.raises(ValueError, match="approvers"):
        Approvers.of(Approvers(kind=Approvers.Kind.PEOPLE))


def test_approvers_survive_json() -> None:
    for approvers in (Approvers(), Approvers.of("anyone"), Approvers.of([ME, OTHER])):
        assert Approvers.model_validate_json(approvers.model_dump_json()) == approvers


def test_of_a_kind_of_which_several_ids_are_known_none_is_added() -> None:
    """One of them is no longer theirs, and would keep them from deciding for themselves."""
    known = frozenset({"open_id:ou_1", "union_id:on_1", "user_id:old", "user_id:new"})
    person = Person.of(Identity(open_id="ou_1"), known=known)
    named = person.named(Identity(open_id="ou_1"))
    assert named == Identity(open_id="ou_1", union_id="on_1")
    for user_id in ("old", "new"):
        assert named.is_same_person(Identity(open_id="ou_1", union_id="on_1", user_id=user_id))
    assert person.named(Identity(user_id="new")) == Identity(open_id="ou_1", union_id="on_1", user_id="new")
