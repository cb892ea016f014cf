"""Alias keys: a call that is known by several names is one call, whichever of them it is asked by."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assent import Identity
from assent.content import Content
from assent.contracts.execute import Report, ReportKind, ToolCall
from assent.payload import alias_keys, canonical_payload, sha256
from ledger import Beginning, ClaimState, Ending, Ledger, Right
from tests.conftest import new_database
from tests.support.ledgers import closing, holder, propose

ANN = Identity(open_id="ou_ann")
BEN = Identity(open_id="ou_ben")
ANN_BY_UNION = Identity(union_id="on_ann")
EXECUTED = Ending(state=ClaimState.EXECUTED, content=Content.of({"sent": 1}))
FAILED = Ending(state=ClaimState.FAILED, error="refused")
UNKNOWN = Ending(state=ClaimState.UNKNOWN, error="RuntimeError: lost")
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path_factory.mktemp("aliases")))
    await ledger.upgrade()
    yield ledger
    await ledger.dispose()


class Asking:
    """Calls of one test: by a key, a message and an event that no other test has."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.n = ledger, next(_numbers)

    async def by(self, *names: str, requester: Identity = ANN, call: int = 1, **more: Any) -> ToolCall:
        """names: what it is known by, such as "key" or "message 2"; each approval has a scope of its own beside."""
        arguments = {"call": call, "of": self.n}
        said = {name.split()[0]: f"{name} {self.n}" for name in names}
        known_by = alias_keys(
            "test",
            sha256(canonical_payload("send", arguments)),
            key=said.get("key"),
            message_id=said.get("message"),
            event_id=said.get("event"),
        )
        plan = await propose(self.ledger, arguments, requester=requester, aliases=known_by, **more)
        return ToolCall.of(plan)

    async def ended(self, ending: Ending, *names: str, **more: Any) -> ToolCall:
        call, running = await self.by(*names, **more), holder()
        assert (await self.ledger.begin(call, running)).right is Right.RUN
        await self.ledger.finish(call, running, 1, ending)
        return call

    async def told(self, *names: str, **more: Any) -> Report:
        beginning = await self.ledger.begin(await self.by(*names, **more), holder())
        assert beginning.report is not None, beginning.right
        return beginning.report


@pytest.fixture
def asking(ledger: Ledger) -> Asking:
    return Asking(ledger)


# One call, whichever name it is asked by


@pytest.mark.parametrize("name", ["key", "message", "event"])
async def test_a_call_that_was_made_under_any_of_its_names_is_replayed(asking: Asking, name: str) -> None:
    await asking.ended(EXECUTED, "key", "message", "event")
    told = await asking.told(name)
    assert (told.kind, told.content) == (ReportKind.REPLAYED, {"sent": 1})


async def test_of_many_that_overlap_one_runs(ledger: Ledger, asking: Asking) -> None:
    names = [("message",), ("message", "key"), ("message", "event"), ("event", "message"), ("message", "key 2")] * 2
    calls = [await asking.by(*each) for each in names]
    beginnings = await asyncio.gather(*(ledger.begin(call, holder()) for call in calls))
    rights = [beginning.right for beginning in beginnings]
    assert (rights.count(Right.RUN), rights.count(Right.WAIT)) == (1, len(calls) - 1)


async def test_overlaps_that_cross_never_wait_for_each_other(ledger: Ledger, asking: Asking) -> None:
    pairs = [("key", "message"), ("message", "event"), ("event", "key")] * 3
    calls = [await asking.by(*each) for each in pairs]
    async with asyncio.timeout(60):
        beginnings = await asyncio.gather(*(ledger.begin(call, holder()) for call in calls))
    assert [each.right for each in beginnings].count(Right.RUN) == 1


async def test_who_waited_gets_the_result_and_brings_its_other_names(ledger: Ledger, asking: Asking) -> None:
    first, running = await asking.by("message"), holder()
    assert (await ledger.begin(first, running)).right is Right.RUN
    second, third = await asking.by("message", "key"), await asking.by("key")
    assert (await ledger.begin(second, holder())).right is Right.WAIT
    assert (await ledger.begin(third, holder())).right is Right.WAIT, "the key is that of the call which runs"
    await ledger.finish(first, running, 1, EXECUTED)
    for call in (second, third):
        told = (await ledger.begin(call, holder())).report
        assert told is not None
        assert (told.kind, told.content) == (ReportKind.REPLAYED, {"sent": 1})


@pytest.mark.parametrize("begins", [True, False])
async def test_what_was_begun_and_never_ended_freezes_the_others(ledger: Ledger, asking: Asking, begins: bool) -> None:
    killed = await asking.by("message")
    assert (await ledger.begin(killed, holder())).right is Right.RUN
    other = await asking.by("message", "key")
    assert (await ledger.begin(other, holder())).right is Right.WAIT
    assert (await ledger.close(closing(killed))).kind is ReportKind.UNKNOWN
    told = (await ledger.begin(other, holder())).report if begins else await ledger.close(closing(other))
    assert told is not None
    assert (told.kind, told.idempotency_key) == (ReportKind.UNKNOWN, killed.idempotency_key)
    assert (await asking.told("key")).kind is ReportKind.UNKNOWN


