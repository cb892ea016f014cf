"""Alias keys: what else a call is known by. While it is active, each of them is its alone.

Whoever asks here holds the lock of each alias to the transaction's end.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import bindparam, select

from ledger.engine import Connection
from ledger.results import root_of
from ledger.schema import ACTIVE, claim_aliases
from ledger.statements import Row, Statement, insert

_HOLDER = Statement(select(claim_aliases.c.consent).where(claim_aliases.c.alias == bindparam("name")))
_taking = insert(claim_aliases)
_TAKE = Statement(_taking.on_conflict_do_update(index_elements=["alias"], set_={"consent": _taking.excluded.consent}))


async def holders(connection: Connection, aliases: Iterable[str]) -> list[Row]:
    """The active claims that have any of these, each once."""
    found = [await _holder(connection, alias) for alias in aliases]
    return list({claim.consent: claim for claim in found if claim is not None}.values())


async def take(connection: Connection, aliases: Iterable[str], consent: str) -> bool:
    """Give a consent those that no other's active call has; False if one has some of them."""
    are_all_free = True
    for alias in aliases:
        holder = await _holder(connection, alias)
        if holder is None:
            await connection.execute(_TAKE, {"alias": alias, "consent": consent})
        else:
            are_all_free = are_all_free and holder.consent == consent
    return are_all_free


async def _holder(connection: Connection, alias: str) -> Row | None:
    """The active claim that has an alias: that of the consent that took it, or of the one that tries it again."""
    consent = (await connection.execute(_HOLDER, {"name": alias})).scalar()
    claim = await root_of(connection, consent) if consent is not None else None
    return claim if claim is not None and claim.state in ACTIVE else None
