"""`make world`: histories drawn from seeds, as many as there is time for."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.world.history import History, acted_out
from tests.world.plans import Plan, drawn


def of_seed(seed: int) -> tuple[int, list[str]]:
    return seed, acted_out(drawn(seed)).violations


def cut_down(plan: Plan, what: str) -> Plan:
    """The smallest plan that still shows it."""
    for smaller in plan.smaller():
        if what in acted_out(smaller).violations:
            return cut_down(smaller, what)
    return plan


def explained(plan: Plan) -> History:
    """Print what becomes of a plan, step by step."""
    history = acted_out(plan)
    print(plan, *history.notes, sep="\n")
    return history


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; alone, it is the only one, and is told step by step")
    parser.add_argument("--count", type=int, help="how many histories")
    parser.add_argument("--minutes", type=float, default=1.0, help="begin none after so many minutes")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if arguments.seed is not None and arguments.count is None:
        sys.exit(1 if explained(drawn(arguments.seed)).violations else 0)
    first = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**9)
    sys.exit(1 if _many(first, arguments.count or 10**9, arguments.minutes, arguments.at_once) else 0)


def _many(first: int, count: int, minutes: float, at_once: int) -> bool:
    began, done, kinds = time.monotonic(), 0, dict[str, int]()
    with ProcessPoolExecutor(at_once) as pool:
        while done < count and time.monotonic() < began + minutes * 60:
            some = range(first + done, first + min(done + 50 * at_once, count))
            for seed, violations in pool.map(of_seed, some, chunksize=10):
                for what in violations:
                    kinds.setdefault(what, seed)
            done += len(some)
    print(f"seeds {first} to {first + done - 1}: {done} histories in {time.monotonic() - began:.0f} seconds")
    for what, seed in kinds.items():
        print(f"\n{what}: seed {seed}")
        print(cut_down(drawn(seed), what))
    return bool(kinds)


if __name__ == "__main__":
    main()
