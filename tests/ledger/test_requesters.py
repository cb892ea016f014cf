"""Whose call it is: one person's result, slot and frozen call are nobody else's, under whatever scope."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select

from assent import Identity
from assent.content import Content
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.contracts.plan import Plan
from assent.contracts.request import WhenPending
from assent.persons import Likeness, Person
from ledger import ClaimState, Ending, Ledger, Right
from ledger.persons import learn
from ledger.schema import person_ids
from tests.conftest import new_database
from tests.support.ledgers import holder, propose
from tests.support.stepwise import reading, writing

ANN = Identity(open_id="ou_ann")
BEN = Identity(open_id="ou_ben")
ANN_BY_UNION = Identity(union_id="on_ann")
ANN_WHOLE = Identity(open_id="ou_ann", union_id="on_ann")
PRIVATE = {"salary": 1}
EXECUTED = Ending(state=ClaimState.EXECUTED, content=Content.of(PRIVATE))
UNKNOWN = Ending(state=ClaimState.UNKNOWN, error="RuntimeError: lost")
_names = itertools.count()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("requesters")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


@pytest.fixture
def message() -> str:
    return f"om_{next(_names)}"


@pytest.fixture
def tenant() -> str:
    """A company of its own, so that nothing is known of anybody."""
    return f"tenant_{next(_names)}"


async def call_for(ledger: Ledger, requester: Identity, message: str) -> ToolCall:
    """The same call for everybody who names one message, or one that continues it."""
    of = {"of": message.partition("-")[0]}
    return ToolCall.of(await propose(ledger, of, requester=requester, message=message))


async def begun(ledger: Ledger, call: ToolCall) -> Report | None:
    """What a call is told that wants to begin; None if it may run."""
    beginning = await ledger.begin(call, holder())
    assert (beginning.report is None) == (beginning.right is Right.RUN)
    return beginning.report


async def ended(ledger: Ledger, requester: Identity, message: str, ending: Ending) -> ToolCall:
    call, running = await call_for(ledger, requester, message), holder()
    assert (await ledger.begin(call, running)).right is Right.RUN
    await ledger.finish(call, running, 1, ending)
    return call


async def taught(ledger: Ledger, *people: Identity) -> None:
    async with writing(ledger._engine) as connection:
        for each in people:
            await learn(connection, each)


# A result never crosses from one person to another


async def test_anothers_result_is_not_replayed_and_does_not_keep_ones_own_call_from_running(
    ledger: Ledger, message: str
) -> None:
    await ended(ledger, ANN, message, EXECUTED)
    assert await begun(ledger, await call_for(ledger, BEN, message)) is None


async def test_the_same_person_is_replayed_under_an_id_that_the_ledger_knows(
    ledger: Ledger, message: str, tenant: str
) -> None:
    ann, by_union = ANN.within(tenant), ANN_BY_UNION.within(tenant)
    first = await ended(ledger, ann, message, EXECUTED)
    await taught(ledger, ANN_WHOLE.within(tenant))
    second = await call_for(ledger, by_union, message)
    assert first.idempotency_key != second.idempotency_key, "it was prepared when nobody knew"
    report = await begun(ledger, second)
    assert report is not None
    assert (report.kind, report.content) == (ReportKind.REPLAYED, PRIVATE)


async def test_who_cannot_be_compared_is_neither_replayed_nor_run(ledger: Ledger, message: str, tenant: str) -> None:
    first = await ended(ledger, ANN.within(tenant), message, EXECUTED)
    report = await begun(ledger, await call_for(ledger, ANN_BY_UNION.within(tenant), message))
    assert report is not None
    assert (report.kind, report.content) == (ReportKind.NOT_BEGUN, None)
    assert "no id is known of both" in (report.reason or "")
    assert first.approval_id not in (report.reason or "")


async def test_who_cannot_be_compared_waits_for_nobody_while_the_other_runs(
    ledger: Ledger, message: str, tenant: str
) -> None:
    assert await begun(ledger, await call_for(ledger, ANN.within(tenant), message)) is None
    report = await begun(ledger, await call_for(ledger, ANN_BY_UNION.within(tenant), message))
    assert report is not None
    assert report.kind is ReportKind.NOT_BEGUN


async def test_after_a_call_that_failed_nobody_needs_to_be_compared(ledger: Ledger, message: str, tenant: str) -> None:
    await ended(ledger, ANN.within(tenant), message, Ending(state=ClaimState.FAILED, error="no"))
    assert await begun(ledger, await call_for(ledger, ANN_BY_UNION.within(tenant), message)) is None


async def test_the_same_id_in_two_companies_is_two_people(ledger: Ledger, message: str) -> None:
    boss = Identity(user_id="boss")
    await ended(ledger, boss.within("t1"), message, EXECUTED)
    assert await begun(ledger, await call_for(ledger, boss.within("t2"), message)) is None
    report = await begun(ledger, await call_for(ledger, boss, message))
    assert report is not None, "without a company it might be either"
    assert report.kind is ReportKind.NOT_BEGUN


async def test_of_many_who_cannot_be_compared_one_begins(ledger: Ledger, message: str, tenant: str) -> None:
    """The scope is locked: what two transactions do not see of each other lets nobody through."""
    people = [ANN.within(tenant), ANN_BY_UNION.within(tenant), Identity(user_id="ann").within(tenant)] * 3
    calls = [await call_for(ledger, person, message) for person in people]
    beginnings = await asyncio.gather(*(ledger.begin(call, holder()) for call in calls))
    assert [each.right for each in beginnings].count(Right.RUN) == 1


async def test_of_many_ids_of_one_person_one_begins_and_the_others_wait(
    ledger: Ledger, message: str, tenant: str
) -> None:
    ids = [ANN.within(tenant), ANN_BY_UNION.within(tenant)] * 4
    calls = [await call_for(ledger, person, message) for person in ids]
    await taught(ledger, ANN_WHOLE.within(tenant))
    beginnings = await asyncio.gather(*(ledger.begin(call, holder()) for call in calls))
    assert sorted(each.right for each in beginnings) == [Right.RUN, *[Right.WAIT] * 7]


# Frozen calls


async def test_the_same_person_freezes_with_the_call_under_its_key(ledger: Ledger, message: str, tenant: str) -> None:
    first = await ended(ledger, ANN.within(tenant), message, UNKNOWN)
    second = await call_for(ledger, ANN_BY_UNION.within(tenant), message)
    await taught(ledger, ANN_WHOLE.within(tenant))
    report = await begun(ledger, second)
    assert report is not None
    assert (report.kind, report.idempotency_key) == (ReportKind.UNKNOWN, first.idempotency_key)
    assert await ledger.key_of(second.consent) == first.idempotency_key
    again = second.model_copy(
        update={
            "consent": f"{second.consent}#2",
            "retries": second.consent,
            "idempotency_key": first.idempotency_key,
            "retry_safe": True,
        }
    )
    assert await begun(ledger, again) is None, "tried again, it takes the place of the call that is not known"


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_anothers_frozen_call_stops_the_same_call_and_tells_nothing_of_itself(
    ledger: Ledger, message: str, elsewhere: bool, tenant: str
) -> None:
    first = await ended(ledger, ANN.within(tenant), message, UNKNOWN)
    call = await call_for(ledger, BEN.within(tenant), f"{message}-2" if elsewhere else message)
    report = await begun(ledger, call)
    assert report is not None
    assert report.kind is ReportKind.NOT_BEGUN
    assert "somebody else's identical call" in (report.reason or "")
    assert first.approval_id not in report.model_dump_json()
    twin = await ledger.twin(call.payload_sha256, "test", call.requester)
    assert twin is not None
    assert twin.approval_id is None
    own = await ledger.twin(call.payload_sha256, "test", ANN.within(tenant))
    assert own is not None
    assert own.approval_id == first.approval_id


# A conversation's slot


async def slot(ledger: Ledger, requester: Identity, thread: str, asked_by: str | None = None) -> Plan:
    return await propose(
        ledger, requester=requester, thread_id=thread, when_pending=WhenPending.SUPERSEDE, asked_by=asked_by
    )


async def test_a_slot_is_a_persons_own(ledger: Ledger, message: str, tenant: str) -> None:
    ann, ben = ANN.within(tenant), BEN.within(tenant)
    first = await slot(ledger, ann, message)
    assert (await slot(ledger, ben, message)).supersedes == ()
    assert (await slot(ledger, ANN_BY_UNION.within(tenant), message)).supersedes == (), "that may be anybody"
    assert (await slot(ledger, ann, message)).supersedes == (first.approval_id,)


async def test_a_slot_is_an_agents_own(ledger: Ledger, message: str, tenant: str) -> None:
    ann = ANN.within(tenant)
    first = await slot(ledger, ann, message, "one")
    assert (await slot(ledger, ann, message, "two")).supersedes == ()
    trusted = await slot(ledger, ann, message)
    assert trusted.supersedes == ()
    assert (await slot(ledger, ann, message, "one")).supersedes == (first.approval_id,)
    assert (await slot(ledger, ann, message)).supersedes == (trusted.approval_id,)


async def test_a_slot_is_the_same_under_every_id_of_a_person(ledger: Ledger, message: str, tenant: str) -> None:
    first = await slot(ledger, ANN.within(tenant), message)
    await taught(ledger, ANN_WHOLE.within(tenant))
    assert (await slot(ledger, ANN_BY_UNION.within(tenant), message)).supersedes == (first.approval_id,)


# Who is who


@pytest.mark.parametrize(
    ("one", "other", "likeness"),
    [
        ({"open_id": "a"}, {"open_id": "a", "union_id": "u"}, Likeness.SAME),
        ({"open_id": "a"}, {"open_id": "b", "union_id": "u"}, Likeness.OTHER),
        ({"open_id": "a"}, {"union_id": "u"}, Likeness.UNKNOWN),
        ({"open_id": "a", "user_id": "x"}, {"open_id": "b", "user_id": "x"}, Likeness.UNKNOWN),
        ({"open_id": "a", "user_id": "x"}, {"open_id": "a", "user_id": "x"}, Likeness.SAME),
        ({"open_id": "a", "tenant_key": "t"}, {"open_id": "a", "tenant_key": "u"}, Likeness.OTHER),
        ({"open_id": "a", "tenant_key": "t"}, {"open_id": "a"}, Likeness.UNKNOWN),
        ({"open_id": "a", "tenant_key": "t"}, {"open_id": "b"}, Likeness.OTHER),
    ],
)
def test_two_identities_are_one_two_or_nobody_can_say(
    one: dict[str, str], other: dict[str, str], likeness: Likeness
) -> None:
    pair = Person.of(Identity(**one)), Person.of(Identity(**other))
    assert {pair[0].likeness(pair[1]), pair[1].likeness(pair[0])} == {likeness}


async def known(ledger: Ledger, **ids: str) -> Person:
    return await ledger.person(Identity(**ids))


async def test_what_was_proved_is_known_under_every_id(ledger: Ledger, tenant: str) -> None:
    await taught(ledger, Identity(open_id="a", union_id="u", tenant_key=tenant))
    await taught(ledger, Identity(open_id="a", user_id="x", tenant_key=tenant))
    people = [
        await known(ledger, tenant_key=tenant, **{kind: value})
        for kind, value in (("open_id", "a"), ("union_id", "u"), ("user_id", "x"))
    ]
    assert {person.keys for person in people} == {frozenset({"open_id:a", "union_id:u", "user_id:x"})}
    assert {person.canonical for person in people} == {f"{tenant}/open_id:a"}


async def test_two_who_turn_out_to_be_one_become_one(ledger: Ledger, tenant: str) -> None:
    await taught(ledger, Identity(open_id="a", tenant_key=tenant), Identity(union_id="u", tenant_key=tenant))
    before = await known(ledger, open_id="a", tenant_key=tenant)
    assert before.likeness(await known(ledger, union_id="u", tenant_key=tenant)) is Likeness.UNKNOWN
    await taught(ledger, Identity(open_id="a", union_id="u", tenant_key=tenant))
    assert await known(ledger, union_id="u", tenant_key=tenant) == await known(ledger, open_id="a", tenant_key=tenant)


async def test_a_user_id_that_went_to_somebody_else_makes_no_two_people_one(ledger: Ledger, tenant: str) -> None:
    await taught(ledger, Identity(open_id="a", union_id="u", user_id="x", tenant_key=tenant))
    await taught(ledger, Identity(open_id="b", union_id="v", user_id="x", tenant_key=tenant))
    ann, ben = await known(ledger, open_id="a", tenant_key=tenant), await known(ledger, open_id="b", tenant_key=tenant)
    assert ann.likeness(ben) is Likeness.OTHER
    assert ann.keys == {"open_id:a", "union_id:u"}
    assert ben.keys == {"open_id:b", "union_id:v", "user_id:x"}


async def test_a_user_id_that_was_changed_is_the_new_one(ledger: Ledger, tenant: str) -> None:
    await taught(ledger, Identity(open_id="a", union_id="u", user_id="x", tenant_key=tenant))
    await taught(ledger, Identity(open_id="a", union_id="u", user_id="y", tenant_key=tenant))
    assert (await known(ledger, user_id="x", tenant_key=tenant)).standing is None
    assert (await known(ledger, open_id="a", tenant_key=tenant)).keys == {"open_id:a", "union_id:u", "user_id:y"}


async def test_learning_at_once_is_learning_once(ledger: Ledger, tenant: str) -> None:
    ids = [
        Identity(open_id="a", union_id="u", tenant_key=tenant),
        Identity(union_id="u", user_id="x", tenant_key=tenant),
        Identity(open_id="a", user_id="x", tenant_key=tenant),
    ]
    await asyncio.gather(*(taught(ledger, each) for each in ids * 4))
    async with reading(ledger._engine) as connection:
        rows = (await connection.execute(select(person_ids).where(person_ids.c.tenant_key == tenant))).all()
    assert sorted(row.key for row in rows) == ["open_id:a", "union_id:u", "user_id:x"]
    assert len({row.person for row in rows}) == 1


@pytest.mark.parametrize(
    ("ids", "strangers"),
    [
        ({"open_id": "a"}, False),
        ({"open_id": "a", "union_id": "u"}, False),
        ({"open_id": "a", "union_id": "v"}, True),
        ({"open_id": "a", "union_id": "nobody"}, True),
        ({"open_id": "nobody", "union_id": "nobody"}, False),
        ({"open_id": "a", "user_id": "x"}, False),
    ],
)
async def test_ids_of_two_people_are_not_one_identity(
    ledger: Ledger, tenant: str, ids: dict[str, str], strangers: bool
) -> None:
    await taught(ledger, Identity(open_id="a", union_id="u", tenant_key=tenant))
    await taught(ledger, Identity(open_id="b", union_id="v", tenant_key=tenant))
    assert (await known(ledger, **ids, tenant_key=tenant)).is_mixed_up is strangers
