"""`python -m workers.setup`: search attributes into Temporal, the schema and its roles into the ledger.

Again is harmless.
"""

from __future__ import annotations

import asyncio
import os

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client

from assent.settings import Settings
from assent.temporal.connection import connect_temporal
from ledger import roles
from ledger.migrate import NewerSchema
from workers import process


async def set_up(client: Client, settings: Settings) -> None:
    ledger = await process.open_ledger(settings, must_be_set_up=False)
    try:
        await ledger.upgrade()
        if passwords := roles.passwords(os.environ):
            await roles.grant(ledger.engine, passwords)
    except NewerSchema:
        raise process.Misconfigured(
            "The ledger's schema is newer than this version of Assent: run the version that made it, or a newer one."
        ) from None
    finally:
        await ledger.dispose()
    if missing := await process.missing_search_attributes(client):
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=client.namespace,
                search_attributes=dict.fromkeys(missing, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD),
            )
        )
    async with asyncio.timeout(30):
        while await process.missing_search_attributes(client):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.1)


async def main(settings: Settings) -> None:
    client = await connect_temporal()
    await set_up(client, settings)
    print(f"Ready: Temporal namespace {client.namespace!r} and the ledger are set up.")


if __name__ == "__main__":
    process.run(main)
