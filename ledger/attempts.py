"""Attempts: every time a body was begun, and what it said of its end. A call is certain when each of them is."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, select, update

from assent.contracts.execute import ReportKind
from assent.contracts.values import Frozen
from ledger import audit
from ledger.clock import STAMP, database_now
from ledger.engine import Connection
from ledger.results import root_of
from ledger.schema import ClaimState, attempts, claims
from ledger.statements import Row, Statement, insert

_ADD = Statement(insert(attempts).values(began_at=STAMP))
_SAID = Statement(
    update(attempts)
    .where(attempts.c.holder == bindparam("of"), attempts.c.state.in_((ClaimState.STARTED, ClaimState.UNKNOWN)))
    .where(attempts.c.state != bindparam("news"))
)
_NOTE = Statement(update(attempts).where(attempts.c.holder == bindparam("of")))
_OF_CLAIM = Statement(select(attempts).where(attempts.c.consent == bindparam("consent")).order_by(attempts.c.attempt))
_OF_CLAIMS = Statement(select(attempts).where(attempts.c.consent.in_(bindparam("consents", expanding=True))))
_STEPPED_ASIDE = Statement(
    select(claims).where(
        claims.c.answered_by == bindparam("by"), claims.c.answer == ReportKind.UNKNOWN, claims.c.attempt > 0
    )
)


class Holder(Frozen):
    """One attempt of one worker: who runs it, and a token that only this attempt knows."""

    token: str
    worker: str
    activity: str | None = None
    """What it is an attempt of; attempts are numbered within it."""
    turn: int = 0
    """Which of the attempts it is."""
    in_flight: timedelta | None = None
    """How long after its beginning it may still take effect, as its tool says; None: as long as its code runs."""

    def is_older_than(self, claim: Row) -> bool:
        """Whether a later attempt of the same activity holds the claim: this one was given up on, and slept."""
        return self.activity is not None and self.activity == claim.activity and self.turn < claim.turn


class Begun(Frozen):
    """One attempt, as far as it says whether the call can still take effect."""

    state: ClaimState
    began_at: datetime
    body_ended: bool
    in_flight: timedelta | None

    def can_no_longer(self, now: datetime, in_flight: timedelta | None) -> bool:
        over = self.body_ended if self.in_flight is None else now > self.began_at + self.in_flight
        return over and (in_flight is None or now > self.began_at + in_flight)


class BegunAttempts(Frozen):
    """What all attempts to make a call, under whichever consent, let be said of it."""

    begun: tuple[Begun, ...]
    now: datetime

    @property
    def attempts(self) -> int:
        return len(self.begun)

    @property
    def nothing_happened(self) -> bool:
        """Whether there were any, and each of them ended and said that it took no effect."""
        return bool(self.begun) and all(each.state is ClaimState.FAILED for each in self.begun)

    @property
    def something_happened(self) -> bool:
        """Whether one of them ended and said that it took effect."""
        return any(each.state is ClaimState.EXECUTED for each in self.begun)

    @property
    def bodies_ended(self) -> bool:
        """Whether there were any, and the code of each is known to have ended."""
        return bool(self.begun) and all(each.body_ended for each in self.begun)

    def can_no_longer(self, in_flight: timedelta | None) -> bool:
        """Whether a call that has not taken effect by now cannot do so any more.

        A tool that says how long its calls stay in flight is taken at its word, whether its own code has ended or not:
        what it sent may still be on its way. Of any other, its code must be known to have ended, every time. Each
        attempt is held to what the tool said that it ran, and to what the tool says now.

        in_flight: what the tool says now.
        """
        return bool(self.begun) and all(each.can_no_longer(self.now, in_flight) for each in self.begun)


async def began(connection: Connection, consent: str, number: int, holder: Holder) -> None:
    """Note that an attempt begins: now, whatever it waited for before."""
    begun = {
        "consent": consent,
        "attempt": number,
        "state": ClaimState.STARTED,
        "in_flight": holder.in_flight.total_seconds() if holder.in_flight is not None else None,
        **_of(holder),
    }
    await connection.execute(_ADD, begun)


async def said(connection: Connection, holder: Holder, state: ClaimState, body_ended: bool, now: datetime) -> bool:
    """Note what an attempt says of its own end; tells whether that is news."""
    end = {"state": state, "ended_at": audit.stamp(now), **({"body_ended": 1} if body_ended else {})}
    said = await connection.execute(_SAID, {"of": holder.token, "news": state, **end})
    is_news = said.rowcount == 1
    if body_ended and not is_news:
        await ended(connection, holder)
    return is_news


async def ended(connection: Connection, holder: Holder) -> None:
    """The tool's own code has ended: it can no longer do anything."""
    await connection.execute(_NOTE, {"of": holder.token, "body_ended": 1})


async def of_claim(connection: Connection, consent: str) -> list[Row]:
    return (await connection.execute(_OF_CLAIM, {"consent": consent})).all()


async def chain_of(connection: Connection, consent: str) -> list[Row]:
    """The claims under which a call was begun, the first one first: each was tried again as the next."""
    root = await root_of(connection, consent)
    chain = [root] if root is not None else []
    while chain:
        stepped_aside = (await connection.execute(_STEPPED_ASIDE, {"by": chain[0].consent})).first()
        if stepped_aside is None:
            break
        chain.insert(0, stepped_aside)
    return chain


async def begun_of(connection: Connection, consent: str) -> BegunAttempts:
    """What is known of a call's attempts at this moment, by the database's clock."""
    consents = [claim.consent for claim in await chain_of(connection, consent)]
    rows = (await connection.execute(_OF_CLAIMS, {"consents": consents})).all()
    begun = tuple(
        Begun(
            state=row.state,
            began_at=row.began_at,
            body_ended=row.body_ended,
            in_flight=timedelta(seconds=row.in_flight) if row.in_flight is not None else None,
        )
        for row in rows
    )
    return BegunAttempts(begun=begun, now=await database_now(connection))


def held(holder: Holder, now: datetime) -> dict[str, Any]:
    """How a claim says who holds it, and since when."""
    return {**_of(holder), "began_at": audit.stamp(now)}


def _of(holder: Holder) -> dict[str, Any]:
    return {**holder.model_dump(exclude={"token", "in_flight"}), "holder": holder.token}
