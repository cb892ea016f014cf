"""Tools: typed functions that the service runs, and what they say of themselves."""

from __future__ import annotations

import inspect
import itertools
import warnings as python_warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, TypeAdapter, ValidationError, create_model
from pydantic.dataclasses import dataclass
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaError
from pydantic_core.core_schema import DecimalSchema

from assent import names
from assent.arguments import schema
from assent.contracts.approvers import Approvers
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Program, Risk
from assent.contracts.permission import IN_CAMEL_CASE, Permission
from assent.contracts.presentation import Presentation, Words, placeholders
from assent.contracts.values import Frozen, Id
from assent.errors import InvalidTool
from assent.files.shared_file import SharedFile
from assent.payload import canonical_json
from assent.tools.asking import Asked, Asking

_LONGEST = timedelta(days=365)
"""What all attempts of one call may take together: deadlines must stay within the calendar."""

_DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""The texts that are decimals."""

_Size = TypeVar("_Size", int, timedelta)
Said = str | Mapping[str, str]
"""A text for people: one for all, or one for each of `en` and `zh`."""


class ToolOutcome(StrEnum):
    """How a tool says that it ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    NEEDS_USER_AUTH = "needs_user_auth"
    CANCELLED = "cancelled"
    INFORMATIONAL = "informational"

    @property
    def took_effect(self) -> bool:
        return self in (ToolOutcome.COMPLETED, ToolOutcome.INFORMATIONAL)


@dataclass(frozen=True)
class ToolResult:
    """What a tool returns when a plain value does not say enough.

    Raising instead means: nobody knows whether it happened.
    """

    outcome: ToolOutcome = ToolOutcome.COMPLETED
    content: Any = None
    authorize_url: str | None = None
    is_error: bool = False
    """Whether the tool is certain that it did not do what it was asked to: then the call failed, and is not done."""

    @property
    def took_effect(self) -> bool:
        return self.outcome.took_effect and not self.is_error


class ProbeAnswer(StrEnum):
    """What a probe found out about a call."""

    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"
    """It has not run, and no longer can."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ProbeResult:
    """What a probe returns when it knows the content too; otherwise a bare `ProbeAnswer` is enough."""

    answer: ProbeAnswer
    content: Any = None


class ToolContext(Frozen):
    """What a tool may know about the call it makes."""

    approval_id: str
    requester: Identity
    idempotency_key: str
    """Pass it on to whatever can tell a repeated call from a new one."""
    tool_call_id: str | None = None
    thread_id: str | None = None
    attempt: int = 1
    _asking: Asking = PrivateAttr(default_factory=Asking)

    def ask(self, questions: Asked, *, requester: bool = False) -> Any:
        """Ask a person one to ten questions, and wait for the `QuestionOutcome`; an `async` tool awaits it.

        Those who may decide the call may answer. The tool's own time does not run meanwhile. A later attempt of the
        same consent gets the answer that was given.

        requester: whether the requester answers instead.
        """
        return self._asking.ask(questions, requester=requester)

    def confirm(self, prompt: str, *, requester: bool = False) -> Any:
        """Ask for a yes; False if somebody says no, or nobody answers in time. An `async` tool awaits it."""
        return self._asking.confirm(prompt, requester=requester)

    def asking_with(self, asking: Asking) -> ToolContext:
        """The same, for a call whose tool asks so."""
        self._asking = asking
        return self


class _Read(NamedTuple):
    """What an author says of how a tool's calls are read."""

    title: Said | None = None
    labels: Mapping[str, Said] = {}
    summary: Said | None = None


Warnings = str | Iterable[str] | Callable[..., str | Iterable[str] | None]
"""Sentences for whoever decides; or a function that says them of one call's arguments."""


