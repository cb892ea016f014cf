"""The command `assent files`: what a person shared with the bot."""

from __future__ import annotations

import click

from assent.cli import common, listings
from assent.client.client import Assent
from assent.contracts.identity import Identity
from assent.temporal.door import TemporalDoor


@common.command("files")
@common.identity("--requester", required=True, help="Whose: open_id:…, union_id:… or user_id:…")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="How many at most.")
async def _files(door: TemporalDoor, requester: Identity, limit: int) -> common.Answer:
    """List the files that a person shared with the bot, the newest first."""
    found = await Assent(door).files.recent(requester, limit)
    return common.Answer(listings.file_listing(found), [file.model_dump(mode="json") for file in found])
