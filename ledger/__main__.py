"""`python -m ledger verify [--head HASH]`: is the audit what was written? Exits 0 if so, 1 if not, 2 if unreadable."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from assent.settings import Settings
from ledger import Ledger


def existing_database() -> str:
    """The URL of a ledger that is there: reading must not create one."""
    url = Settings().database_url
    parsed = make_url(url)
    if parsed.drivername.startswith("sqlite") and not Path(parsed.database or "").exists():
        raise FileNotFoundError(parsed.database)
    return url


async def verify(head: str | None) -> int:
    try:
        ledger = Ledger.open(existing_database())
        problems = await ledger.verify(head)
        count, last = await ledger.head()
        await ledger.dispose()
    except (SQLAlchemyError, ValueError, OSError) as error:
        print(f"The ledger cannot be read ({type(error).__name__}); check ASSENT_DATABASE_URL.", file=sys.stderr)
        return 2
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