async def test_one_whose_worker_never_came_waits_for_the_other(ledger: Ledger, asking: Asking) -> None:
    first, running = await asking.by("event"), holder()
    assert (await ledger.begin(first, running)).right is Right.RUN
    late = await asking.by("event", "key")
    assert (await ledger.close(closing(late))).kind is ReportKind.WAITING
    await ledger.finish(first, running, 1, EXECUTED)
    assert (await ledger.close(closing(late))).kind is ReportKind.REPLAYED
    assert (await asking.told("key")).kind is ReportKind.REPLAYED


async def test_after_a_failure_its_names_are_free(ledger: Ledger, asking: Asking) -> None:
    await asking.ended(FAILED, "key", "message")
    await asking.ended(EXECUTED, "key", "message", call=2)
    assert (await asking.told("key", call=2)).kind is ReportKind.REPLAYED


async def test_what_is_known_as_two_calls_gets_the_result_that_there_is(ledger: Ledger, asking: Asking) -> None:
    await asking.ended(EXECUTED, "key")
    lost, running = await asking.by("message"), holder()
    assert (await ledger.begin(lost, running)).right is Right.RUN
    await ledger.finish(lost, running, 1, UNKNOWN)
    assert (await asking.told("key", "message")).kind is ReportKind.REPLAYED


# What the names stand for


@pytest.mark.parametrize("ending", [None, EXECUTED, UNKNOWN])
async def test_another_payload_under_the_same_key_is_refused(
    ledger: Ledger, asking: Asking, ending: Ending | None
) -> None:
    call, running = await asking.by("key", "message"), holder()
    assert (await ledger.begin(call, running)).right is Right.RUN
    if ending is not None:
        await ledger.finish(call, running, 1, ending)
    other = await asking.by("key", call=2)
    told = (await ledger.begin(other, holder())).report
    assert told is not None
    assert (told.kind, told.reason) == (ReportKind.NOT_BEGUN, "the idempotency key stands for another payload")
    assert (await ledger.close(closing(other))).kind is ReportKind.FAILED


async def test_one_message_brings_several_calls(ledger: Ledger, asking: Asking) -> None:
    for call in (1, 2, 3):
        await asking.ended(EXECUTED, "message", "event", call=call)
        assert (await asking.told("message", call=call)).kind is ReportKind.REPLAYED


@pytest.mark.parametrize("name", ["key", "message", "event"])
@pytest.mark.parametrize(("whose", "why"), [(BEN, "somebody else's call"), (ANN_BY_UNION, "may or may not be")])
async def test_anothers_name_is_refused_and_nothing_of_it_is_told(
    ledger: Ledger, asking: Asking, name: str, whose: Identity, why: str
) -> None:
    first = await asking.ended(EXECUTED, "key", "message", "event")
    told = await asking.told(name, requester=whose)
    assert (told.kind, told.content) == (ReportKind.NOT_BEGUN, None)
    assert why in (told.reason or "")
    assert first.approval_id not in (told.reason or "")


async def test_of_many_people_who_race_for_one_key_one_runs(ledger: Ledger, asking: Asking) -> None:
    calls = [await asking.by("key", requester=Identity(open_id=f"ou_{n}"), call=n) for n in range(8)]
    beginnings = await asyncio.gather(*(ledger.begin(call, holder()) for call in calls))
    assert sorted(each.right for each in beginnings) == [Right.REPORT] * 7 + [Right.RUN]


# An operator tries it again


async def retried(ledger: Ledger, call: ToolCall) -> Beginning:
    again = call.model_copy(update={"consent": f"{call.approval_id}#1", "retries": call.consent})
    return await ledger.begin(again, holder())


async def test_a_retry_keeps_every_name_of_the_call(ledger: Ledger, asking: Asking) -> None:
    lost = await asking.ended(UNKNOWN, "message", retry_safe=True)
    joined = await asking.by("message", "key", retry_safe=True)
    told = (await ledger.begin(joined, holder())).report
    assert told is not None
    assert told.kind is ReportKind.UNKNOWN
    assert (await retried(ledger, lost)).right is Right.RUN
    for name in ("message", "key"):
        assert (await ledger.begin(await asking.by(name), holder())).right is Right.WAIT


async def test_nothing_is_tried_again_that_another_has_made_under_one_of_its_keys(
    ledger: Ledger, asking: Asking
) -> None:
    lost = await asking.ended(UNKNOWN, "message", retry_safe=True)
    await asking.ended(EXECUTED, "key", retry_safe=True)
    both = lost.model_copy(update={"aliases": (*lost.aliases, *(await asking.by("key")).aliases)})
    beginning = await retried(ledger, both)
    assert beginning.report is not None
    assert beginning.report.kind is ReportKind.NOT_BEGUN
    assert "under one of its keys" in (beginning.report.reason or "")


# What is stored stays sound


async def test_the_audit_is_whole_after_all_that(ledger: Ledger, asking: Asking) -> None:
    await asking.ended(EXECUTED, "key", "message")
    assert (await asking.told("message", "event")).kind is ReportKind.REPLAYED
    assert await ledger.verify() == []


async def test_aliases_are_part_of_what_is_consented_to(asking: Asking) -> None:
    call = await asking.by("key")
    without = call.model_copy(update={"aliases": ()})
    assert call.by_its_plan.terms_sha256 != without.by_its_plan.terms_sha256
