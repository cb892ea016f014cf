"""The `assent` command: ask, look, decide and withdraw from a terminal or a script."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import os
import re
import secrets
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import click
from pydantic import Field, TypeAdapter, ValidationError
from rich.console import RenderableType
from temporalio.service import RPCError

from assent import tables
from assent.client import Assent
from assent.contracts import (
    CallbackUrl,
    DecisionKind,
    Id,
    Identity,
    Phase,
    State,
    Status,
    Surface,
    VerdictKind,
    WhenPending,
)
from assent.errors import ApprovalInterrupted, ApprovalNotFound, AssentError, InvalidRequest, Unavailable
from assent.handle import ApprovalHandle
from assent.payload import sha256
from assent.tables import visible

_SHORTEST_PREFIX = 12
"""How much of a payload's hash a person must give at least."""
_TAKEN_WITHIN = timedelta(seconds=3)
"""How long a request waits to be seen by a worker before the command says that none has."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

_Parsed = TypeVar("_Parsed")


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


_EPILOG = """\b
Exit codes:
  0    done: asked; with --wait executed or replayed; a decision that counts
       or was received
  1    refused, or ended otherwise: rejected, expired, failed, cancelled,
       superseded; a decision that does not count
  2    the command or its input is not valid; nothing was sent
  3    frozen: whether the call ran is not known; do not repeat it
  4    the approval is not known
  5    Temporal or its workers did not answer
  70   a fault of this command itself
  130  interrupted with Ctrl-C

