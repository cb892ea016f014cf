"""`python -m ledger verify [--head HASH]`: is the audit what was written?"""

from __future__ import annotations

import argparse
import asyncio
import sys

from assent.settings import Settings
from ledger import Ledger


async def verify(head: str | None) -> int:
    ledger = Ledger.open(Settings().database_url)
    try:
        problems = await ledger.verify(head)
        count, last = await ledger.head()
    finally:
        await ledger.dispose()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"The audit is not whole: {len(problems)} findings.", file=sys.stderr)
        return 1
    print(f"The audit is whole: {count} seals.")
    if count:
        print(f"Head: {last}")
        print("Keep the head elsewhere; `python -m ledger verify --head HEAD` then notices a cut end too.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ledger", description="Look after the ledger.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    checking = commands.add_parser("verify", help="check the audit's chains")
    checking.add_argument("--head", help="a head printed earlier, which must still be part of the chain")
    return asyncio.run(verify(parser.parse_args().head))


if __name__ == "__main__":
    sys.exit(main())
