"""Overrides of tools' permissions in the ledger: which is in force, who may loosen, and that none is lost."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from assent import Identity
from assent.contracts.execute import ToolCall
from assent.contracts.permission import Permission
from assent.contracts.policy import NewOverride, OverrideKind
from assent.types import Execution, ResultReview
from ledger import Ledger, Right
from tests.conftest import new_database
from tests.support import tools
from tests.support.ledgers import holder, propose
from tests.support.stepwise import writing
from tests.support.waiting import until

OPERATOR = Identity(open_id="ou_operator")


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = Ledger.open(await new_database(request.param, tmp_path))
    await ledger.upgrade()
    await ledger.publish([tools.mark.manifest, tools.never.manifest], datetime.now(UTC))
    yield ledger
    await ledger.dispose()


def wish(tool: str = "mark", **said: Any) -> NewOverride:
    return NewOverride(**{"tool": tool, "once": uuid.uuid4().hex, "actor": OPERATOR, **said})


async def test_the_last_of_a_tool_is_in_force_until_it_expires_by_the_databases_clock(ledger: Ledger) -> None:
    stricter = await ledger.override(wish(result=ResultReview.ALWAYS), may_loosen=False)
    assert stricter.kind is OverrideKind.IN_FORCE
    assert (await ledger.overrides())["mark"] == stricter.override
    past = datetime.now(UTC) - timedelta(days=1)
    await ledger.override(wish(execution=Execution.DENY, until=past), may_loosen=True)
    assert not await ledger.overrides(), "an expired one leaves nothing, not the one before it"
    lasting = await ledger.override(wish(execution=Execution.DENY, until=timedelta(hours=2)), may_loosen=False)
    assert lasting.override is not None
    assert lasting.override.until == lasting.override.since + timedelta(hours=2)
    ended = await ledger.override(wish(), may_loosen=True)
    assert (ended.kind, await ledger.overrides()) == (OverrideKind.ENDED, {})


async def test_only_who_may_loosens(ledger: Ledger) -> None:
    free = wish(execution=Execution.AUTO)
    assert (await ledger.override(free, may_loosen=False)).kind is OverrideKind.FORBIDDEN
    assert not await ledger.overrides()
    unknown = wish("no.such.tool", execution=Execution.DENY)
    assert (await ledger.override(unknown, may_loosen=False)).kind is OverrideKind.FORBIDDEN
    await ledger.override(wish(execution=Execution.DENY), may_loosen=False)
    for looser in (wish(execution=Execution.ASK_ALWAYS), wish(), wish(result=ResultReview.ALWAYS)):
        assert (await ledger.override(looser, may_loosen=False)).kind is OverrideKind.FORBIDDEN
    assert (await ledger.override(free, may_loosen=True)).kind is OverrideKind.IN_FORCE
    back = await ledger.override(wish(), may_loosen=False)
    assert back.kind is OverrideKind.ENDED, "ending what loosens asks for more"


@pytest.mark.parametrize("ending", [timedelta(seconds=1), datetime(2020, 1, 1, tzinfo=UTC)])
async def test_who_may_not_loosen_lets_no_stricter_one_end_sooner(ledger: Ledger, ending: timedelta | datetime) -> None:
    strict = (await ledger.override(wish(execution=Execution.DENY, until=timedelta(hours=2)), may_loosen=True)).override
    sooner = await ledger.override(wish(execution=Execution.DENY, until=ending), may_loosen=False)
    assert (sooner.kind, await ledger.overrides()) == (OverrideKind.FORBIDDEN, {"mark": strict})
    longer = await ledger.override(wish(execution=Execution.DENY, until=timedelta(hours=3)), may_loosen=False)
    assert longer.kind is OverrideKind.IN_FORCE


async def test_who_may_not_loosen_lets_nothing_looser_last(ledger: Ledger) -> None:
    loose = (await ledger.override(wish(execution=Execution.AUTO, until=timedelta(hours=2)), may_loosen=True)).override
    for longer in (wish(execution=Execution.AUTO), wish(execution=Execution.ASK_ONCE)):
        assert (await ledger.override(longer, may_loosen=False)).kind is OverrideKind.FORBIDDEN
    assert await ledger.overrides() == {"mark": loose}


async def test_who_may_not_loosen_never_has_for_a_tool_that_becomes_stricter(ledger: Ledger) -> None:
    free = tools.mark.manifest.model_copy(update={"permission": Permission(execution=Execution.AUTO)})
    await ledger.publish([free], datetime.now(UTC))
    for may_loosen, held in ((False, Execution.ASK_ALWAYS), (True, Execution.ASK_ONCE)):
        made = (await ledger.override(wish(execution=Execution.ASK_ONCE), may_loosen=may_loosen)).override
        assert made is not None
        assert made.over(free.permission).execution is Execution.ASK_ONCE
        assert made.over(Permission(execution=Execution.ASK_ALWAYS)).execution is held
        assert made.over(Permission(execution=Execution.DENY)).execution is Execution.DENY


@pytest.mark.parametrize("lasting", [timedelta(0), timedelta(seconds=-1), timedelta.max])
def test_it_lasts_as_long_as_can_be_said(lasting: timedelta) -> None:
    with pytest.raises(ValueError, match="until"):
        wish(execution=Execution.DENY, until=lasting)


async def test_the_same_wish_twice_is_one(ledger: Ledger) -> None:
    once = wish(execution=Execution.DENY)
    first, again = [await ledger.override(once, may_loosen=False) for _ in range(2)]
    assert first == again
    assert first.override is not None
    assert first.override.n == 1


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM overrides WHERE n = 1",
        "UPDATE overrides SET body = replace(body, 'deny', 'auto') WHERE n = 1",
        "UPDATE overrides SET until = NULL WHERE n = 1",
        "UPDATE overrides SET tool = 'other' WHERE n = 1",
    ],
)
async def test_what_was_changed_is_found(ledger: Ledger, harm: str) -> None:
    for _ in range(2):
        await ledger.override(wish(execution=Execution.DENY, until=timedelta(hours=1)), may_loosen=False)
    assert not await ledger.verify()
    await damaged(ledger, harm)
    assert any("override" in problem for problem in await ledger.verify())


async def test_a_call_looked_at_by_another_override_is_looked_at_again(ledger: Ledger) -> None:
    call = ToolCall.of(await propose(ledger))
    await ledger.publish([tools.mark.manifest.model_copy(update={"name": call.tool})], datetime.now(UTC))
    short = wish(call.tool, result=ResultReview.ALWAYS, until=timedelta(milliseconds=1))
    await ledger.override(short, may_loosen=False)
    await until(lambda: _expired(ledger))
    assert (await ledger.begin(call, holder(), policy=(0, 1))).right is Right.LOOK_AGAIN, "it has expired"
    await ledger.override(wish(call.tool, result=ResultReview.ALWAYS), may_loosen=False)
    for numbers in ((0, 0), (0, 1), (1, 2)):
        assert (await ledger.begin(call, holder(), policy=numbers)).right is Right.LOOK_AGAIN
    assert (await ledger.begin(call, holder(), policy=(0, 2))).right is Right.RUN


async def _expired(ledger: Ledger) -> bool:
    return not await ledger.overrides()


async def damaged(ledger: Ledger, harm: str) -> None:
    async with writing(ledger.engine) as connection:
        await connection.execute(text(harm))