class Tool:
    """A registered function. Calling it calls the function directly: nobody is asked."""

    def __init__(
        self,
        function: Callable[..., Any],
        probe: Callable[..., Any] | None,
        read: _Read | None = None,
        warnings: Warnings = (),
        **declared: Any,
    ) -> None:
        self.function = function
        self.probe = probe
        self._parameters, self._context_name = _parameters(function, declared["name"])
        self._model = _arguments_model(self._parameters)
        parameters = _closed_schema(self._model, self._parameters, declared["name"])
        self.manifest = Manifest(
            parameters=parameters,
            presentation=_presentation(read or _Read(), self._model, parameters),
            description=inspect.getdoc(function) or "",
            has_probe=probe is not None,
            warnings=() if callable(warnings) else sentences(warnings),
            warns=callable(warnings),
            **declared,
        )
        known = [parameter.name for parameter in self._parameters]
        self._warn = _warning_function(warnings, known) if callable(warnings) else None
        unknown = set(self.manifest.sensitive) - {parameter.name for parameter in self._parameters}
        if unknown:
            raise InvalidTool(f"tool {self.name!r}: sensitive names no parameter {sorted(unknown)}")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def name(self) -> str:
        return self.manifest.name

    def parse(self, arguments: bytes, files: Mapping[str, SharedFile] | None = None) -> dict[str, Any]:
        """The function's keyword arguments, strictly from JSON, none left over. Raises pydantic's ValidationError.

        files: those that were opened for the call, by their ids; without them, files are handles without bytes.
        """
        context = {"files": files}
        model = self._model.model_validate_json(arguments, strict=True, extra="forbid", context=context)
        return {parameter.name: getattr(model, f"p{i}") for i, parameter in enumerate(self._parameters)}

    @property
    def program(self) -> Program | None:
        """The program that it is, if it is one: run in place of the function."""
        return self.manifest.program

    def running(self, program: Program) -> Tool:
        """The same, as a program: consent rests on all that is said of it."""
        shown = self.manifest.presentation.model_copy(update={"command": program.vector})
        self.manifest = self.manifest.model_copy(update={"program": program, "presentation": shown})
        return self

    def bound(self, arguments: dict[str, Any], context: ToolContext) -> Callable[[], Any]:
        """The call, ready to be made."""
        given = {self._context_name: context} if self._context_name else {}
        return partial(self.function, **arguments, **given)

    def warning(self, arguments: dict[str, Any]) -> Callable[[], Any]:
        """The question what should be known of a call, ready to be asked."""
        assert self._warn is not None, "the manifest says that there is a function"
        return partial(self._warn, arguments)


class Registry:
    """The tools that a worker offers, by name."""

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}

    def add(self, tool: Tool) -> Tool:
        if tool.name == names.AGENT_CALL:
            raise InvalidTool(f"tool {tool.name!r}: this name stands for what agents run themselves; give it another")
        if tool.name in self.tools:
            raise InvalidTool(f"tool {tool.name!r} is registered twice; give one of them another name")
        self.tools[tool.name] = tool
        return tool