Temporal is found as its own settings say: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, or a profile.
"""
_EXIT_OF_STATUS = {None: Exit.DONE, Status.EXECUTED: Exit.DONE, Status.REPLAYED: Exit.DONE, Status.FROZEN: Exit.FROZEN}
_EXIT_OF_VERDICT = {
    VerdictKind.ACCEPTED: Exit.DONE,
    VerdictKind.DUPLICATE: Exit.DONE,
    VerdictKind.RECEIVED: Exit.DONE,
    VerdictKind.MISSING: Exit.NOT_FOUND,
}
_EXIT_OF_ERROR: dict[type[Exception], Exit] = {
    InvalidRequest: Exit.USAGE,
    ApprovalInterrupted: Exit.FROZEN,  # like a frozen call: nobody can say here whether it ran
    ApprovalNotFound: Exit.NOT_FOUND,
    Unavailable: Exit.UNAVAILABLE,
    RPCError: Exit.UNAVAILABLE,
}


@dataclass(frozen=True)
class Answer:
    """What a command found: for people, for programs, and for scripts."""

    shown: RenderableType
    data: object
    code: Exit = Exit.DONE
    to_stderr: bool = False
    """Whether people get it as an error."""


# What the user typed


def _read(parse: Callable[[str], _Parsed]) -> Callable[[click.Context, click.Parameter, str | None], _Parsed | None]:
    """A click callback that parses a value, or says in one sentence why it cannot."""

    def callback(context: click.Context, parameter: click.Parameter, value: str | None) -> _Parsed | None:
        try:
            return parse(value) if value is not None else None
        except ValidationError as error:
            raise click.BadParameter(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _arguments(given: str) -> dict[str, Any]:
    """A JSON object, strictly: what two readers could understand differently is refused."""
    try:
        found = json.loads(_text_of(given), parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError('the arguments must be a JSON object, such as {"name": "value"}')
    return found


def _text_of(given: str) -> str:
    """The text itself, or what `-` (standard input) or `@file` stands for."""
    if given == "-":
        return sys.stdin.buffer.read().decode("utf-8-sig")
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8-sig")
    except OSError as error:
        raise ValueError(f"{given[1:]!r} cannot be read: {error.strerror}") from None


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON; send it as a string")


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name!r} is given twice")
        found[name] = value
    return found


def _duration(text: str) -> timedelta:
    match = re.fullmatch("([0-9]+)([smhd])", text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 90s, 15m, 4h or 1d")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise ValueError(f"{text} is longer than any approval can wait") from None


_approval_id = click.argument("approval_id", metavar="ID", callback=_read(TypeAdapter[str](Id).validate_python))
_identity = functools.partial(click.option, metavar="IDENTITY", callback=_read(Identity.parse))


# The commands


@click.group(epilog=_EPILOG, context_settings={"max_content_width": 100})
def cli() -> None:
    """Ask a person to let a tool call run; look at requests, decide them, withdraw them."""


def _command(name: str) -> Callable[[Callable[..., Awaitable[Answer]]], click.Command]:
    """Make a command of a coroutine that gets a connection and what the user typed."""

    def decorate(work: Callable[..., Awaitable[Answer]]) -> click.Command:
        @cli.command(name)
        @functools.wraps(work)
        def command(*, as_json: bool, **given: Any) -> NoReturn:
            answer = asyncio.run(_connected(work, given))
            with suppress(BrokenPipeError):  # whoever stopped reading still gets the exit code
                _print(answer, as_json=as_json)
            click.get_current_context().exit(answer.code)

        command.params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for programs."))
        return command

    return decorate


async def _connected(work: Callable[..., Awaitable[Answer]], given: dict[str, Any]) -> Answer:
    return await work(await Assent.connect(), **given)


def _print(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        tables.print_for_programs(answer.data)
    else:
        tables.print_for_people(answer.shown, to_stderr=answer.to_stderr)


@_command("request")
@click.argument("tool")
@click.option(
    "--arguments", required=True, metavar="JSON", callback=_read(_arguments), help="Their JSON, - for stdin, or @file."
)
@_identity("--requester", required=True, help="On whose behalf: open_id:…, union_id:… or user_id:…")
@click.option("--id", "approval_id", help="Repeating a request under its id attaches to it.  [default: a new one]")
@click.option("--thread", "thread_id", help="The conversation it belongs to.")
@click.option(
    "--when-pending", type=click.Choice([*map(str, WhenPending)]), help="If the conversation has an open request."
)
@click.option("--message", "message_id", help="The message it answers: for one message the same call runs once.")
@click.option(
    "--ttl", metavar="DURATION", callback=_read(_duration), help="How long it waits: 90s, 15m, 4h, 1d.  [default: 15m]"
)
@click.option("--reason", help="Why, for the person who decides.")
@click.option("--chat-id", help="The chat that gets the card.  [default: the private chats of those who may decide]")
@click.option("--reply-to", help="The message that the card answers.")
@click.option("--callback-url", metavar="URL", help="Where the outcome is posted, signed, when it is there.")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
async def _request(gate: Assent, tool: str, arguments: dict[str, Any], wait: bool, **asked: Any) -> Answer:
    """Ask a person to let TOOL run with these arguments."""
    chosen = {name: value for name, value in asked.items() if value is not None}
    handle = await gate.request(tool, arguments, surface=Surface.COMMAND_LINE, **chosen)
    if wait:
        return await _ended(handle)
    state = await _as_taken(handle)
    if state is None:
        sentence = f"Asked as {visible(handle.id)}. No worker has taken it yet; it is kept until one does."
        return Answer(sentence, {"approval_id": handle.id, "tool": tool, "phase": None, "status": None})
    return Answer(
        tables.approval_page(state), tables.state_data(state), _EXIT_OF_STATUS.get(state.status, Exit.REFUSED)
    )


@_command("list")
@click.option("--status", type=click.Choice([*map(str, Phase), *map(str, Status)]), help="Only those.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
async def _list(gate: Assent, status: str | None, limit: int) -> Answer:
    """List the approvals that Temporal still knows, open ones first."""
    approvals = [approval async for approval in gate.approvals(status=status, limit=limit)]
    return Answer(tables.Listing(approvals), [approval.model_dump(mode="json") for approval in approvals])


@_command("show")
@_approval_id
async def _show(gate: Assent, approval_id: str) -> Answer:
    """Show what would run, who may decide, what was decided, how it ended."""
    handle = gate.approval(approval_id)
    state = await handle.state()
    outcome = await handle.outcome() if state.phase is Phase.CLOSED else None
    data = {**tables.state_data(state), "outcome": outcome.model_dump(mode="json") if outcome else None}
    return Answer(tables.approval_page(state, outcome), data)


@_command("decide")
@_approval_id
@click.argument("decision", type=click.Choice([*map(str, DecisionKind)]))
@_identity("--as", "actor", required=True, help="Who decides: open_id:…, union_id:… or user_id:…")
@click.option("--reason", help="Why, for the record and for the agent.")
@click.option("--hash", "seen", metavar="SHA", help="Decide only on the payload with this hash, or the start of it.")
async def _decide(gate: Assent, approval_id: str, decision: str, seen: str | None, **said: Any) -> Answer:
    """Approve or reject a call.

    Without --hash that is the call as it stands now; at least 12 characters stand for a whole hash.
    """
    handle = gate.approval(approval_id)
    payload_sha256 = await _hash(handle, seen)
    verdict = await handle.decide(decision, payload_sha256=payload_sha256, surface=Surface.COMMAND_LINE, **said)
    code = _EXIT_OF_VERDICT.get(verdict.kind, Exit.REFUSED)
    sentence = tables.verdict_sentence(verdict, approval_id, DecisionKind(decision), said["actor"])
    data = {"approval_id": approval_id, **verdict.model_dump(mode="json")}
    return Answer(sentence, data, code, to_stderr=code is not Exit.DONE)


@_command("cancel")
@_approval_id
@click.option("--reason", help="Why, for the record and for the agent.")
@_identity("--as", "actor", help="Who withdraws it: open_id:…, union_id:… or user_id:…")
async def _cancel(gate: Assent, approval_id: str, reason: str | None, actor: Identity | None) -> Answer:
    """Withdraw a request that nobody has decided yet."""
    handle = gate.approval(approval_id)
    await handle.cancel(reason, actor=actor, surface=Surface.COMMAND_LINE)
    state = await handle.state()
    if state.status is Status.CANCELLED:
        return Answer(f"Cancelled {visible(approval_id)}.", tables.state_data(state))
    sentence = f"Not cancelled: {visible(approval_id)} is {state.status or state.phase}."
    return Answer(sentence, tables.state_data(state), Exit.REFUSED, to_stderr=True)


@cli.command("token")
@click.argument("name", callback=_read(TypeAdapter[str](Annotated[Id, Field(max_length=48)]).validate_python))
@click.option("--tools", multiple=True, metavar="PATTERN", help="A tool it may ask for: send_mail, send_*.  [repeat]")
@click.option(
    "--on-behalf-of",
    multiple=True,
    metavar="IDENTITY",
    callback=lambda context, parameter, given: [_read(_person)(context, parameter, each) for each in given],
    help="For whom it may act: open_id:…, union_id:… or user_id:…, or * for anyone.  [repeat]",
)
@click.option("--may-decide", is_flag=True, help="Let it tell what people decide; never on what it asked for itself.")
@click.option(
    "--callback",
    "callbacks",
    multiple=True,
    metavar="URL",
    callback=lambda context, parameter, given: [
        _read(TypeAdapter[str](CallbackUrl).validate_python)(context, parameter, each) for each in given
    ],
    help="The beginning of an address where it may be called back.  [repeat]",
)
def _token(
    name: str, tools: tuple[str, ...], on_behalf_of: list[str], may_decide: bool, callbacks: list[str]
) -> NoReturn:
    """Make a token for an agent called NAME.

    The token is shown once, on standard error. Standard output gets the lines for the file that ASSENT_TOKENS names.
    """
    token = f"assent_{secrets.token_urlsafe(32)}"
    entry = {
        "name": name,
        "sha256": sha256(token),
        "tools": tools,
        "on_behalf_of": on_behalf_of,
        "may_decide": may_decide,
        "callbacks": callbacks,
    }
    click.echo("The token, shown only now; the file below holds only its hash:", err=True)
    click.echo(f"\n    {token}\n", err=True)
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    click.echo("\n".join(["[[token]]", *lines]))
    click.get_current_context().exit(Exit.DONE)


def _person(text: str) -> str:
    if text != "*":
        Identity.parse(text)
    return text


async def _ended(handle: ApprovalHandle) -> Answer:
    click.echo(f"Asked as {visible(handle.id)}. Ctrl-C ends the waiting, not the request.", err=True)
    outcome = await handle.outcome()
    code = _EXIT_OF_STATUS.get(outcome.status, Exit.REFUSED)
    return Answer(tables.outcome_page(outcome), outcome.model_dump(mode="json"), code)


async def _as_taken(handle: ApprovalHandle) -> State | None:
    """The approval as a worker took it; None if none did in a moment."""
    try:
        async with asyncio.timeout(_TAKEN_WITHIN.total_seconds()):
            return await handle.state()
    except (TimeoutError, Unavailable):
        return None


async def _hash(handle: ApprovalHandle, seen: str | None) -> str | None:
    """The hash to decide on: what the user gave, the hash that it is the start of, or the current one."""
    if seen is not None and not _SHORTEST_PREFIX <= len(seen) < 64:
        return seen
    state = await handle.state()
    if state.phase is Phase.PREPARING:
        raise Unavailable("The approval is still being prepared, so there is nothing to decide yet; try again.")
    whole = state.payload_sha256
    return whole if seen is None or (whole or "").startswith(seen) else seen


# Coming and going


def main() -> NoReturn:
    """Run one command, then leave at once: an interpreter that winds down after Temporal's runtime can crash."""
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    code = _run()
    for stream in streams:
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _run() -> int:
    try:
        code: int = cli.main(prog_name="assent", standalone_mode=False)
        return code
    except click.Abort:
        return Exit.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.ClickException as error:
        return _say(error.format_message(), Exit.USAGE)
    except (AssentError, RPCError) as error:
        return _say(str(error), _exit_of(error))
    except SystemExit:  # click's way out when nobody reads the help
        return Exit.DONE
    except OSError as error:
        return _say(f"The answer could not be printed: {error.strerror}", Exit.FAULT)
    except Exception:
        traceback.print_exc()
        return Exit.FAULT


def _exit_of(error: Exception) -> Exit:
    return next((code for kind, code in _EXIT_OF_ERROR.items() if isinstance(error, kind)), Exit.REFUSED)


def _say(sentence: str, code: Exit) -> Exit:
    click.echo(f"assent: {visible(sentence)}", err=True)
    return code
