"""Statements: said once in SQLAlchemy's words, compiled once for each database, then a text and its parameters.

The columns hold nothing that a driver would have to convert (text, integers, floats and bytes): what is given is
stored as it is, and read as it is.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Dialect, Executable, UpdateBase
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.dialects.postgresql.asyncpg import dialect as postgresql_dialect
from sqlalchemy.dialects.sqlite.pysqlite import dialect as sqlite_dialect
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = [
    "NOTHING",
    "POSTGRESQL",
    "SQLITE",
    "Answer",
    "Form",
    "Parameters",
    "Row",
    "Statement",
    "form_of",
    "insert",
    "row_type",
]

SQLITE: Dialect = sqlite_dialect(paramstyle="qmark")
POSTGRESQL: Dialect = postgresql_dialect()  # type: ignore[no-untyped-call]

Parameters: TypeAlias = Mapping[str, Any]
NOTHING: Parameters = MappingProxyType({})


class Row(tuple[Any, ...]):
    """What was found: each column by its name, and all of them in order."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def _asdict(self) -> dict[str, Any]: ...


@cache
def row_type(names: tuple[str, ...]) -> Callable[[Sequence[Any]], Row]:
    """What makes rows with these columns."""
    named = namedtuple("named", names, rename=True)  # type: ignore[misc]
    return type("Row", (named, Row), {"__slots__": ()})._make  # type: ignore[attr-defined, no-any-return]


class Answer:
    """What a statement found; `rowcount` is how many rows it changed."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Row], rowcount: int) -> None:
        self._rows, self.rowcount = rows, rowcount

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def all(self) -> list[Row]:
        return self._rows

    def first(self) -> Row | None:
        return self._rows[0] if self._rows else None

    def one(self) -> Row:
        (row,) = self._rows
        return row

    def scalars(self) -> list[Any]:
        """The first column of every row."""
        return [row[0] for row in self._rows]

    def scalar(self) -> Any:
        """The first column of the first row; None if there is none."""
        return self._rows[0][0] if self._rows else None

    def scalar_one(self) -> Any:
        return self.one()[0]

    def scalar_one_or_none(self) -> Any:
        return self.one()[0] if self._rows else None


class Form:
    """A statement as one database takes it, for parameters of these names and, where they are lists, lengths."""

    __slots__ = ("is_change", "make", "order", "text")

    def __init__(self, text: str, order: Callable[[Parameters], tuple[Any, ...]], *, is_change: bool = False) -> None:
        """order: puts the parameters in the order of the text's. is_change: it changes rows, and finds none."""
        self.text, self.order, self.is_change = text, order, is_change
        self.make: Callable[[Sequence[Any]], Row] | None = None
        """What makes its rows, once it has found any."""

    def rows(self, found: Sequence[Sequence[Any]], names: Callable[[], Iterable[str]]) -> list[Row]:
        """names: tells its columns, where that is not known yet."""
        if not found:
            return []
        if self.make is None:
            self.make = row_type(tuple(names()))
        return list(map(self.make, found))


class Statement:
    """A statement whose parameters have names; a list that something is IN has any length.

    What an insert or an update sets are the columns that parameters are named after. What it looks for must therefore
    be named otherwise.
    """

    __slots__ = ("_clause", "_forms", "_lists")

    def __init__(self, clause: Executable) -> None:
        self._clause = clause
        self._lists = tuple(_lists(clause))
        self._forms: dict[tuple[Any, ...], Form] = {}

    def form(self, dialect: Dialect, parameters: Parameters) -> Form:
        lengths = tuple([len(parameters[name]) for name in self._lists]) if self._lists else ()
        key = (dialect.name, lengths, *parameters)
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = _compiled(self._clause, dialect, parameters)
        return found


def form_of(statement: Statement | Executable | str, dialect: Dialect, parameters: Parameters) -> Form:
    """A text is taken as it is, and takes no parameters; whatever is said only once is compiled for that once."""
    if isinstance(statement, Statement):
        return statement.form(dialect, parameters)
    if isinstance(statement, str):
        return Form(statement, _nothing)
    return _compiled(statement, dialect, parameters)


def _compiled(clause: Executable, dialect: Dialect, parameters: Parameters) -> Form:
    columns = list(parameters) if isinstance(clause, UpdateBase) else None
    compiled = clause.compile(dialect=dialect, column_keys=columns)  # type: ignore[attr-defined]
    assert isinstance(compiled, SQLCompiler), "it is a statement"
    state = compiled.construct_expanded_state(dict(parameters))
    order = tuple(state.positiontup or ())
    expanded = {name: tuple(parts) for name, parts in state.parameter_expansion.items() if name in parameters}
    given = {*parameters, *(part for parts in expanded.values() for part in parts)}
    fixed = {name: state.parameters[name] for name in order if name not in given}
    is_change = isinstance(clause, UpdateBase) and not compiled.effective_returning
    return Form(state.statement, _orderer(order, fixed, expanded), is_change=is_change)


def _orderer(
    order: tuple[str, ...], fixed: Parameters, expanded: Mapping[str, tuple[str, ...]]
) -> Callable[[Parameters], tuple[Any, ...]]:
    if not order:
        return _nothing
    picked = itemgetter(*order) if len(order) > 1 else lambda filled: (filled[order[0]],)
    if not fixed and not expanded:
        return picked

    def ordered(parameters: Parameters) -> tuple[Any, ...]:
        filled = {**fixed, **parameters}
        for name, parts in expanded.items():
            filled.update(zip(parts, parameters[name], strict=True))
        found: tuple[Any, ...] = picked(filled)
        return found

    return ordered


def _nothing(_: Parameters) -> tuple[Any, ...]:
    return ()


def _lists(clause: Executable) -> Iterator[str]:
    for element in visitors.iterate(clause):  # type: ignore[arg-type]
        if element.__visit_name__ == "bindparam" and element.expanding and element.required:  # type: ignore[attr-defined]
            yield element.key  # type: ignore[attr-defined]
