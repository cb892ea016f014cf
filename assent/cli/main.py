"""The `assent` command: ask, look, decide and withdraw from a terminal or a script."""

from __future__ import annotations

import asyncio
import io
import json
import os
import secrets
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NoReturn

import click
from pydantic import Field, TypeAdapter
from temporalio.service import RPCError

from assent.cli import feishu, files, frozen, grants, inbox, listings, policy, questions, run, tables, typed
from assent.cli.common import EXIT_OF_VERDICT, Answer, Exit, cli, command, identity, over_http, states_of
from assent.cli.common import approval_id as approval_id_argument
from assent.cli.sentences import verdict_sentence
from assent.client.client import Assent
from assent.client.handle import ApprovalHandle
from assent.contracts.decision import DecisionKind, Remember, Stage
from assent.contracts.identity import Identity
from assent.contracts.request import CallbackUrl, WhenPending
from assent.contracts.ruling import Settlement
from assent.contracts.state import State
from assent.contracts.status import Phase, Status
from assent.contracts.values import Id, Surface
from assent.durations import parse_duration
from assent.errors import (
    ApprovalInterrupted,
    ApprovalNotFound,
    AssentError,
    InvalidRequest,
    LedgerNeeded,
    NotFrozen,
    QuestionNotFound,
    Unavailable,
)
from assent.masking import MASK
from assent.payload import SHORT_HASH, sha256
from assent.safe import one_line
from assent.temporal.door import TemporalDoor
from assent.temporal.reviews import Review

__all__ = ["Exit", "cli", "feishu", "files", "frozen", "grants", "inbox", "main", "policy", "questions", "run"]

_TAKEN_WITHIN = timedelta(seconds=3)
"""How long a request waits to be seen by a worker before the command says that none has."""


_EXIT_OF_STATUS = {
    **dict.fromkeys((None, Status.EXECUTED, Status.REPLAYED, Status.APPROVED), Exit.DONE),
    Status.FROZEN: Exit.FROZEN,
}
_EXIT_OF_ERROR: dict[type[Exception], Exit] = {
    InvalidRequest: Exit.USAGE,
    LedgerNeeded: Exit.USAGE,
    ApprovalInterrupted: Exit.FROZEN,  # like a frozen call: nobody can say here whether it ran
    ApprovalNotFound: Exit.NOT_FOUND,
    QuestionNotFound: Exit.NOT_FOUND,
    NotFrozen: Exit.NOT_FOUND,
    Unavailable: Exit.UNAVAILABLE,
    RPCError: Exit.UNAVAILABLE,
}


@command("request")
@click.argument("tool")
@click.option(
    "--arguments",
    required=True,
    metavar="JSON",
    callback=typed.read(typed.arguments),
    help="Their JSON, - for stdin, or @file.",
)
@identity("--requester", required=True, help="On whose behalf: open_id:…, union_id:… or user_id:…")
@click.option("--id", "approval_id", help="Repeating a request under its id attaches to it.  [default: a new one]")
@click.option("--thread", "thread_id", help="The conversation it belongs to.")
@click.option(
    "--when-pending", type=click.Choice([*map(str, WhenPending)]), help="If the conversation has an open request."
)
@click.option("--message", "message_id", help="The message it answers: for one message the same call runs once.")
@click.option(
    "--ttl",
    metavar="DURATION",
    callback=typed.read(parse_duration),
    help="How long it waits: 90s, 15m, 4h, 1d.  [default: 15m]",
)
@click.option("--reason", help="Why, for the person who decides.")
@click.option("--chat-id", help="The chat that gets the card.  [default: the private chats of those who may decide]")
@click.option("--reply-to", help="The message that the card answers.")
@click.option("--callback-url", metavar="URL", help="Where to post the outcome, signed, once there is one.")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
async def _request(door: TemporalDoor, tool: str, arguments: dict[str, Any], wait: bool, **asked: Any) -> Answer:
    """Ask a person to let TOOL run with these arguments."""
    chosen = {name: value for name, value in asked.items() if value is not None}
    handle = await Assent(door).request(tool, arguments, surface=Surface.COMMAND_LINE, **chosen)
    if wait:
        return await _ended(handle)
    state = await _as_taken(handle)
    if state is None:
        sentence = f"Asked as {one_line(handle.id)}. No worker has taken it yet; it is kept until one does."
        return Answer(sentence, {"approval_id": handle.id, "tool": tool, "phase": None, "status": None})
    return Answer(
        tables.approval_page(state), tables.state_data(state), _EXIT_OF_STATUS.get(state.status, Exit.REFUSED)
    )


