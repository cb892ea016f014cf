"""`assent ask` and `assent answer`: questions from a terminal or a script."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from assent.cli import common, prompts, tables, typed
from assent.client.client import Assent
from assent.contracts.answers import AnswerVerdict, Given, QuestionOutcome, QuestionStatus
from assent.contracts.asking import QuestionState
from assent.contracts.decision import VerdictKind
from assent.contracts.identity import Identity
from assent.contracts.questions import Question, QuestionKind
from assent.contracts.values import Surface
from assent.durations import parse_duration
from assent.errors import InvalidRequest
from assent.payload import SHORT_HASH, short_hash
from assent.safe import one_line, visible
from assent.temporal.door import TemporalDoor

_YES, _NO = ("yes", "y", "true"), ("no", "n", "false")
_EXIT = {QuestionStatus.RESOLVED: common.Exit.DONE, QuestionStatus.PENDING: common.Exit.DONE}


@common.command("ask")
@click.argument("prompt", required=False)
@click.option("--confirm", is_flag=True, help="A yes or a no, instead of a text.")
@click.option("--option", "options", multiple=True, metavar="VALUE[=LABEL]", help="An option to choose from.  [repeat]")
@click.option("--multi-select", is_flag=True, help="Several options may be chosen.")
@click.option("--allow-input", is_flag=True, help="People may answer in their own words instead.")
@click.option(
    "--questions",
    metavar="JSON",
    callback=typed.read(typed.value),
    help="Instead of PROMPT, a list of one to ten questions: its JSON, - for stdin, or @file.",
)
@common.identity("--requester", required=True, help="On whose behalf: open_id:…, union_id:… or user_id:…")
@click.option(
    "--person",
    "people",
    multiple=True,
    metavar="IDENTITY",
    callback=lambda context, parameter, given: [typed.read(Identity.parse)(context, parameter, each) for each in given],
    help="Who may answer, instead of the requester.  [repeat]",
)
@click.option("--members", is_flag=True, help="The members of the chat may answer, instead of the requester.")
@click.option("--id", "question_id", help="Asking again under an id attaches to it.  [default: a new one]")
@click.option("--thread", "thread_id", help="The conversation it belongs to.")
@click.option(
    "--ttl",
    metavar="DURATION",
    callback=typed.read(parse_duration),
    help="How long it waits: 90s, 15m, 4h, 1d.  [default: 15m]",
)
@click.option("--reason", help="Why, for the person who answers.")
@click.option("--chat-id", help="The chat that gets the card.  [default: the private chats of those who may answer]")
@click.option("--reply-to", help="The message that the card answers.")
@click.option("--callback-url", metavar="URL", help="Where to post the answer, signed, once there is one.")
@click.option("--wait", is_flag=True, help="Wait for the answer.")
async def _ask(
    door: TemporalDoor,
    prompt: str | None,
    confirm: bool,
    options: tuple[str, ...],
    multi_select: bool,
    allow_input: bool,
    questions: Any,
    wait: bool,
    **asked: Any,
) -> common.Answer:
    """Ask a person a question: PROMPT, to be answered with a text, an option, or yes or no."""
    if (prompt is None) == (questions is None):
        raise click.UsageError("say what is asked: PROMPT, or --questions")
    if confirm and options:
        raise click.UsageError("a yes or no has no options: leave --confirm or --option out")
    kind = QuestionKind.CONFIRM if confirm else QuestionKind.CHOICE if options else QuestionKind.TEXT
    choices = [dict(zip(("value", "label"), each.split("=", 1), strict=False)) for each in options]
    one: dict[str, Any] = {"prompt": prompt, "kind": kind.value, "options": choices}
    given = questions or [{**one, "multi_select": multi_select, "allow_input": allow_input}]
    chosen = {name: value for name, value in asked.items() if value is not None}
    handle = await Assent(door).ask(given, surface=Surface.COMMAND_LINE, **chosen)
    if wait:
        click.echo(f"Asked as {one_line(handle.id)}. Ctrl-C ends the waiting, not the question.", err=True)
        outcome = await handle.answer()
        code = _EXIT.get(outcome.status, common.Exit.REFUSED)
        return common.Answer(_outcome_page(outcome), outcome.model_dump(mode="json"), code)
    state = await handle.state()
    return common.Answer(question_page(state), question_data(state))


@common.command("answer")
@click.argument("question_id")
@click.argument("answers", nargs=-1, metavar="[ANSWER]...")
@common.identity("--as", "actor", required=True, help="Who answers: open_id:…, union_id:… or user_id:…")
@click.option("--hash", "seen", metavar="SHA", help="Answer only if the hash is this one, or starts with this.")
@click.option(
    "--answers",
    "whole",
    metavar="JSON",
    callback=typed.read(typed.arguments),
    help="All answers by the ids of their questions; their JSON, - for stdin, or @file.",
)
async def _answer(
    door: TemporalDoor,
    question_id: str,
    answers: tuple[str, ...],
    actor: Identity,
    seen: str | None,
    whole: dict[str, Any] | None,
) -> common.Answer:
    """Answer a question. ANSWER is ID=VALUE, or VALUE if there is one question; repeat it for several options.

    Without one, a terminal shows the question and asks. At least 12 characters stand for a whole --hash.
    """
    handle = Assent(door).question(question_id)
    state = await handle.state()
    found: dict[str, Given] | None = whole
    if found is None:
        found = read_answers(state.questions, answers) if answers else await _asked_here(state)
    verdict = await handle.respond(
        found, actor=actor, questions_sha256=_hash(state, seen), surface=Surface.COMMAND_LINE
    )
    code = common.EXIT_OF_VERDICT.get(verdict.kind, common.Exit.REFUSED)
    data = {"question_id": question_id, **verdict.model_dump(mode="json")}
    sentence = answer_sentence(verdict, question_id, actor)
    return common.Answer(sentence, data, code, to_stderr=code is not common.Exit.DONE)


def _hash(state: QuestionState, seen: str | None) -> str:
    if seen is None or (len(seen) >= SHORT_HASH and state.questions_sha256.startswith(seen)):
        return state.questions_sha256
    return seen


async def _asked_here(state: QuestionState) -> dict[str, Given]:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidRequest("say what is answered: ID=VALUE, or --answers")
    tables.print_for_people(question_page(state), to_stderr=True)
    return await answers_at_prompt(state)


async def answers_at_prompt(state: QuestionState) -> dict[str, Given]:
    """What a person types at a terminal, question by question; - leaves one out."""
    found: dict[str, Given] = {}
    for question in state.questions:
        said = await prompts.ask(f"\n{one_line(question.id)} {_hint(question)}: ")
        if said == "-":
            continue
        typed_here = said.split(",") if question.multi_select else [said]
        found |= read_answers((question,), [_by_number(question, each.strip()) for each in typed_here], alone=True)
    return found


def _hint(question: Question) -> str:
    optional = "" if question.required else ", or - to leave it out"
    match question.kind:
        case QuestionKind.CONFIRM:
            return f"(yes or no{optional})"
        case QuestionKind.TEXT:
            return f"(a text{optional})"
        case QuestionKind.CHOICE:
            several = "numbers or values, with commas" if question.multi_select else "a number or a value"
            own = ", or your own words" if question.allow_input else ""
            return f"({several}{own}{optional})"


def _by_number(question: Question, said: str) -> str:
    if said.isascii() and said.isdigit() and 0 < int(said) <= len(question.options) and not question.offers(said):
        return question.options[int(said) - 1].value
    return said


def read_answers(questions: Sequence[Question], said: Sequence[str], *, alone: bool = False) -> dict[str, Given]:
    """What `ID=VALUE` and the like mean; whether it will do is said where it is judged."""
    by_id = {question.id: question for question in questions}
    texts: dict[str, list[str]] = {}
    for each in said:
        name, has_value, value = each.partition("=")
        if alone or (len(by_id) == 1 and (not has_value or name not in by_id)):
            name, value = next(iter(by_id)), each
        elif not has_value or name not in by_id:
            raise InvalidRequest(f"{each!r}: write ID=VALUE; the questions are {', '.join(by_id)}")
        texts.setdefault(name, []).append(value)
    return {name: _given(by_id[name], values) for name, values in texts.items()}


def _given(question: Question, values: list[str]) -> Given:
    if question.kind is QuestionKind.CONFIRM and len(values) == 1:
        lower = values[0].lower()
        return True if lower in _YES else False if lower in _NO else values[0]
    return tuple(values) if len(values) > 1 or question.multi_select else values[0]


# What is shown


def question_data(state: QuestionState) -> dict[str, Any]:
    """A question for programs."""
    return state.model_dump(mode="json", exclude={"deciders"})


def question_page(state: QuestionState) -> RenderableType:
    """A question as people read it."""
    rows = [
        ("ID", state.question_id),
        ("STATUS", state.status.value),
        ("ASKED BY", state.tool or state.asked_by or "-"),
        ("REQUESTER", str(state.requester)),
        ("REASON", state.reason or "-"),
        ("ANSWER BY", f"{state.deadline.astimezone():%Y-%m-%d %H:%M:%S}" if state.deadline else "-"),
        ("HASH", short_hash(state.questions_sha256)),
    ]
    table = tables.table_of("QUESTION", "")
    for name, value in rows:
        table.add_row(tables.text(name), tables.text(value))
    asked = [part for question in state.questions for part in _question_lines(question)]
    return Group(table, Text(""), *asked)


def _question_lines(question: Question) -> list[Text]:
    lines = [Text(f"{one_line(question.id)}: {visible(question.prompt)}")]
    for place, option in enumerate(question.options, 1):
        said = f" ({one_line(option.text)})" if option.label else ""
        about = f": {one_line(option.description)}" if option.description else ""
        lines.append(Text(f"  {place}. {one_line(option.value)}{said}{about}"))
    return lines


def _outcome_page(outcome: QuestionOutcome) -> str:
    if outcome.answers is None:
        because = f": {one_line(outcome.reason)}" if outcome.reason else "."
        return f"Not answered, {outcome.status.value}{because}"
    return "\n".join(f"{one_line(name)}: {_said(given)}" for name, given in outcome.answers.items())


def _said(given: Given) -> str:
    if isinstance(given, bool):
        return "yes" if given else "no"
    return one_line(given) if isinstance(given, str) else ", ".join(map(one_line, given))


def answer_sentence(verdict: AnswerVerdict, question_id: str, actor: Identity) -> str:
    """What became of an answer, in one sentence."""
    match verdict.kind:
        case VerdictKind.ACCEPTED:
            return "Answered."
        case VerdictKind.DUPLICATE:
            return "This answer has already been counted."
        case VerdictKind.RECEIVED:
            return "Received; it waits until a worker judges it."
        case VerdictKind.TAMPERED:
            return "Not counted: the hash is not that of the questions as they are now. Look at them again."
        case VerdictKind.FORBIDDEN:
            return f"Not counted: {one_line(str(actor))} may not answer this."
        case VerdictKind.INVALID:
            return f"Not counted: {one_line(verdict.reason or 'it is no answer to these questions')}. It still waits."
        case VerdictKind.ALREADY_DECIDED if verdict.status is QuestionStatus.CANCELLED:
            return "Not counted: the question was withdrawn."
        case VerdictKind.ALREADY_DECIDED | VerdictKind.SUPERSEDED:
            who = one_line(str(verdict.answered_by)) if verdict.answered_by else "somebody"
            return f"Not counted: {who} has already answered."
        case VerdictKind.EXPIRED:
            return "Not counted: the deadline has passed."
        case VerdictKind.MISSING:
            return f"question {one_line(repr(question_id))} is not known."
