"""The commands for remembered decisions: `assent grants` lists them, `assent grants revoke` ends one."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from pydantic import TypeAdapter

from assent.cli import common, listings, sentences, typed
from assent.client.client import Assent
from assent.contracts.grants import RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.values import Id, Surface
from assent.temporal.door import TemporalDoor

_EXITS = {RevokedKind.REVOKED: common.Exit.DONE, RevokedKind.MISSING: common.Exit.NOT_FOUND}


@common.cli.group("grants", invoke_without_command=True)
@click.pass_context
def _grants(context: click.Context, as_json: bool) -> None:
    """List the decisions that are remembered, so that nobody is asked again; revoke one."""
    if context.invoked_subcommand is None:
        common.run(_listed, {}, as_json=as_json)


_grants.params.append(common.json_option())


async def _listed(door: TemporalDoor) -> common.Answer:
    grants = [grant async for grant in Assent(door).grants()]
    now = datetime.now(UTC)
    data = [{**grant.model_dump(mode="json"), "state": listings.grant_state(grant, now)} for grant in grants]
    return common.Answer(listings.grant_listing(grants), data)


@common.command("revoke", _grants)
@click.argument("grant_id", metavar="ID", callback=typed.read(TypeAdapter[str](Id).validate_python))
@common.identity("--as", "actor", required=True, help="Who revokes it: the person who decided, or an operator.")
async def _revoke(door: TemporalDoor, grant_id: str, actor: Identity) -> common.Answer:
    """Stop a remembered decision from counting: somebody is asked again."""
    kind = await Assent(door).revoke(grant_id, actor=actor, surface=Surface.COMMAND_LINE)
    code = _EXITS.get(kind, common.Exit.REFUSED)
    sentence = sentences.revoked_sentence(kind, grant_id, actor)
    return common.Answer(sentence, {"grant_id": grant_id, "kind": kind}, code, to_stderr=code is not common.Exit.DONE)
