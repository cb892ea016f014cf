"""What the cards of an approval are made of: whether a card holds the whole call is found out once for each plan."""

from __future__ import annotations

from typing import cast

import pytest

from activities import showings
from activities.showings import CardContent, CardState, Showings
from assent.contracts.plan import Plan
from cards import File, Wording, overflow
from ledger import Ledger, MessageKind, Record
from tests.support.cards import WORDING, plan

LONG = ("So much is to be said of this call that no card holds it. " * 200,)


class NoTools:
    """A ledger that knows of no tool."""

    async def manifest(self, tool: str) -> None:
        return None


class Looks:
    """How often a card is drawn only to see whether it holds everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(showings, "overflow", self._look)

    def _look(self, plan: Plan, wording: Wording) -> File | None:
        self.count += 1
        return overflow(plan, wording)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


@pytest.fixture
def shows() -> Showings:
    return Showings(cast("Ledger", NoTools()), WORDING, "")


async def drawn(shows: Showings, shown: Plan, card_state: CardState | None = None) -> CardContent:
    record = Record(plan=shown, decided=None, outcome=None, closed_at=None, settlement=None, twin_key=None, messages=())
    return await shows.content(MessageKind.CARD, record, card_state or CardState())


async def test_that_a_card_holds_the_whole_call_is_found_out_once(shows: Showings, looks: Looks) -> None:
    for card_state in (CardState(), CardState(reminder=True), CardState(replaced=True)):
        read_again = Plan.model_validate_json(plan().model_dump_json())
        assert (await drawn(shows, read_again, card_state)).file is None
    assert looks.count == 1
    assert (await drawn(shows, plan(approval_id="inv-43"))).file is None
    assert looks.count == 2


async def test_a_call_that_no_card_holds_comes_with_its_file_each_time(shows: Showings, looks: Looks) -> None:
    large = plan({"body": "x" * 60_000})
    first, second = await drawn(shows, large), await drawn(shows, large)
    assert first.file is not None
    assert first == second


async def test_a_plan_that_became_another_is_looked_at_anew(shows: Showings) -> None:
    """An edit that is taken back has the hash of before, and may have more to show than before."""
    before, after = plan(), plan(warnings=LONG)
    assert before.payload_sha256 == after.payload_sha256
    assert (await drawn(shows, before)).file is None
    assert (await drawn(shows, after)).file is not None


async def test_what_is_remembered_of_plans_is_bounded(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showings, "_MOST_FITTING", 2)
    shows = Showings(cast("Ledger", NoTools()), WORDING, "")
    for name in ("a", "b", "c", "c", "b", "a"):
        await drawn(shows, plan(approval_id=name))
    assert looks.count == 4