registry = Registry()
"""Where `@tool` registers."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    queue: str = names.TOOLS_QUEUE,
    risk: Risk | str = Risk.MEDIUM,
    approvers: str | Approvers | Iterable[Identity] = "requester",
    retry_safe: bool = False,
    attempts: int = 3,
    timeout: timedelta = timedelta(minutes=1),
    probe: Callable[..., Any] | None = None,
    probe_for: timedelta = timedelta(hours=1),
    in_flight: timedelta | None = None,
    asks: timedelta | None = None,
    sensitive: Iterable[str] = (),
    warnings: Warnings = (),
    max_ttl: timedelta | None = None,
    permission: Permission | str | Mapping[str, Any] | None = None,
    require_execution_approval: bool | None = None,
    require_result_approval: bool | None = None,
    title: Said | None = None,
    labels: Mapping[str, Said] | None = None,
    summary: Said | None = None,
    registry: Registry = registry,
    **in_camel_case: Any,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    queue: str = names.TOOLS_QUEUE,
    risk: Risk | str = Risk.MEDIUM,
    approvers: str | Approvers | Iterable[Identity] = "requester",
    retry_safe: bool = False,
    attempts: int = 3,
    timeout: timedelta = timedelta(minutes=1),
    probe: Callable[..., Any] | None = None,
    probe_for: timedelta = timedelta(hours=1),
    in_flight: timedelta | None = None,
    asks: timedelta | None = None,
    sensitive: Iterable[str] = (),
    warnings: Warnings = (),
    max_ttl: timedelta | None = None,
    permission: Permission | str | Mapping[str, Any] | None = None,
    require_execution_approval: bool | None = None,
    require_result_approval: bool | None = None,
    title: Said | None = None,
    labels: Mapping[str, Said] | None = None,
    summary: Said | None = None,
    registry: Registry = registry,
    **in_camel_case: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Register a function as a tool that runs only with a person's consent.

    name: what agents call it; by default the function's name.
    queue: the Temporal task queue whose workers run it.
    risk: low, medium or high, shown to whoever decides.
    approvers: "requester", "anyone", or a list of identities.
    retry_safe: the tool honours `ToolContext.idempotency_key`, so beginning it again is harmless.
    attempts: how often a `retry_safe` tool may be begun for one consent.
    timeout: how long the body may take before its outcome counts as unknown.
    probe: `probe(ctx, **arguments)`, asked when the outcome is unknown.
    probe_for: how long it is asked, with growing pauses, before only a person is left to ask.
    in_flight: how long after its beginning a call may still take effect. A probe's "not executed" counts only after
        that; where nothing is said, only once the body is known to have ended.
    asks: how long all questions together may take that the tool asks with `ToolContext.ask`; else it may ask none.
    sensitive: parameters that are never shown in clear.
    warnings: sentences for whoever decides, shown above the buttons; or a function that gets the arguments it names,
        or all of them in one parameter of its own, and returns such sentences.
    max_ttl: the longest that an approval of this tool may wait.
    permission: whether a person is asked before it runs and before its result is handed over; by default always, and
        never. The older levels are understood too: "public", "moderate", "sensitive".
    require_execution_approval, require_result_approval: the older words: False runs it without asking, True has
        every result looked at.
    title: what people read instead of the name: "Refund an order", or {"en": "Refund an order", "zh": "退款"}.
    labels: what they read instead of a parameter's name, by that name; `Field(title=…)` counts, too.
    summary: the call in one line, in which `{name}` stands for an argument:
        "Refund {amount} {currency} for order {order}". Without it, telling arguments are picked.
    in_camel_case: the same in the words of others: executionPolicy, resultApprovalPolicy, requireExecutionApproval,
        requireResultApproval.
    """
    if unknown := sorted(set(in_camel_case) - set(IN_CAMEL_CASE)):
        raise TypeError(f"tool() got an unexpected keyword argument {unknown[0]!r}")

    def register(function: Callable[..., Any]) -> Tool:
        chosen = name if name is not None else getattr(function, "__name__", "")
        try:
            return registry.add(
                Tool(
                    function,
                    probe,
                    read=_Read(title, labels or {}, summary),
                    warnings=warnings,
                    name=_id(chosen, "name"),
                    queue=_id(queue, "queue"),
                    risk=Risk(risk),
                    approvers=Approvers.of(approvers),
                    retry_safe=retry_safe,
                    attempts=_positive(attempts, "attempts", 0),
                    timeout=_bounded(_positive(timeout, "timeout", timedelta(0)), attempts),
                    probe_for=_positive(probe_for, "probe_for", timedelta(0)),
                    in_flight=in_flight if in_flight is None else _positive(in_flight, "in_flight", timedelta(0)),
                    asks=timedelta(0) if asks is None else _bounded(_positive(asks, "asks", timedelta(0)), attempts),
                    sensitive=tuple(sensitive),
                    max_ttl=max_ttl if max_ttl is None else _positive(max_ttl, "max_ttl", timedelta(0)),
                    permission=_permission(
                        permission,
                        require_execution_approval=require_execution_approval,
                        require_result_approval=require_result_approval,
                        **in_camel_case,
                    ),
                )
            )
        except InvalidTool:
            raise
        except PydanticUserError as error:
            raise InvalidTool(f"tool {chosen!r}: the arguments have no JSON Schema: {error.message}") from None
        except (ValueError, TypeError, SchemaError) as error:
            raise InvalidTool(f"tool {chosen!r}: {error}") from None

    return register if function is None else register(function)


