"""The commands for frozen calls: `assent frozen` lists them, `assent settle` says what became of one."""

from __future__ import annotations

import sys
from typing import Any

import click

from assent.cli import common, listings, prompts, sentences, tables, typed
from assent.client.client import Assent
from assent.contracts.identity import Identity
from assent.contracts.ruling import Ruled, RuledKind, RulingKind
from assent.contracts.state import State
from assent.contracts.values import Surface
from assent.temporal.door import TemporalDoor

_RULINGS = {"executed": RulingKind.EXECUTED, "not-executed": RulingKind.NOT_EXECUTED, "retry": RulingKind.RETRY}


@common.command("frozen")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
async def _frozen(door: TemporalDoor, limit: int) -> common.Answer:
    """List the calls of which nobody knows whether they took effect."""
    reviews = [review async for review in door.frozen(limit=limit)]
    return common.Answer(listings.frozen_listing(reviews), [review.model_dump(mode="json") for review in reviews])


@common.command("settle")
@common.approval_id
@click.argument("ruling", type=click.Choice([*_RULINGS]))
@common.identity("--as", "operator", required=True, help="Who says so, an operator: open_id:…, union_id:… or user_id:…")
@click.option("--reason", required=True, help="How it is known, for the record.")
@click.option(
    "--content",
    metavar="JSON",
    callback=typed.read(typed.value),
    help="The result of what was executed: its JSON, - for stdin, or @file.",
)
@click.option(
    "--hash", "typed_hash", metavar="SHA", help="To try again: the first 12 characters of the payload's hash."
)
async def _settle(
    door: TemporalDoor, approval_id: str, ruling: str, typed_hash: str | None, **said: Any
) -> common.Answer:
    """Say what became of a frozen call: it was executed, it was not, or it is to be tried again.

    Look into the system that it would have changed before. To try again, the start of the payload's hash must be
    typed: with --hash, or when asked for on a terminal.
    """
    kind = _RULINGS[ruling]
    if said["content"] is not None and kind is not RulingKind.EXECUTED:
        raise click.UsageError("--content is the result of what was executed")
    if settled := await door.was_settled(approval_id):
        return _told(Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=settled), approval_id, said["operator"])
    if (await door.review(approval_id)).may_go_on:
        click.echo(f"assent: {tables.MAY_GO_ON}", err=True)
    if kind is RulingKind.RETRY and typed_hash is None:
        typed_hash = await _typed_hash(await door.state(approval_id))
    handle = Assent(door).approval(approval_id)
    ruled = await handle.settle(kind, payload_hash=typed_hash, surface=Surface.COMMAND_LINE, **said)
    return _told(ruled, approval_id, said["operator"])


async def _typed_hash(state: State) -> str:
    """The start of the payload's hash, typed by a person who has seen what would run."""
    if not sys.stdin.isatty():
        raise click.UsageError("to try again, type the first 12 characters of the payload's hash: --hash SHA")
    tables.print_for_people(tables.call_page(state), to_stderr=True)
    return await prompts.ask("\nTo run this again, type the payload's hash as shown above: ")


def _told(ruled: Ruled, approval_id: str, operator: Identity) -> common.Answer:
    code = common.Exit.DONE if ruled.kind in (RuledKind.SETTLED, RuledKind.RETRYING) else common.Exit.REFUSED
    data = {"approval_id": approval_id, **ruled.model_dump(mode="json")}
    sentence = sentences.ruled_sentence(ruled, approval_id, operator)
    return common.Answer(sentence, data, code, to_stderr=code is not common.Exit.DONE)
