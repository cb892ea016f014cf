"""A ready-made tool that is a program: run with an argument vector, never by a shell."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic_core import to_jsonable_python

from assent.contracts.manifest import Program
from assent.contracts.presentation import placeholders
from assent.errors import InvalidRequest, InvalidTool
from assent.tools.definition import Tool, tool

_MOST_SAID = 10 * 1024 * 1024
_MOST_VECTOR = 100
_ENDS_OPTIONS = "--"


def program_tool(
    name: str,
    vector: Sequence[str],
    *,
    parameters: Mapping[str, Any] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Iterable[str] = ("PATH", "HOME", "LANG"),
    failure_codes: Iterable[int] = (),
    max_output: int = _MOST_SAID,
    returns_output: bool = False,
    description: str = "",
    timeout: timedelta = timedelta(minutes=10),
    asks: timedelta = timedelta(hours=1),
    **declared: Any,
) -> Tool:
    """Register a program as a tool. Its result is its `run_id`, its `exit_code` and the last `summary` it gave.

    vector: the program and its arguments. `{name}` in one of them is a parameter of the tool; whatever its value, it
        stays within that one argument, and no shell reads it.
    parameters: the types of the parameters, name → annotation, or name → (annotation, default); a text, if nothing is
        said.
    cwd: where it runs; where the worker does, if nothing is said.
    env: which of the worker's environment variables it gets. `ASSENT_RUN_ID` comes with them.
    failure_codes: exit codes by which it says that it did nothing: they end the call as failed. 0 is a success, and of
        anything else nobody knows what became of it.
    max_output: how many bytes it may say before it is stopped.
    returns_output: whether the end of its output is part of the result; the ledger has it in any case.
    timeout: how long it may run before it is stopped. What people are asked meanwhile does not count,
    asks: for which there is so much time altogether.
    declared: whatever else `@tool` takes, but for what is about trying again.
    """
    fields = dict(parameters or {})
    codes = tuple(sorted({*failure_codes}))
    if refused := {"retry_safe", "attempts", "probe", "probe_for", "in_flight"} & declared.keys():
        raise InvalidTool(f"tool {name!r}: {', '.join(sorted(refused))} cannot be said of a program")
    if isinstance(vector, str) or not vector or len(vector) > _MOST_VECTOR or not all(map(_is_argument, vector)):
        raise InvalidTool(f"tool {name!r}: vector is a list of texts, the program first; no shell reads it")
    if 0 in codes or not all(0 < code < 256 for code in codes):
        raise InvalidTool(f"tool {name!r}: failure_codes are numbers from 1 to 255")
    if max_output <= 0:
        raise InvalidTool(f"tool {name!r}: max_output must be positive")
    try:
        named = dict.fromkeys(each for argument in vector for each in placeholders(argument))
    except ValueError as error:
        raise InvalidTool(f"tool {name!r}: vector: {error}") from None
    if placeholders(vector[0]):
        raise InvalidTool(f"tool {name!r}: vector: which program runs is said by the tool, not by its arguments")
    if unused := sorted(fields.keys() - named.keys()):
        raise InvalidTool(f"tool {name!r}: the vector does not use {', '.join(unused)}")
    signature = {each: fields.get(each, str) for each in named}

    async def run(**_: Any) -> None:
        raise InvalidRequest("a program runs in a tools worker, with consent")

    run.__name__, run.__doc__ = "run", description
    run.__signature__ = inspect.Signature([_parameter(*each) for each in signature.items()])  # type: ignore[attr-defined]
    run.__annotations__ = {each: _annotation(said) for each, said in signature.items()}
    made = tool(name=name, timeout=timeout, asks=asks, **declared)(run)
    program = Program(
        vector=tuple(vector),
        cwd=os.fspath(cwd) if cwd is not None else None,
        env=tuple(sorted({*env})),
        failure_codes=codes,
        max_output=max_output,
        returns_output=returns_output,
    )
    return made.running(program)


def filled(program: Program, arguments: Mapping[str, Any]) -> list[str]:
    """The argument vector of one call. Raises InvalidRequest where a value would be more than an argument."""
    values = {name: _text(value) for name, value in to_jsonable_python(dict(arguments)).items()}
    found: list[str] = []
    for argument in program.vector:
        text = argument.format(**values)
        if "\0" in text:
            raise InvalidRequest("an argument of a program holds no NUL")
        is_given = not argument.startswith("-") and text.startswith("-")
        if is_given and isinstance(arguments.get(placeholders(argument)[0]), str) and _ENDS_OPTIONS not in found:
            raise InvalidRequest("an argument that begins with - would be an option of the program")
        found.append(text)
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_argument(given: object) -> bool:
    return isinstance(given, str) and "\0" not in given


def _annotation(said: Any) -> Any:
    return said[0] if isinstance(said, tuple) else said


def _parameter(name: str, said: Any) -> inspect.Parameter:
    default = said[1] if isinstance(said, tuple) else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=_annotation(said), default=default)
