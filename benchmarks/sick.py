"""Healthy approvals beside chats that do not answer: how long from a click to its outcome, with and without them.

The approvals worker is a process of its own, as it is deployed. Feishu is simulated in this one, with its limits, and
every approval has a chat to itself: nothing of what a sick chat does is known before it was asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import quantiles
from typing import TypeVar

from temporalio.client import Client

from assent import Assent, Decision, Status, names
from assent.arguments import schema
from assent.payload import canonical_payload, sha256
from assent.temporal.door import TemporalDoor
from assent.types import DecisionKind
from benchmarks.flows import ARGUMENTS, ME, pay
from benchmarks.workflows import TTL
from ledger import MessageKind, Slot
from simulator import Simulator
from simulator.faults import Fault
from simulator.people import Chat
from tests.support.waiting import until

Done = TypeVar("Done")

SICK, HEALTHY, ROUNDS = 200, 50, 2
SLOW = 8.0
"""Seconds after which one half of the sick chats answers; the other half does not answer at all."""
NEVER = 3600.0
PEOPLE = 10
"""How many people click at the same time."""
MOST_SLOWED = 2.0
"""How many times as long a click may take to its outcome beside the sick chats, at p95."""
_PATIENCE = 90.0
_PAYLOAD = sha256(canonical_payload(pay.name, schema.complete(pay.manifest.parameters, ARGUMENTS)))


@dataclass
class Times:
    """Milliseconds of each of some healthy approvals."""

    to_card: list[float] = field(default_factory=list)
    """From asking until the card is in its chat."""
    to_outcome: list[float] = field(default_factory=list)
    """From a click until the agent has the outcome."""


class Ward:
    """One service whose Feishu is simulated here."""

    def __init__(self, client: Client, platform: Simulator) -> None:
        self._client = client
        self._gate = Assent(TemporalDoor(client))
        self._platform = platform
        self._rooms = 0

    async def fall_sick(self, count: int = SICK) -> None:
        """Ask in so many chats that will not answer; they wait from now on."""
        rooms = [self._room() for _ in range(count)]
        faults = [
            Fault(on=on, kind="slow", seconds=SLOW if n % 2 else NEVER, match={"chat_id": room})
            for n, room in enumerate(rooms)
            for on in ("send", "patch")
        ]
        self._platform.faults.replace([*self._platform.faults.all, *faults])
        sick = await _all(rooms, self._ask)

        async def tried() -> bool:  # a few that were given up before they arrived are tried again much later
            return sum(self._card(each) is not None for each in sick) >= 0.95 * count

        await until(tried, _PATIENCE)

    async def measure(self, rounds: int = ROUNDS, count: int = HEALTHY) -> Times:
        """Ask in so many chats that answer, and click on every card once all are there; and again."""
        times = Times()
        for _ in range(rounds):
            asked = await _all([self._room() for _ in range(count)], self._shown)
            times.to_card += [waited for _, waited in asked]
            times.to_outcome += await _all([approval_id for approval_id, _ in asked], self._clicked)
        return times

    def _room(self) -> str:
        self._rooms += 1
        chat_id = f"oc_ward_{self._rooms}"
        self._platform.chats[chat_id] = Chat(chat_id, chat_id, "group", (ME.open_id or "",))
        return chat_id

    async def _ask(self, chat_id: str) -> str:
        return (await self._gate.request(pay.name, ARGUMENTS, requester=ME, chat_id=chat_id, ttl=TTL)).id

    async def _shown(self, chat_id: str) -> tuple[str, float]:
        asked = time.monotonic()
        approval_id = await self._ask(chat_id)

        async def shown() -> bool:
            return self._card(approval_id) is not None

        await until(shown, _PATIENCE)
        return approval_id, 1000 * (time.monotonic() - asked)

    def _card(self, approval_id: str) -> str | None:
        slot = Slot(approval_id=approval_id, kind=MessageKind.CARD, generation=1, place=0)
        message = self._platform.sent_as(slot.uuid)
        return message.message_id if message else None

    async def _clicked(self, approval_id: str) -> float:
        decision = Decision(
            approval_id=approval_id,
            kind=DecisionKind.APPROVE,
            payload_sha256=_PAYLOAD,
            actor=ME,
            event_id=f"click:{approval_id}",
            message_id=self._card(approval_id),
            received_at=datetime.now(UTC),
        )
        clicked = time.monotonic()
        await self._client.get_workflow_handle(names.approval_workflow(approval_id)).signal(names.DECIDE, decision)
        outcome = await asyncio.wait_for(self._gate.approval(approval_id).outcome(), _PATIENCE)
        assert outcome.status is Status.EXECUTED, outcome
        return 1000 * (time.monotonic() - clicked)


async def _all(each: Sequence[str], do: Callable[[str], Awaitable[Done]]) -> list[Done]:
    """Do it with all of these, as many at a time as there are people."""
    some = asyncio.Semaphore(PEOPLE)

    async def one(thing: str) -> Done:
        async with some:
            return await do(thing)

    return list(await asyncio.gather(*(one(thing) for thing in each)))


def p95(milliseconds: Sequence[float]) -> float:
    return quantiles(milliseconds, n=20, method="inclusive")[18]


def slowed(without: Times, beside: Times) -> float:
    """How many times as long healthy approvals take from click to outcome beside sick ones, at p95."""
    return p95(beside.to_outcome) / p95(without.to_outcome)


def objection(without: Times, beside: Times) -> str | None:
    """What is wrong where the sick chats hold the healthy ones up; None where they do not."""
    times = slowed(without, beside)
    if times <= MOST_SLOWED:
        return None
    return (
        f"Sick chats hold healthy approvals up: p95 from click to outcome is × {times:.2f} beside them, "
        f"and × {MOST_SLOWED:g} is the most it may be."
    )
