"""Conditions of the operator's policy, in CEL: compiled and checked once, evaluated for one call within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assent.policy.evaluator import TookTooLong, evaluator

if TYPE_CHECKING:  # only those who have a policy need it
    from cel import Context, Program

VARIABLES = ("arguments", "tool", "requester", "conversation")
"""What a condition may speak of."""
FUNCTIONS = (
    *("size", "contains", "startsWith", "endsWith", "matches"),
    *("string", "int", "uint", "double", "bytes", "duration", "timestamp", "type", "dyn"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)
LOOPS = ("all", "exists_one", "exists", "map", "filter")
MAX_CHARACTERS = 2000
MAX_VALUES = 2000
"""How many values the arguments may hold where a condition loops: what it costs can grow with their square."""

_TYPES = frozenset(("int", "uint", "string", "double", "bool", "bytes", "list", "map", "null_type", "type"))
_TOKEN = re.compile(
    rf"""(?://[^\n]*|\"{{3}}.*?\"{{3}}|'{{3}}.*?'{{3}}|[rR][bB]?(?:"[^"\n]*"|'[^'\n]*')
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')  # comments and texts, which are skipped
    |\.\s*(?P<loop>{"|".join(LOOPS)})\s*\(\s*(?P<variable>[A-Za-z_]\w*)?
    |(?P<parenthesis>[()])""",
    re.VERBOSE | re.DOTALL,
)
_REQUESTER = re.compile(
    r"""(?://[^\n]*|\"{3}.*?\"{3}|'{3}.*?'{3}|[rR][bB]?(?:"[^"\n]*"|'[^'\n]*')
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')  # comments and texts, which are skipped
    |(?P<has>\bhas\s*\(\s*)?(?<![\w.])(?P<requester>requester)\b(?:\s*\.\s*(?P<field>[a-z_]+)\b(?!\s*\())?""",
    re.VERBOSE | re.DOTALL,
)
ID_KINDS = ("open_id", "union_id", "user_id")


class NotEvaluable(Exception):
    """A condition has no answer for these arguments; the message says why."""


class NotKnown(NotEvaluable):
    """A condition asks for something of who or where that nobody knows.

    facts: what it asks for.
    is_expected: whether it reckons with that, so that it would be true or false if it were known.
    """

    def __init__(self, facts: frozenset[str], *, is_expected: bool) -> None:
        super().__init__(f"not known: {', '.join(sorted(facts))}")
        self.facts = facts
        self.is_expected = is_expected


class Known:
    """What conditions know of a call, made ready once for all of them."""

    def __init__(
        self,
        *,
        arguments: dict[str, Any],
        tool: str,
        requester: dict[str, str],
        conversation: str | None,
        unknown: frozenset[str] = frozenset(),
    ) -> None:
        self.unknown = unknown
        """What of who and where is so, and nobody knows how."""
        self._arguments = arguments
        self.variables: dict[str, Any] = {"arguments": arguments, "tool": tool, "requester": requester}
        if "conversation" not in unknown:
            self.variables["conversation"] = conversation

    @cached_property
    def context(self) -> Context:
        from cel import Context  # a condition was compiled: it is there

        return Context(variables=self.variables)

    @cached_property
    def is_large(self) -> bool:
        """Whether a loop over it could take long."""
        return any(number > MAX_VALUES for number, _ in enumerate(_values(self._arguments), 1))


class Condition:
    """An expression that is true or false of a call. Two with the same text are the same."""

    def __init__(self, text: str, program: Program, *, loops: bool) -> None:
        self.text = text
        self.may_take_long = loops or "matches" in program.functions()
        """Whether it is evaluated in a process of its own, within limits."""
        self._asks_for, self._reckons_with = _facts(text, program.variables())
        self._program = program
        self._loops = loops

    @property
    def asks_who(self) -> bool:
        """Whether it depends on an id of the requester."""
        return bool(self._asks_for - {"conversation"})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Compile it. Raises ValueError where it could never be evaluated, or only at a price that nobody can tell."""
        if len(text) > MAX_CHARACTERS:
            raise ValueError(f"a condition holds at most {MAX_CHARACTERS} characters")
        if any(c < " " and c not in "\t\n\r" for c in text):
            raise ValueError("a condition holds no control characters")
        program = _compiled(text)
        loop_variables, depth = _loops(text)
        if depth > 1:
            raise ValueError("a loop within a loop takes too long where the arguments are many; use one")
        known = (*VARIABLES, *loop_variables)
        strangers = [name for name in program.variables() if name not in known and name not in _TYPES]
        strangers += [f"{name}()" for name in program.functions() if name.isidentifier() and name not in FUNCTIONS]
        if strangers:
            raise ValueError(f"unknown: {', '.join(strangers)}; there are {', '.join(VARIABLES)}, and CEL's functions")
        return cls(text, program, loops=depth > 0)

    def holds(self, known: Known) -> bool:
        """Whether it is true of what is known. Raises NotEvaluable where that cannot be said."""
        missing = self._asks_for & known.unknown
        if missing & self._reckons_with:
            raise NotKnown(missing, is_expected=True)
        try:
            return self._evaluated(known)
        except NotEvaluable:
            if missing:
                raise NotKnown(missing, is_expected=False) from None
            raise

    def _evaluated(self, known: Known) -> bool:
        if self._loops and known.is_large:
            raise NotEvaluable(f"the arguments hold more than the {MAX_VALUES} values that a loop may go through")
        if self.may_take_long:
            return _answered(self.text, known)
        try:
            answer = self._program.execute(known.context)
        except KeyError as error:
            raise NotEvaluable(f"there is no {error.args[0]!r}") from None
        except Exception as error:
            raise NotEvaluable(_said_of(error)) from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the library's own crash is no reason for ours
                raise
            raise NotEvaluable("the expression could not be computed") from None
        if not isinstance(answer, bool):
            raise NotEvaluable("it is neither true nor false")
        return answer


def _answered(text: str, known: Known) -> bool:
    """The answer of the process that is ended when it takes too long."""
    try:
        said = evaluator.ask(text, known.variables)
    except TookTooLong as error:
        raise NotEvaluable(str(error)) from None
    if "missing" in said:
        raise NotEvaluable(f"there is no {said['missing']!r}")
    if "raised" in said:
        raise NotEvaluable(_said_of(_RAISED.get(said["raised"], ValueError)()))
    if said["answer"] is None:
        raise NotEvaluable("it is neither true nor false")
    return bool(said["answer"])


_RAISED: dict[str, type[Exception]] = {each.__name__: each for each in (TypeError, IndexError, ArithmeticError)}


def _compiled(text: str) -> Program:
    try:
        import cel
    except ImportError:
        raise ValueError("conditions need the extra `policy`: pip install 'assent[policy]'") from None
    try:
        return cel.compile(text)
    except ValueError as error:
        raise ValueError(f"not an expression of CEL: {_syntax_error(error)}") from None


def _said_of(error: Exception) -> str:
    """What went wrong, without the values: they may be sensitive."""
    match error:
        case TypeError():
            return "values of these types cannot be compared or computed with each other"
        case IndexError():
            return "a list is shorter than that"
        case ArithmeticError():
            return "a number is too large, or divided by zero"
        case _:
            return "a function does not take such a value"


def _syntax_error(error: Exception) -> str:
    found = re.search(
        r"ERROR: <input>:[0-9]+:([0-9]+): (?:Syntax error: )?(.*?)(?: expecting .*)?$", str(error), re.MULTILINE
    )
    return f"{found[2]} (at character {found[1]})" if found else "it cannot be read"


def _loops(text: str) -> tuple[list[str], int]:
    """The variables of the loops in an expression, and how deep they are within each other."""
    variables: list[str] = []
    open_parentheses: list[bool] = []
    deepest = 0
    for found in _TOKEN.finditer(text):
        if found["loop"]:
            variables += [found["variable"]] if found["variable"] else []
            open_parentheses.append(True)
            deepest = max(deepest, sum(open_parentheses))
        elif found["parenthesis"] == "(":
            open_parentheses.append(False)
        elif found["parenthesis"] and open_parentheses:
            open_parentheses.pop()
    return variables, deepest


def _facts(text: str, variables: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """What an expression asks for of who and where: `open_id`, `union_id`, `user_id`, `conversation`.

    And of which of the ids it is true or false where they are missing: it asks whether they are there.
    """
    asked, reckoned = {"conversation"} & set(variables), set[str]()
    for found in _REQUESTER.finditer(text) if "requester" in variables else ():
        if found["requester"]:
            named = {found["field"]} if found["field"] else {*ID_KINDS}
            asked |= named & {*ID_KINDS}
            reckoned |= named & {*ID_KINDS} if found["has"] or not found["field"] else set()
    return frozenset(asked), frozenset(reckoned)


def _values(given: Any) -> Iterator[Any]:
    yield given
    for value in given.values() if isinstance(given, dict) else given if isinstance(given, list) else ():
        yield from _values(value)