_MOST_WARNINGS, _MOST_CHARACTERS = 20, 500


def sentences(said: object) -> tuple[str, ...]:
    """Warnings as they are shown. Raises ValueError for what is no text, and for more than anybody reads."""
    given = () if said is None else (said,) if isinstance(said, str) else said
    if not isinstance(given, Iterable):
        raise ValueError(f"warnings: sentences, not a {type(said).__name__}")
    found = []
    for each in itertools.islice(given, _MOST_WARNINGS + 1):
        if not isinstance(each, str):
            raise ValueError(f"warnings: sentences, not a {type(each).__name__}")
        found.append(" ".join(each.split()))
    found = [each for each in found if each]
    if len(found) > _MOST_WARNINGS or any(len(each) > _MOST_CHARACTERS for each in found):
        raise ValueError(f"warnings: at most {_MOST_WARNINGS}, of {_MOST_CHARACTERS} characters each")
    if not all(each.isprintable() for each in found):
        raise ValueError("warnings: they must be printable")
    return tuple(found)


def _warning_function(function: Callable[..., Any], known: list[str]) -> Callable[[dict[str, Any]], Any]:
    """The function, called with the arguments that it names."""
    taken = inspect.signature(function).parameters.values()
    named = [each.name for each in taken if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    takes_all = any(each.kind is each.VAR_KEYWORD for each in taken)
    others = [each.name for each in taken if each.kind is not each.VAR_KEYWORD and each.name not in known]
    takes_one = len(taken) == 1 and bool(others)
    if others and not takes_one:
        raise ValueError(f"warnings: the function takes {', '.join(others)}, which the tool does not")

    def warn(arguments: dict[str, Any]) -> Any:
        given = {name: value for name, value in arguments.items() if takes_all or name in named}
        said = function(dict(arguments)) if takes_one else function(**given)
        return said if inspect.isawaitable(said) else sentences(said)  # here, where it may take its time

    return warn


def _permission(said: Permission | str | Mapping[str, Any] | None, **older: Any) -> Permission:
    match said:
        case Permission():
            given: Mapping[str, Any] = said.model_dump()
        case Mapping():
            given = said
        case _:
            given = {} if said is None else {"level": said}
    try:
        return Permission.model_validate({**given, **{word: each for word, each in older.items() if each is not None}})
    except ValidationError as error:
        raise ValueError(f"permission: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def _id(value: str, name: str) -> str:
    try:
        return TypeAdapter(Id).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"{name}: {error.errors()[0]['msg']}") from None


def _positive(value: _Size, name: str, zero: _Size) -> _Size:
    if value <= zero:
        raise ValueError(f"{name} must be positive")
    return value


def _bounded(timeout: timedelta, attempts: int) -> timedelta:
    if timeout > _LONGEST / attempts:
        raise ValueError(f"timeout: all attempts together may take {_LONGEST.days} days at most")
    return timeout


def _parameters(function: Callable[..., Any], name: str) -> tuple[list[inspect.Parameter], str | None]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidTool(f"tool {name!r}: an annotation cannot be resolved: {error}") from None
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTool(f"tool {name!r}: a generator does nothing when it is called; return the result instead")
    context_name = None
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidTool(f"tool {name!r}: parameter {parameter} cannot be passed by name")
        if parameter.name not in hints:
            raise InvalidTool(f"tool {name!r}: parameter {parameter.name!r} has no annotation")
        if _mentions_context(hints[parameter.name]):
            if hints[parameter.name] is not ToolContext or context_name is not None:
                raise InvalidTool(f"tool {name!r}: one parameter may be a ToolContext, annotated with just that")
            context_name = parameter.name
            continue
        parameters.append(parameter.replace(annotation=hints[parameter.name]))
    return parameters, context_name


def _mentions_context(annotation: Any) -> bool:
    return annotation is ToolContext or any(_mentions_context(part) for part in get_args(annotation))


def _arguments_model(parameters: list[inspect.Parameter]) -> type[BaseModel]:
    # Fields are numbered and aliased, so that no parameter's name can collide with a model's attribute.
    fields: dict[str, Any] = {
        f"p{i}": (
            Annotated[parameter.annotation, Field(alias=parameter.name)],
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for i, parameter in enumerate(parameters)
    }
    return create_model("Arguments", __config__=ConfigDict(extra="forbid", strict=True), **fields)


class _SchemaOfArguments(GenerateJsonSchema):
    """JSON Schema that also says which texts are decimals, so that others are refused before anyone is asked."""

    def get_decimal_pattern(self, schema: DecimalSchema) -> str:
        return _DECIMAL


def _closed_schema(model: type[BaseModel], parameters: list[inspect.Parameter], name: str) -> dict[str, Any]:
    with python_warnings.catch_warnings():
        python_warnings.simplefilter("ignore")  # a default left out is refused below, by name
        parts = model.model_json_schema(schema_generator=_SchemaOfArguments)
    schema.close(parts)
    schema.check(parts)
    lost = schema.lost_defaults(parts)
    lost += [p.name for p in parameters if p.default is not p.empty and not _is_carried(p, parts["properties"][p.name])]
    if lost:
        raise InvalidTool(f"tool {name!r}: JSON Schema cannot carry the default of {', '.join(sorted(set(lost)))}")
    return parts


def _presentation(read: _Read, model: type[BaseModel], parameters: dict[str, Any]) -> Presentation:
    declared = parameters.get("properties", {})
    if unknown := sorted(set(read.labels) - set(declared)):
        raise ValueError(f"labels names no parameter {unknown}")
    titled = {field.alias: field.title for field in model.model_fields.values() if field.alias and field.title}
    summary = Words.of(read.summary, "summary") if read.summary is not None else None
    for text in (summary.en, summary.zh) if summary else ():
        if unknown := sorted(set(placeholders(text)) - set(declared)):
            raise ValueError(f"summary names no parameter {unknown}")
    if summary and {*placeholders(summary.en)} != {*placeholders(summary.zh)}:
        raise ValueError("summary names other arguments in one language than in the other: everybody reads the same")
    labels = {name: Words.of(said, f"labels[{name!r}]") for name, said in {**titled, **read.labels}.items()}
    _refuse_like_labels(declared, labels)
    return Presentation(
        title=Words.of(read.title, "title") if read.title is not None else None,
        labels=labels,
        summary=summary,
        order=tuple(declared),
        decimals=tuple(name for name, schema in declared.items() if _is_decimal(schema)),
    )


def _refuse_like_labels(names: Iterable[str], labels: Mapping[str, Words]) -> None:
    """Raise ValueError where two parameters would be called the same, or one by the name of another."""
    for language in ("en", "zh"):
        taken: dict[str, str] = {}
        for name in names:
            said = getattr(labels[name], language) if name in labels else name
            if (other := taken.setdefault(said.casefold(), name)) != name:
                raise ValueError(
                    f"labels: {other!r} and {name!r} are both called {said!r}: nobody could tell them apart"
                )


def _is_decimal(declared: dict[str, Any]) -> bool:
    """Whether an argument is a decimal, or none."""
    return any(each.get("pattern") == _DECIMAL for each in (declared, *declared.get("anyOf", ())))


def _is_carried(parameter: inspect.Parameter, declared: dict[str, Any]) -> bool:
    """Whether the default comes back from the schema as it was."""
    if "default" not in declared:
        return False
    try:
        back = TypeAdapter(parameter.annotation).validate_json(canonical_json(declared["default"]), strict=True)
    except ValidationError:
        return False
    return bool(back == parameter.default)
