"""The commands for frozen calls: `assent frozen` lists them, `assent settle` says what became of one."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import click

from assent.cli import common, listings, prompts, sentences, tables, typed
from assent.client.client import Assent
from assent.client.door import invalid
from assent.contracts.identity import Identity
from assent.contracts.ruling import Ruled, RuledKind, Ruling, RulingKind
from assent.contracts.values import Surface
from assent.temporal.door import TemporalDoor

_RULINGS = {"executed": RulingKind.EXECUTED, "not-executed": RulingKind.NOT_EXECUTED, "retry": RulingKind.RETRY}

_QUESTIONS = {
    RulingKind.EXECUTED: "\nRecord that this call was executed? It cannot be undone. [y/n]: ",
    RulingKind.NOT_EXECUTED: "\nRecord that it was not executed, and no longer can be? It cannot be undone. [y/n]: ",
    RulingKind.RETRY: "\nRun this call again, at once and in your name? [y/n]: ",
}


@common.command("frozen")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
async def _frozen(door: TemporalDoor, limit: int) -> common.Answer:
    """List the frozen calls: nobody knows whether they took effect."""
    reviews = [review async for review in door.frozen(limit=limit)]
    states = await common.states_of(door, [review.approval_id for review in reviews])
    return common.Answer(
        listings.frozen_listing(reviews, states), [review.model_dump(mode="json") for review in reviews]
    )


@common.command("settle")
@common.approval_id
@click.argument("ruling", type=click.Choice([*_RULINGS]))
@common.identity("--as", "operator", required=True, help="The operator who says so: open_id:…, union_id:… or user_id:…")
@click.option("--reason", required=True, help="How you know, for the record.")
@click.option(
    "--content",
    metavar="RESULT",
    callback=typed.read(typed.result),
    help="The result, if it was executed: JSON or plain text, - for stdin, or @file.",
)
@click.option(
    "--hash", "typed_hash", metavar="SHA", help="To try again: the first 12 characters of the payload's hash."
)
@click.option("--yes", is_flag=True, help="Settle without being asked, for scripts.")
async def _settle(
    door: TemporalDoor, approval_id: str, ruling: str, typed_hash: str | None, yes: bool, **said: Any
) -> common.Answer:
    """Say what became of a frozen call: it was executed, it was not, or it is to be tried again.

    Look into the system that it would have changed first. On a terminal the call is shown, and you are asked; a
    script says --yes. To try again, the start of the payload's hash must be typed: with --hash, or when asked for.
    """
    kind = _RULINGS[ruling]
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("nobody is here to be asked: what is settled cannot be undone; in a script, say --yes")
    if said["content"] is not None and kind is not RulingKind.EXECUTED:
        raise click.UsageError("--content is the result of what was executed")
    if settled := await door.was_settled(approval_id):
        return _told(Ruled(kind=RuledKind.ALREADY_SETTLED, settlement=settled), approval_id, said["operator"])
    review = await door.review(approval_id)
    needs_hash = kind is RulingKind.RETRY and typed_hash is None
    if needs_hash and not sys.stdin.isatty():
        raise click.UsageError("to try again, type the first 12 characters of the payload's hash: --hash SHA")
    if needs_hash or not yes:
        tables.print_for_people(tables.frozen_page(await door.state(approval_id), review), to_stderr=True)
    elif review.may_go_on:
        click.echo(f"assent: {tables.MAY_GO_ON}", err=True)
    if needs_hash:
        typed_hash = await prompts.ask("\nTo run this again, type the payload's hash as shown above: ")
    elif not yes and (await prompts.ask(_QUESTIONS[kind])).lower() not in ("y", "yes"):
        return common.Answer(
            "Nothing was settled.", {"approval_id": approval_id, "kind": None}, common.Exit.REFUSED, True
        )
    try:
        said_so = Ruling(
            kind=kind,
            payload_hash=typed_hash,
            payload_sha256=review.frozen.call.payload_sha256,
            retries=review.examined.retries,  # what was looked at: if it was tried again since, nobody has
            ruling_id=str(uuid.uuid4()),
            surface=Surface.COMMAND_LINE,
            **said,
        )
    except ValueError as error:
        raise invalid(error) from None
    ruled = await Assent(door).approval(approval_id).rule(said_so)
    return _told(ruled, approval_id, said["operator"], wanted=kind)


def _told(ruled: Ruled, approval_id: str, operator: Identity, wanted: RulingKind | None = None) -> common.Answer:
    is_tried = ruled.kind is RuledKind.RETRYING and wanted is RulingKind.RETRY
    code = common.Exit.DONE if ruled.kind is RuledKind.SETTLED or is_tried else common.Exit.REFUSED
    data = {"approval_id": approval_id, **ruled.model_dump(mode="json")}
    sentence = sentences.ruled_sentence(ruled, approval_id, operator, wanted)
    return common.Answer(sentence, data, code, to_stderr=code is not common.Exit.DONE)
