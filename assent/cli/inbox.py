"""`assent inbox`: what waits for me, listed, and on a terminal decided at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from assent.cli import common, listings, prompts, questions, sentences, tables, typed
from assent.client.client import Assent
from assent.client.handle import ApprovalHandle
from assent.contracts.asking import QuestionState
from assent.contracts.decision import DecisionKind, Stage, Verdict, VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Risk
from assent.contracts.state import State
from assent.contracts.status import Phase
from assent.contracts.values import Surface
from assent.errors import InvalidRequest
from assent.payload import short_hash
from assent.safe import one_line
from assent.temporal.door import TemporalDoor

_LOOK_AGAIN = (VerdictKind.INVALID, VerdictKind.SUPERSEDED, VerdictKind.TAMPERED)
"""Verdicts after which it may still wait, possibly as another call than was shown."""
_CALL = "\n[a]pprove  [r]eject REASON  [e]dit JSON or @file  [s]kip  [q]uit: "
_RESULT = "\n[a]pprove: release  [r]eject REASON: withhold  [s]kip  [q]uit: "


@common.command("inbox")
@common.identity("--as", "actor", required=True, help="Whose inbox: open_id:…, union_id:… or user_id:…")
@click.option("--thread", "thread_id", help="Only what belongs to this conversation.")
async def _inbox(door: TemporalDoor, actor: Identity, thread_id: str | None) -> common.Answer:
    """List what waits for me. On a terminal, show each in turn and ask what I decide."""
    found = [state async for state in Assent(door).inbox(actor, thread_id=thread_id)]
    states = listings.by_time_left(found)
    shown = listings.inbox_listing(states)
    data = [
        questions.question_data(state) if isinstance(state, QuestionState) else tables.state_data(state)
        for state in states
    ]
    if not states or common.wants_json() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return common.Answer(shown, data)
    tables.print_for_people(shown)
    decided = await _Clerk(door, actor).go_through(states)
    return common.Answer(f"\nDecided: {decided} of {len(states)}.", data)


class _Leave(Exception):
    """The person has seen enough."""


class _Clerk:
    """Shows one after the other, and hands over what the person decides."""

    def __init__(self, door: TemporalDoor, actor: Identity) -> None:
        self._door = door
        self._actor = actor

    async def go_through(self, states: Sequence[State | QuestionState]) -> int:
        """Ask about each; how many decisions count or were received."""
        decided = 0
        try:
            for n, state in enumerate(states, 1):
                click.echo(f"\n— {n} of {len(states)} —\n", err=True)
                if isinstance(state, QuestionState):
                    decided += await self._answered(state)
                else:
                    decided += await self._decided(state)
        except _Leave:
            pass
        return decided

    async def _answered(self, state: QuestionState) -> bool:
        """Ask until an answer counts, it waits no longer, or the person goes on."""
        handle = Assent(self._door).question(state.question_id)
        while state.awaits(self._actor):
            tables.print_for_people(questions.question_page(state), to_stderr=True)
            match (await prompts.ask("\n[a]nswer  [s]kip  [q]uit: ")).lower():
                case "a" | "answer":
                    answers = await questions.answers_at_prompt(state)
                    verdict = await handle.respond(
                        answers,
                        actor=self._actor,
                        questions_sha256=state.questions_sha256,
                        surface=Surface.COMMAND_LINE,
                    )
                    click.echo(questions.answer_sentence(verdict, state.question_id, self._actor), err=True)
                    if verdict.kind not in _LOOK_AGAIN:
                        return common.EXIT_OF_VERDICT.get(verdict.kind) is common.Exit.DONE
                    state = await handle.state()
                case "s" | "skip":
                    return False
                case "q" | "quit":
                    raise _Leave
                case _:
                    click.echo("Type one of the letters in brackets.", err=True)
        return False

    async def _decided(self, state: State | None) -> bool:
        """Ask about one until something counts, it waits no longer, or the person goes on."""
        while state is not None:
            stage = Stage.RESULT if state.phase is Phase.REVIEWING else Stage.CALL
            if not await self._show(state):
                click.echo("It no longer waits.", err=True)
                return False
            handle = Assent(self._door).approval(state.approval_id)
            said = await self._ask(state, stage)
            if said is None:
                return False
            try:
                verdict = await self._submit(handle, state, stage, said)
            except InvalidRequest as error:
                click.echo(one_line(f"Not sent: {error}"), err=True)
                continue
            kind = DecisionKind(said["kind"])
            click.echo(sentences.verdict_sentence(verdict, state.approval_id, kind, self._actor, stage), err=True)
            if verdict.kind not in _LOOK_AGAIN:
                return common.EXIT_OF_VERDICT.get(verdict.kind) is common.Exit.DONE
            state = await handle.state()
            state = state if state.awaits(self._actor) else None
        return False

    async def _submit(self, handle: ApprovalHandle, state: State, stage: Stage, said: dict[str, Any]) -> Verdict:
        seen = state.payload_sha256 if stage is Stage.CALL else state.result_sha256
        return await handle.decide(
            actor=self._actor, payload_sha256=seen, stage=stage, surface=Surface.COMMAND_LINE, **said
        )

    async def _show(self, state: State) -> bool:
        """Show the whole call, and the result that is to be released; tells whether there still is one."""
        tables.print_for_people(tables.call_page(state), to_stderr=True)
        if state.phase is not Phase.REVIEWING:
            return True
        result = await self._door.result(state.approval_id, actor=self._actor)
        if result is not None:
            tables.print_for_people(tables.result_page(result, state), to_stderr=True)
        return result is not None

    async def _ask(self, state: State, stage: Stage) -> dict[str, Any] | None:
        """What the person decides; None if that is left for later."""
        while True:
            letter, _, rest = (await prompts.ask(_CALL if stage is Stage.CALL else _RESULT)).partition(" ")
            match letter.lower():
                case "a" | "approve" if not rest:
                    if await self._is_meant(state, stage):
                        return {"kind": DecisionKind.APPROVE}
                case "r" | "reject":
                    return {"kind": DecisionKind.REJECT, "reason": rest.strip() or None}
                case "e" | "edit" if stage is Stage.CALL:
                    arguments = await _typed_arguments(rest.strip())
                    if arguments is not None and await self._is_meant(state, stage):
                        return {"kind": DecisionKind.EDIT, "arguments": tables.unmasked(arguments, state)}
                case "s" | "skip":
                    return None
                case "q" | "quit":
                    raise _Leave
                case _:
                    click.echo("Type one of the letters in brackets.", err=True)

    async def _is_meant(self, state: State, stage: Stage) -> bool:
        """Whether a person who lets something of high risk happen has read which; others are not asked."""
        if state.risk is not Risk.HIGH:
            return True
        what, whole = ("payload", state.payload_sha256) if stage is Stage.CALL else ("result", state.result_sha256)
        typed_hash = await prompts.ask(f"High risk: type the {what}'s hash as shown above: ")
        if whole is not None and typed_hash == short_hash(whole):
            return True
        click.echo("That is not its hash; nothing was decided.", err=True)
        return False


async def _typed_arguments(given: str) -> dict[str, Any] | None:
    """All arguments of an edit, or None where what was typed is none."""
    given = given or await prompts.ask("All arguments, as JSON on one line or as @file: ")
    try:
        if given == "-":
            raise ValueError("standard input is this terminal; write JSON or @file")
        return typed.arguments(given)
    except ValueError as error:
        click.echo(one_line(f"Not sent: {error}"), err=True)
        return None
