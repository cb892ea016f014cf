"""`python -m ledger verify [--head HASH]`: is the audit what was written? Exits 0 if so, 1 if not, 2 if unreadable."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from assent.settings import Settings
from ledger import Ledger, roles


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


async def make_roles(prefix: str) -> int:
    given = roles.passwords(os.environ)
    if not given:
        names = ", ".join(f"LEDGER_PASSWORD_{process.upper()}" for process in roles.ROLES)
        print(f"No password was given: set one or more of {names}.", file=sys.stderr)
        return 2
    try:
        ledger = Ledger.open(existing_database())
        made = await roles.grant(ledger.engine, given, prefix)
        await ledger.dispose()
    except (SQLAlchemyError, ValueError, OSError) as error:
        said = error if isinstance(error, ValueError) else type(error).__name__
        print(f"The roles were not made ({said}); check ASSENT_DATABASE_URL: it must be the owner's.", file=sys.stderr)
        return 2
    print(f"Each may do what it needs: {', '.join(made)}.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ledger", description="Look after the ledger.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    checking = commands.add_parser("verify", help="check the audit's chains")
    checking.add_argument("--head", help="a head printed earlier, which must still be part of the chain")
    checking.set_defaults(run=lambda given: verify(given.head))
    granting = commands.add_parser("roles", help="make a PostgreSQL role for each process, from LEDGER_PASSWORD_…")
    granting.add_argument("--prefix", default=roles.PREFIX, help="what their names begin with")
    granting.set_defaults(run=lambda given: make_roles(given.prefix))
    given = parser.parse_args()
    code: int = asyncio.run(given.run(given))
    return code


if __name__ == "__main__":
    sys.exit(main())
