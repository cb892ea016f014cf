"""What all commands of `assent` share: the group, the way to Temporal, how they answer, what their exit codes say."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NoReturn

import click
from pydantic import TypeAdapter
from rich.console import RenderableType
from temporalio.service import RPCError

from assent import __version__
from assent.api.door import HttpDoor
from assent.api.reader import HttpReader
from assent.cli import prompts, tables, typed
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.state import State
from assent.contracts.values import Id
from assent.errors import AssentError, InvalidRequest, LedgerNeeded
from assent.safe import one_line
from assent.temporal.connection import connect_temporal
from assent.temporal.door import TemporalDoor

_AT_ONCE = 16
_LOOKED_UP_WITHIN = 10.0
"""How many seconds a list waits to learn what its lines are about."""


_CHANGES_SOMETHING = frozenset({"decide", "cancel", "settle"})
_LEAST_UNSEEN = 8
"""How many characters of an id stand for it where nobody can be asked, as many as a list shows at least."""


class Exit(IntEnum):
    """What the exit code says. Scripts rely on it: change none of them."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    FROZEN = 3
    NOT_FOUND = 4
    UNAVAILABLE = 5
    FAULT = 70
    INTERRUPTED = 130


EXIT_OF_VERDICT = {
    VerdictKind.ACCEPTED: Exit.DONE,
    VerdictKind.DUPLICATE: Exit.DONE,
    VerdictKind.RECEIVED: Exit.DONE,
    VerdictKind.MISSING: Exit.NOT_FOUND,
}
"""Of a decision with any other verdict it is REFUSED."""

_EPILOG = """\b
Exit codes:
  0    done: asked; with --wait executed, replayed or approved; a decision
       that counts or was received; settled, or being tried again; revoked
  1    refused, or ended otherwise: rejected, expired, failed, cancelled,
       superseded; a decision that does not count; settled or revoked by
       another already
  2    the command or its input is not valid; nothing was sent
  3    frozen: nobody knows whether the call ran; do not repeat it
  4    the approval or the grant is not known; or there is nothing to settle,
       because the approval is not frozen
  5    Temporal or its workers did not answer
  70   a fault of this command itself
  130  interrupted with Ctrl-C

The command finds Temporal by Temporal's own settings: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, or a profile. It reads
what only the ledger knows (inboxes, grants, settlements, the policy, approvals that Temporal has forgotten) over the
HTTP API at ASSENT_URL with ASSENT_TOKEN.
"""


@dataclass(frozen=True)
class Answer:
    """What a command found: for people, for programs, and for scripts."""

    shown: RenderableType
    data: object
    code: Exit = Exit.DONE
    to_stderr: bool = False
    """Whether people get it as an error."""


approval_id = click.argument("approval_id", metavar="ID", callback=typed.read(TypeAdapter[str](Id).validate_python))
identity = functools.partial(click.option, metavar="IDENTITY", callback=typed.read(Identity.parse))


@click.group(epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="assent", message="%(prog)s %(version)s")
def cli() -> None:
    """Ask a person to let a tool call run; look at requests, decide them, withdraw them; settle what froze."""


def command(name: str, group: click.Group = cli) -> Callable[[Callable[..., Awaitable[Answer]]], click.Command]:
    """Make a command of a coroutine that gets the door to Temporal and what the user typed."""

    def decorate(work: Callable[..., Awaitable[Answer]]) -> click.Command:
        @group.command(name)
        @functools.wraps(work)
        def made(*, as_json: bool, **given: Any) -> NoReturn:
            run(work, given, as_json=as_json)

        made.params.append(json_option())
        return made

    return decorate


def json_option() -> click.Option:
    """What every command has."""
    return click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs.")


