"""`make faults`: the whole matrix, then random schedules, on servers of their own.

With a seed or a count only the schedules; `--table` writes the matrix into docs/faults.md.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import os
import random
import sys
import tempfile
from pathlib import Path

from tests.faults import deaths, report
from tests.faults.environments import ENVIRONMENTS, NotHere, Table, Workspace
from tests.faults.running import run_seeds
from tests.support.fork_server import ForkServer
from tests.support.servers import TemporalServer, connect


async def _with_servers(arguments: argparse.Namespace, directory: Path) -> int:
    temporal, fork_server = TemporalServer(namespaces=len(ENVIRONMENTS) + 2), ForkServer()
    temporal.start()
    fork_server.start()
    try:
        if arguments.files:
            return await deaths.act_out(deaths.FILES, directory)
        if arguments.questions:
            return await deaths.act_out(deaths.QUESTIONS, directory)
        if arguments.programs:
            return await deaths.act_out(deaths.PROGRAMS, directory)
        if arguments.table:
            return await _act_out(temporal.address, directory, write=True)
        wrong = 0
        if arguments.seed is None and arguments.count is None:
            wrong = await _act_out(temporal.address, directory, write=False)
            for each in (deaths.FILES, deaths.QUESTIONS, deaths.PROGRAMS):
                wrong += await deaths.act_out(each, directory)
        first = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**9)
        count = 1 if arguments.seed is not None and arguments.count is None else arguments.count or 1000
        print(f"seeds {first} to {first + count - 1}", flush=True)
        return wrong + await run_seeds(
            range(first, first + count),
            [await connect(temporal.address, f"n{len(ENVIRONMENTS) + n}") for n in range(2)],
            temporal.address,
            directory,
            minutes=arguments.minutes,
            at_once=arguments.at_once,
        )
    finally:
        fork_server.stop()
        temporal.kill()


async def _act_out(address: str, directory: Path, *, write: bool) -> int:
    """The matrix, one environment after the other; how many of its cells are not as they should be."""
    seen: Table = {}
    for number, environment in enumerate(ENVIRONMENTS):
        own = directory / environment.__name__
        own.mkdir()
        client = await connect(address, f"n{number}")
        try:
            seen |= await environment(Workspace(client, address, own))
        except NotHere as lack:
            if write:
                raise
            print(f"{environment.__name__} was left out: {lack}", flush=True)
    if write:
        report.write(seen)
    wrong = report.differences(seen)
    print("\n".join(wrong) or f"{len(seen)} faults at every moment left what {report.DOCUMENT.name} says.", flush=True)
    return len(wrong)


def main() -> None:
    faulthandler.enable()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; alone, it is the only one")
    parser.add_argument("--count", type=int, help="how many schedules (1000)")
    parser.add_argument("--minutes", type=float, default=60, help="begin none after so many minutes")
    parser.add_argument("--at-once", type=int, default=8, help="how many run at the same time")
    parser.add_argument("--table", action="store_true", help="act out the matrix, and write it down")
    parser.add_argument("--questions", action="store_true", help="only kill workers while somebody is asked")
    parser.add_argument("--programs", action="store_true", help="only kill workers while a program asks")
    parser.add_argument("--files", action="store_true", help="only kill workers while a file is on its way")
    with tempfile.TemporaryDirectory(prefix="assent-faults-") as directory:
        code = asyncio.run(_with_servers(parser.parse_args(), Path(directory)))
    sys.stdout.flush()
    # Temporal's native runtime can crash while the interpreter tears itself down; everything is done by now.
    os._exit(min(code, 1))


if __name__ == "__main__":
    main()