@command("list")
@click.option("--status", type=click.Choice([*map(str, Phase), *map(str, Status)]), help="Only those.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@click.option("--thread", "thread_id", help="Only those of this conversation.")
async def _list(door: TemporalDoor, status: str | None, limit: int, thread_id: str | None) -> Answer:
    """List the approvals that Temporal still knows, open ones first."""
    approvals = [approval async for approval in Assent(door).approvals(status=status, thread_id=thread_id, limit=limit)]
    states = await states_of(door, [approval.approval_id for approval in approvals])
    data = [approval.model_dump(mode="json") for approval in approvals]
    return Answer(listings.listing(approvals, states), data)


@command("tools")
async def _tools(door: TemporalDoor) -> Answer:
    """List the tools that can be asked for: who decides, what they take and what they do."""
    async with over_http() as api:
        tools = await api.tools()
    return Answer(listings.tool_listing(tools), [tool.model_dump(mode="json") for tool in tools])


@command("show")
@approval_id_argument
async def _show(door: TemporalDoor, approval_id: str) -> Answer:
    """Show what would run, who may decide, what was decided, how it ended, and what became of it if it froze."""
    handle = Assent(door).approval(approval_id)
    state = await handle.state()
    outcome = await handle.outcome() if state.phase is Phase.CLOSED else None
    settlement = await _settled(door, state)
    review = await _review(door, state) if state.status is Status.FROZEN and settlement is None else None
    data = {
        **tables.state_data(state),
        "outcome": tables.outcome_data(outcome, state.sensitive) if outcome else None,
        "settlement": settlement.model_dump(mode="json") if settlement else None,
        "may_retry": review.examined.may_retry(review.frozen) if review else None,
    }
    return Answer(tables.approval_page(state, outcome, settlement, review), data)


async def _review(door: TemporalDoor, state: State) -> Review | None:
    """The open question of what became of it, where it can be asked."""
    try:
        return await door.review(state.approval_id)
    except (NotFrozen, Unavailable, ApprovalNotFound):
        return None


async def _settled(door: TemporalDoor, state: State) -> Settlement | None:
    """What became of it if it froze, where that can be read."""
    if state.status is not Status.FROZEN:
        return None
    try:
        return await door.settled(state.approval_id)
    except LedgerNeeded as error:
        click.echo(f"assent: whether it has been settled is not shown: {error}", err=True)
        return None


@command("decide")
@approval_id_argument
@click.argument("decision", type=click.Choice([*map(str, DecisionKind)]))
@identity("--as", "actor", required=True, help="Who decides: open_id:…, union_id:… or user_id:…")
@click.option("--reason", help="Why, for the record and for the agent.")
@click.option("--hash", "seen", metavar="SHA", help="Decide only if the hash is this one, or starts with this.")
@click.option(
    "--arguments",
    metavar="JSON",
    callback=typed.read(typed.arguments),
    help="To edit: all arguments it is to run with, as JSON, - for stdin, or @file.",
)
@identity("--to", "delegate_to", help="To delegate: who is to decide instead.")
@click.option(
    "--remember",
    type=click.Choice([*map(str, Remember)]),
    help="How far it is remembered if the tool asks once: from here, always for this exact call.",
)
@click.option(
    "--ask-again",
    is_flag=True,
    help="Do not remember it, even if the tool asks once: somebody is asked again next time.",
)
@click.option(
    "--stage",
    type=click.Choice([*map(str, Stage)]),
    default=Stage.CALL.value,
    show_default=True,
    help="Decide about the call, or about its result: approve releases it, reject withholds it.",
)
async def _decide(door: TemporalDoor, approval_id: str, decision: str, seen: str | None, **said: Any) -> Answer:
    """Approve or reject a call, approve it with other arguments, or leave the decision to somebody else.

    Without --hash that is the call, or the result, as it stands now; at least 12 characters stand for a whole hash.
    """
    kind, stage = DecisionKind(decision), Stage(said["stage"])
    _refuse_half_a_decision(kind, said)
    said["persist_decision"] = not said.pop("ask_again")
    handle = Assent(door).approval(approval_id)
    payload_sha256 = await _hash(handle, seen, stage)
    if MASK in (said["arguments"] or {}).values():
        said["arguments"] = tables.unmasked(said["arguments"], await handle.state())
    verdict = await handle.decide(kind, payload_sha256=payload_sha256, surface=Surface.COMMAND_LINE, **said)
    code = EXIT_OF_VERDICT.get(verdict.kind, Exit.REFUSED)
    sentence = verdict_sentence(verdict, approval_id, kind, said["actor"], stage)
    data = {"approval_id": approval_id, **verdict.model_dump(mode="json")}
    return Answer(sentence, data, code, to_stderr=code is not Exit.DONE)


_WITHDRAWN_WITHIN = 5.0
"""How many seconds a withdrawal may take to be on record before it is said how the request stands."""


def _refuse_half_a_decision(kind: DecisionKind, said: dict[str, Any]) -> None:
    if kind is DecisionKind.EDIT and said["arguments"] is None:
        raise click.UsageError("edit needs --arguments: all that the call is to run with")
    if kind is DecisionKind.DELEGATE and said["delegate_to"] is None:
        raise click.UsageError("delegate needs --to: who is to decide instead")


@command("cancel")
@approval_id_argument
@click.option("--reason", help="Why, for the record and for the agent.")
@identity("--as", "actor", help="Who withdraws it: open_id:…, union_id:… or user_id:…")
async def _cancel(door: TemporalDoor, approval_id: str, reason: str | None, actor: Identity | None) -> Answer:
    """Withdraw a request that nobody has decided yet."""
    handle = Assent(door).approval(approval_id)
    await handle.cancel(reason, actor=actor, surface=Surface.COMMAND_LINE)
    state = await handle.state()
    if state.phase is Phase.PENDING:  # it is told once it is on record
        with suppress(TimeoutError):
            async with asyncio.timeout(_WITHDRAWN_WITHIN):
                await handle.outcome()
        state = await handle.state()
    if state.status is Status.CANCELLED:
        return Answer(f"Cancelled {one_line(approval_id)}.", tables.state_data(state))
    sentence = f"Not cancelled: {one_line(approval_id)} is {state.status or state.phase}."
    return Answer(sentence, tables.state_data(state), Exit.REFUSED, to_stderr=True)


@cli.command("token")
@click.argument("name", callback=typed.read(TypeAdapter[str](Annotated[Id, Field(max_length=48)]).validate_python))
@click.option("--principal", help="The agent it belongs to, if it replaces another token.  [default: NAME]")
@click.option(
    "--expires",
    metavar="DURATION",
    callback=typed.read(parse_duration),
    help="When it stops working: after 12h, 90d.  [default: never]",
)
@click.option("--tools", multiple=True, metavar="PATTERN", help="A tool it may ask for: send_mail, send_*.  [repeat]")
@click.option(
    "--on-behalf-of",
    multiple=True,
    metavar="IDENTITY",
    callback=lambda context, parameter, given: [typed.read(typed.person)(context, parameter, each) for each in given],
    help="For whom it may act: open_id:…, union_id:… or user_id:…, or * for anyone.  [repeat]",
)
@click.option(
    "--may-ask",
    multiple=True,
    metavar="IDENTITY",
    callback=lambda context, parameter, given: [typed.read(typed.asked)(context, parameter, each) for each in given],
    help="Whom it may ask questions: as above, or chat:… for a chat's members.  [default: as above]  [repeat]",
)
@click.option("--may-decide", is_flag=True, help="Let it tell what people decide; never about its own requests.")
@click.option(
    "--may-settle", is_flag=True, help="Let it tell what operators say of frozen calls; never of its own requests."
)
@click.option("--may-bridge", is_flag=True, help="Let it tell running programs what people answered, for their hosts.")
@click.option("--may-read-policy", is_flag=True, help="Let it read the operator's rules, and all that tools say.")
@click.option("--may-list-files", is_flag=True, help="Let it know which files people shared; never what is in them.")
@click.option("--chat", "chats", multiple=True, metavar="CHAT", help="A chat it may ask in.  [default: any]  [repeat]")
@click.option(
    "--callback",
    "callbacks",
    multiple=True,
    metavar="URL",
    callback=lambda context, parameter, given: [
        typed.read(TypeAdapter[str](CallbackUrl).validate_python)(context, parameter, each) for each in given
    ],
    help="The beginning of an address where it may be called back.  [repeat]",
)
def _token(
    name: str,
    principal: str | None,
    expires: timedelta | None,
    tools: tuple[str, ...],
    on_behalf_of: list[str],
    may_ask: list[str],
    may_decide: bool,
    may_settle: bool,
    may_bridge: bool,
    may_read_policy: bool,
    may_list_files: bool,
    chats: tuple[str, ...],
    callbacks: list[str],
) -> NoReturn:
    """Make a token for an agent called NAME.

    The token is shown once, on standard error. Standard output gets the lines for the file that ASSENT_TOKENS names.
    """
    token = f"assent_{secrets.token_urlsafe(32)}"
    entry = {
        "name": name,
        "principal": principal or name,
        "sha256": sha256(token),
        "tools": tools,
        "on_behalf_of": on_behalf_of,
        **({"may_ask": may_ask} if may_ask else {}),
        "may_decide": may_decide,
        "may_settle": may_settle,
        **({"may_bridge": True} if may_bridge else {}),
        "may_read_policy": may_read_policy,
        "may_list_files": may_list_files,
        "chats": chats or ["*"],
        "callbacks": callbacks,
    }
    click.echo("The token, shown only now; the file below holds only its hash:", err=True)
    click.echo(f"\n    {token}\n", err=True)
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    if expires is not None:  # a time in TOML, which is no string
        lines.append(f"expires_at = {datetime.now(UTC) + expires:%Y-%m-%dT%H:%M:%SZ}")
    click.echo("\n".join(["[[token]]", *lines]))
    click.get_current_context().exit(Exit.DONE)


async def _ended(handle: ApprovalHandle) -> Answer:
    click.echo(f"Asked as {one_line(handle.id)}. Ctrl-C ends the waiting, not the request.", err=True)
    outcome = await handle.outcome()
    code = _EXIT_OF_STATUS.get(outcome.status, Exit.REFUSED)
    state = await handle.state()
    return Answer(tables.outcome_page(outcome, state), tables.outcome_data(outcome, state.sensitive), code)


async def _as_taken(handle: ApprovalHandle) -> State | None:
    """The approval as a worker took it; None if none did in a moment."""
    try:
        async with asyncio.timeout(_TAKEN_WITHIN.total_seconds()):
            return await handle.state()
    except (TimeoutError, Unavailable):
        return None


async def _hash(handle: ApprovalHandle, seen: str | None, stage: Stage) -> str | None:
    """The hash to decide on: what the user gave, the hash that it is the start of, or the current one."""
    if seen is not None and not SHORT_HASH <= len(seen) < 64:
        return seen
    state = await handle.state()
    if state.phase is Phase.PREPARING:
        raise Unavailable("The approval is still being prepared, so there is nothing to decide yet; try again.")
    whole = state.payload_sha256 if stage is Stage.CALL else state.result_sha256
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
    click.echo(f"assent: {one_line(sentence)}", err=True)
    return code