def run(work: Callable[..., Awaitable[Answer]], given: dict[str, Any], *, as_json: bool) -> NoReturn:
    """Do the work of a command, print its answer and leave with its code."""
    answer = asyncio.run(_connected(work, given))
    with suppress(BrokenPipeError):  # whoever stopped reading still gets the exit code
        _print(answer, as_json=as_json)
    click.get_current_context().exit(answer.code)


async def _connected(work: Callable[..., Awaitable[Answer]], given: dict[str, Any]) -> Answer:
    api = _door_over_http()
    reader = HttpReader(api) if api else None
    try:
        door = TemporalDoor(await connect_temporal(), reader)
        return await work(door, **await _with_whole_id(door, given))
    finally:
        if api:
            await api.close()


@asynccontextmanager
async def over_http() -> AsyncIterator[HttpDoor]:
    """The HTTP API itself, for what it tells any token. Raises LedgerNeeded where it is not named."""
    api = _door_over_http()
    if api is None:
        raise LedgerNeeded
    try:
        yield api
    finally:
        await api.close()


async def _with_whole_id(door: TemporalDoor, given: dict[str, Any]) -> dict[str, Any]:
    """What the user typed, with the whole id of an approval in place of its beginning."""
    parameters = click.get_current_context().command.params
    if not any(isinstance(each, click.Argument) and each.name == "approval_id" for each in parameters):
        return given
    typed_id, whole_id = given["approval_id"], await door.whole_id(given["approval_id"])
    if whole_id != typed_id and click.get_current_context().command.name in _CHANGES_SOMETHING:
        await _is_meant(door, typed_id, whole_id)
    return {**given, "approval_id": whole_id}


async def _is_meant(door: TemporalDoor, typed_id: str, whole_id: str) -> None:
    """Ask whether the only approval that begins so is the one that is meant; a typing error begins like another."""
    if not sys.stdin.isatty():
        if len(typed_id) < _LEAST_UNSEEN:
            raise InvalidRequest(
                f"no approval is called {typed_id!r}. One begins so: {whole_id}. Say at least {_LEAST_UNSEEN} "
                f"characters of its id if that is the one"
            )
        return
    state = await door.state(whole_id)
    call = tables.call_lines([state])[whole_id]
    told = f"{typed_id} stands for {whole_id}: {state.tool} · {call}"
    click.echo(one_line(told), err=True)
    if (await prompts.ask("Is that the one? [y/n]: ")).lower() not in ("y", "yes"):
        raise InvalidRequest("nothing was done: give the whole id of the one that is meant")


async def states_of(door: TemporalDoor, approval_ids: Sequence[str]) -> dict[str, State]:
    """How these approvals stand, for the lines of a list; those that do not answer in a moment are left out."""
    if wants_json():
        return {}
    at_once, found = asyncio.Semaphore(_AT_ONCE), dict[str, State]()

    async def look(approval_id: str) -> None:
        async with at_once:
            with suppress(AssentError, RPCError):
                found[approval_id] = await door.state(approval_id)

    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOKED_UP_WITHIN):
            await asyncio.gather(*map(look, approval_ids))
    if len(found) < len(approval_ids):
        click.echo("assent: no worker answered for some of these: their calls are not shown", err=True)
    return found


def _door_over_http() -> HttpDoor | None:
    """The way to what only the ledger knows: the HTTP API reads it."""
    url, token = os.environ.get("ASSENT_URL"), os.environ.get("ASSENT_TOKEN")
    if not url and not token:
        return None
    if not url or not token:
        there, missing = ("ASSENT_URL", "ASSENT_TOKEN") if url else ("ASSENT_TOKEN", "ASSENT_URL")
        raise InvalidRequest(f"{there} is set and {missing} is not: they belong together, set both or neither")
    return HttpDoor(url, token)


def wants_json() -> bool:
    """Whether the command at work answers a program."""
    return bool(click.get_current_context().params["as_json"])


def _print(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        tables.print_for_programs(answer.data)
    else:
        tables.print_for_people(answer.shown, to_stderr=answer.to_stderr)
