"""`python -m ledger`: is the audit what was written, and what to keep elsewhere so that this can be told.

Exits 0 if the audit is whole, 1 if it is not, 2 if it cannot be read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import ValidationError
from sqlalchemy import make_url

from assent.contracts.audit import ClosingHead
from assent.settings import Settings
from ledger import Ledger, LedgerError, roles


class UnreadableHeads(ValueError):
    """A file of heads is not one."""


def existing_database() -> str:
    """The URL of a ledger that is there: reading must not create one."""
    url = Settings().database_url
    parsed = make_url(url)
    if parsed.drivername.startswith("sqlite") and not Path(parsed.database or "").exists():
        raise FileNotFoundError(parsed.database)
    return url


async def verify(ledger: Ledger, head: str | None, kept: list[ClosingHead]) -> int:
    problems = await ledger.verify(head, kept)
    count, last = await ledger.head()
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"The audit is not whole: {len(problems)} findings.", file=sys.stderr)
        return 1
    print(f"The audit is whole: {count} seals." + (f" All {len(kept)} heads are part of it." if kept else ""))
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
    except (LedgerError, ValueError, OSError) as error:
        said = error if isinstance(error, ValueError) else type(error).__name__
        print(f"The roles were not made ({said}); check ASSENT_DATABASE_URL: it must be the owner's.", file=sys.stderr)
        return 2
    print(f"Each may do what it needs: {', '.join(made)}.")
    return 0


async def heads(ledger: Ledger) -> int:
    """One line of JSON for every audit that was sealed."""
    for each in await ledger.heads():
        print(each.model_dump_json(exclude_none=True))
    return 0


async def output(ledger: Ledger, run_id: str) -> int:
    """The last of what a program said, as it said it."""
    found = await ledger.run_output(run_id)
    if found is None:
        print("There is no such run.", file=sys.stderr)
        return 1
    said, code = found
    sys.stdout.buffer.write(said)
    sys.stdout.flush()
    print("It has not ended." if code is None else f"It ended with {code}.", file=sys.stderr)
    return 0


def read_heads(path: Path) -> list[ClosingHead]:
    """Heads as `heads` wrote them, or as completion callbacks carried them in `audit`."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            found += [ClosingHead.model_validate_json(line)] if line.strip() else []
        except ValidationError:
            raise UnreadableHeads(f"{path}, line {number}: this is no head") from None
    return found


async def with_ledger(do: Callable[[Ledger], Awaitable[int]]) -> int:
    try:
        ledger = Ledger.open(existing_database())
        try:
            return await do(ledger)
        finally:
            await ledger.dispose()
    except (LedgerError, ValueError, OSError) as error:
        print(f"The ledger cannot be read ({type(error).__name__}); check ASSENT_DATABASE_URL.", file=sys.stderr)
        return 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ledger", description="Look after the ledger.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    checking = commands.add_parser("verify", help="check the audit's chains, and the tables against it")
    checking.add_argument("--head", help="a head printed earlier, which must still be part of the chain")
    checking.add_argument(
        "--heads", type=Path, metavar="FILE", help="heads written earlier, all still to be part of it"
    )
    commands.add_parser("heads", help="write the head of every sealed audit, one JSON object a line")
    outputs = commands.add_parser("output", help="write the last of what a program said that a tool is")
    outputs.add_argument("run_id", metavar="RUN")
    granting = commands.add_parser("roles", help="make a PostgreSQL role for each process, from LEDGER_PASSWORD_…")
    granting.add_argument("--prefix", default=roles.PREFIX, help="what their names begin with")
    chosen = parser.parse_args()
    if chosen.command == "roles":
        return asyncio.run(make_roles(chosen.prefix))
    if chosen.command == "heads":
        return asyncio.run(with_ledger(heads))
    if chosen.command == "output":
        return asyncio.run(with_ledger(lambda ledger: output(ledger, chosen.run_id)))
    try:
        kept = read_heads(chosen.heads) if chosen.heads else []
    except (OSError, ValueError) as error:
        print(error if isinstance(error, UnreadableHeads) else f"{chosen.heads} cannot be read.", file=sys.stderr)
        return 2
    return asyncio.run(with_ledger(lambda ledger: verify(ledger, chosen.head, kept)))


if __name__ == "__main__":
    sys.exit(main())
