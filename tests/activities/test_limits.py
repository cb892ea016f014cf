"""Pacing and remembering in bounded memory."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from activities.feishu.pacing import Memory, Pacer, TooLate, Window


async def test_whoever_came_first_goes_first() -> None:
    pacer = Pacer(each=2, overall=50, patience=10)
    went: list[int] = []

    async def go(number: int) -> None:
        await pacer.turn("a")
        went.append(number)

    await asyncio.gather(*(go(number) for number in range(5)))
    assert went == [0, 1, 2, 3, 4]


async def test_all_destinations_together_keep_the_overall_pace() -> None:
    pacer = Pacer(each=5, overall=10, patience=0.5)
    results = await asyncio.gather(*(pacer.turn(f"chat-{n}") for n in range(12)), return_exceptions=True)
    assert sum(isinstance(result, TooLate) for result in results) == 2


async def test_a_call_that_would_wait_too_long_takes_no_turn() -> None:
    pacer = Pacer(each=1, overall=50, patience=0.05)
    await pacer.turn("a")
    for _ in range(3):
        with pytest.raises(TooLate) as late:
            await pacer.turn("a")
        assert 0.05 < late.value.wait <= 1.1


def test_turns_keep_their_distance() -> None:
    window = Window(5)
    turns = [window.book(100.0, patience=10) for _ in range(30)]
    assert turns[:5] == pytest.approx([100.0] * 5, abs=1e-4)
    assert all(later - earlier > 1 for earlier, later in zip(turns, turns[5:], strict=False))
    assert window.book(turns[-1] + 60, patience=0) == turns[-1] + 60


def test_destinations_that_are_quiet_are_forgotten() -> None:
    pacer = Pacer(each=5, overall=100, patience=1)
    for number in range(50):
        pacer.window(f"chat-{number}", 100.0).book(100.0, 1)
    assert len(pacer) == 50
    pacer.window("another", 160.0)
    assert len(pacer) == 1


def test_destinations_that_are_never_quiet_are_still_bounded() -> None:
    pacer = Pacer(each=5, overall=100, patience=1)
    for number in range(10_500):
        pacer.window(f"chat-{number}", 100.0).book(100.0, 1)
    assert len(pacer) == 10_000


def test_memory_keeps_the_newest_each_for_its_time() -> None:
    now = 0.0
    memory: Memory[int] = Memory(2, clock=lambda: now)
    for number, key in enumerate("abc"):
        memory.keep(key, number, 10)
    assert "a" not in memory
    assert memory["c"] == 2
    assert len(memory) == 2
    now = 10.0
    assert "c" not in memory


async def test_whoever_is_interrupted_before_its_wait_begins_is_not_overtaken() -> None:
    class Interrupted(Window):
        """The machine stops us for so long just after a turn was booked."""

        stop = 0.0

        def book(self, now: float, patience: float) -> float:
            at = super().book(now, patience)
            time.sleep(self.stop)
            return at

    window, went = Interrupted(2), list[int]()

    async def go(number: int) -> None:
        await window.turn(10)
        went.append(number)

    await asyncio.gather(window.turn(10), window.turn(10))
    window.stop = 0.2
    first = asyncio.create_task(go(1))
    await asyncio.sleep(0)
    window.stop = 0.0
    await asyncio.gather(first, go(2))
    assert went == [1, 2]


async def test_turns_closer_together_than_the_loop_can_tell_apart_keep_their_order() -> None:
    """A timer goes off within a millisecond of its moment, and so before another of an earlier one."""
    rush, chance = 10, random.Random(8)

    async def order() -> list[int]:
        window, went = Window(rush), list[int]()

        async def go(number: int) -> None:
            until = time.perf_counter() + chance.uniform(0, 0.0004)
            while time.perf_counter() < until:
                pass
            await window.turn(10)
            went.append(number)

        await asyncio.gather(*(go(number) for number in range(2 * rush)))
        return went

    assert await asyncio.gather(*(order() for _ in range(50))) == [list(range(2 * rush))] * 50


async def test_whoever_comes_after_a_long_interruption_waits_for_those_before_it() -> None:
    window, went = Window(1), list[int]()

    async def go(number: int) -> None:
        await window.turn(10)
        went.append(number)

    await window.turn(10)
    first = asyncio.create_task(go(1))
    await asyncio.sleep(0)
    window._given[-1] -= 10  # its moment has passed before the loop gets round to its timer
    await asyncio.gather(first, go(2))
    assert went == [1, 2]


async def test_a_destination_that_somebody_still_waits_for_is_not_forgotten() -> None:
    pacer, went = Pacer(each=1, overall=50, patience=10), list[int]()

    async def go(number: int) -> None:
        await pacer.turn("a")
        went.append(number)

    await pacer.turn("a")
    first = asyncio.create_task(go(1))
    await asyncio.sleep(0)
    pacer.window("another", time.monotonic() + 10)  # the loop was held up past the moment of those who wait
    await asyncio.gather(first, go(2))
    assert went == [1, 2]
