"""The registry: what a function must say to become a tool, and what it is given when it runs."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import assent
from assent import Approvers, Identity, InvalidTool, Registry, Tool, ToolContext, tool, types
from assent.contracts.presentation import Words
from assent.tools.definition import sentences
from assent.types import Risk

NAN = float("nan")
CONTEXT = ToolContext(approval_id="a", requester=Identity(open_id="ou_me"), idempotency_key="k")


def registered(function: Callable[..., Any], **declared: Any) -> Tool:
    """The function as a tool, in a registry of its own."""
    return tool(registry=Registry(), **declared)(function)


# Registering


def test_bare_decorator_registers_under_the_functions_name_with_careful_defaults() -> None:
    from assent.tools.definition import registry

    @tool
    def bare_in_test_tools(text: str) -> str:
        """Say it."""
        return text

    manifest = bare_in_test_tools.manifest
    assert registry.tools.pop("bare_in_test_tools") is bare_in_test_tools
    assert (manifest.name, manifest.description, manifest.risk) == ("bare_in_test_tools", "Say it.", "medium")
    assert (manifest.approvers.kind, manifest.retry_safe, manifest.has_probe) == ("requester", False, False)
    assert (manifest.queue, manifest.sensitive, manifest.max_ttl) == ("assent-tools", (), None)
    assert manifest.timeout > timedelta(0)


def test_options_are_what_the_manifest_says() -> None:
    def pay(amount: Decimal, secret: str) -> None: ...

    boss = Identity(open_id="ou_boss")
    manifest = registered(
        pay,
        name="bank.pay",
        queue="bank",
        risk="high",
        approvers=[boss],
        retry_safe=True,
        attempts=5,
        timeout=timedelta(seconds=7),
        probe=lambda ctx, amount, secret: "unknown",
        sensitive=["secret"],
        max_ttl=timedelta(hours=1),
    ).manifest
    assert (manifest.name, manifest.queue, manifest.risk) == ("bank.pay", "bank", Risk.HIGH)
    assert manifest.approvers == Approvers(kind=Approvers.Kind.PEOPLE, people=(boss,))
    assert (manifest.retry_safe, manifest.attempts, manifest.timeout) == (True, 5, timedelta(seconds=7))
    assert (manifest.has_probe, manifest.sensitive, manifest.max_ttl) == (True, ("secret",), timedelta(hours=1))


def test_tool_stays_callable_as_a_function() -> None:
    def add(a: int, b: int = 2) -> int:
        return a + b

    added = registered(add)
    assert (added(1), added(1, b=5), added(a="x", b="y")) == (3, 6, "xy")


async def test_async_tool_stays_awaitable() -> None:
    async def echo(text: str) -> str:
        return text

    assert await registered(echo)("x") == "x"


def test_second_tool_of_a_name_is_refused_and_the_first_stays() -> None:
    def one() -> None: ...

    def two() -> None: ...

    own = Registry()
    first = tool(registry=own)(one)
    with pytest.raises(InvalidTool, match="'one' is registered twice"):
        tool(registry=own, name="one")(two)
    assert own.tools == {"one": first}


def unannotated(a) -> None: ...  # type: ignore[no-untyped-def]
def variable(*args: int) -> None: ...
def keywords(**kwargs: int) -> None: ...
def positional(a: int, /) -> None: ...
def unresolved(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def arbitrary(a: Registry) -> None: ...
def uncallable(a: Callable[[], int]) -> None: ...
def ill_patterned(a: Annotated[str, Field(pattern="(")]) -> None: ...
def ill_described(a: Annotated[str, Field(json_schema_extra={"minLength": "x"})]) -> None: ...


def two_contexts(a: ToolContext, b: ToolContext) -> None: ...
def variable_context(*ctx: ToolContext) -> None: ...
def keyword_context(**ctx: ToolContext) -> None: ...
def positional_context(ctx: ToolContext, /) -> None: ...
def optional_context(ctx: ToolContext | None = None) -> None: ...
def annotated_context(ctx: Annotated[ToolContext, "mine"]) -> None: ...
def listed_contexts(many: list[ToolContext]) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter"),
    [
        (unannotated, "a"),
        (variable, "args"),
        (keywords, "kwargs"),
        (positional, "a"),
        (unresolved, "Nowhere"),
        (arbitrary, "Registry"),
        (uncallable, "Callable"),
        (ill_patterned, "regex"),
        (ill_described, "minLength"),
        (lambda x: x, "x"),
    ],
)
def test_signature_that_says_too_little_is_refused_naming_tool_and_parameter(
    function: Callable[..., Any], parameter: str
) -> None:
    with pytest.raises(InvalidTool) as refused:
        registered(function, name="the.tool")
    assert "'the.tool'" in str(refused.value)
    assert parameter in str(refused.value)


@pytest.mark.parametrize(
    "function",
    [
        two_contexts,
        variable_context,
        keyword_context,
        positional_context,
        optional_context,
        annotated_context,
        listed_contexts,
    ],
)
def test_context_that_could_not_be_passed_or_that_an_agent_could_forge_is_refused(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(InvalidTool, match=r"ToolContext|by name"):
        registered(function)


class Produced(BaseModel):
    items: list[int] = Field(default_factory=list)


class Unfounded(BaseModel):
    count: int = None  # type: ignore[assignment]


class Pair(NamedTuple):
    first: int
    second: Any = object()


class Notional(BaseModel):
    share: float = NAN


@dataclass
class Held:
    thing: Any = object()  # noqa: RUF009


def of_object(a: Any = object()) -> None: ...  # noqa: B008
def of_lambda(a: Any = lambda: 1) -> None: ...
def of_nan(a: float = NAN) -> None: ...
def of_nan_or_none(a: float | None = NAN) -> None: ...
def of_bytes(a: bytes = b"\xff") -> None: ...
def of_wrong_type(a: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def of_coerced_type(a: bool = 1) -> None: ...  # type: ignore[assignment]
def of_ellipsis(a: int = ...) -> None: ...
def of_field(a: int = Field(gt=0)) -> None: ...
def of_large_integer(a: int = 2**60) -> None: ...
def of_lone_surrogate(a: str = "\ud800") -> None: ...
def of_decimal_as_any(a: Any = Decimal("1.0")) -> None: ...
def of_naive_time(a: datetime = datetime(2026, 1, 1)) -> None: ...
def in_factory(a: Produced) -> None: ...
def in_list_of_factories(a: list[Produced]) -> None: ...
def in_dict_of_factories(a: dict[str, Produced]) -> None: ...
def in_nested_wrong_type(a: Unfounded) -> None: ...
def in_nested_nan(a: Notional) -> None: ...
def in_tuple(a: Pair) -> None: ...
def in_dataclass(a: Held) -> None: ...


@pytest.mark.parametrize(
    "function",
    [value for name, value in list(globals().items()) if name.startswith(("of_", "in_"))],
    ids=lambda function: function.__name__,
)
def test_default_that_json_schema_cannot_carry_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidTool) as refused:
        registered(function)
    assert repr(function.__name__) in str(refused.value)
    assert "default" in str(refused.value)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int


def test_model_that_allows_extra_fields_is_refused() -> None:
    def takes(a: list[Open]) -> None: ...

    with pytest.raises(InvalidTool, match="extra fields"):
        registered(takes)


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 257}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"queue": ""}, "queue"),
        ({"risk": "extreme"}, "extreme"),
        ({"risk": None}, "None"),
        ({"approvers": []}, r"approvers=\[\]"),
        ({"approvers": "everybody"}, "everybody"),
        ({"approvers": "people"}, "people"),
        ({"approvers": ""}, "approvers"),
        ({"approvers": ["ou_boss"]}, "people"),
        ({"approvers": None}, "'takes'"),
        ({"sensitive": ["b"]}, "'b'"),
        ({"sensitive": ["ctx"]}, "'ctx'"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"timeout": timedelta(seconds=-1)}, "timeout"),
        ({"timeout": 60}, "timedelta"),
        ({"timeout": timedelta.max}, "365 days"),
        ({"timeout": timedelta(hours=1), "attempts": 10**9}, "365 days"),
        ({"max_ttl": timedelta(0)}, "max_ttl"),
        ({"max_ttl": timedelta(days=-1)}, "max_ttl"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": -1}, "attempts"),
    ],
)
def test_declaration_that_makes_no_sense_is_refused(declared: dict[str, Any], named: str) -> None:
    def takes(a: int, ctx: ToolContext) -> None: ...

    own = Registry()
    with pytest.raises(InvalidTool, match=named):
        tool(registry=own, **declared)(takes)
    assert own.tools == {}


def test_callable_without_a_name_needs_one() -> None:
    with pytest.raises(InvalidTool, match="name"):
        registered(functools.partial(print))


def test_refused_tool_is_a_value_error_for_those_who_do_not_know_us() -> None:
    with pytest.raises(ValueError, match="no annotation"):
        registered(unannotated)


# What it is given


async def test_context_is_passed_under_any_name_and_is_no_argument() -> None:
    async def first(whoever: ToolContext, a: int) -> tuple[str, int]:
        return whoever.idempotency_key, a

    def last(a: int, *, json: ToolContext) -> tuple[str, int]:
        return json.idempotency_key, a

    for function in (first, last):
        own = registered(function)
        assert list(own.manifest.parameters["properties"]) == ["a"]
        returned = own.bound(own.parse(b'{"a":1}'), CONTEXT)()
        assert (await returned if function is first else returned) == ("k", 1)
    with pytest.raises(ValidationError, match="whoever"):
        registered(first).parse(b'{"a":1,"whoever":{}}')


def awkward(
    self: int, cls: int, p1: int, p0: int, schema: int, copy: int, json: int, model_config: int, model_fields: int,
    args: int, kwargs: int, function: int, func: int, arguments: int, context: int, _hidden: int, validate: int = 7,
) -> dict[str, int]:  # fmt: skip
    return dict(locals())


def test_no_name_of_a_parameter_collides_with_ours() -> None:
    own = registered(awkward)
    names = [*awkward.__annotations__][:-1]
    given = {name: number for number, name in enumerate(names)}
    assert list(own.manifest.parameters["properties"]) == names
    assert own.parse(json.dumps(given).encode()) == given
    assert own.bound(given, CONTEXT)() == given
    assert own(**given) == given
    del given["validate"]
    assert own.parse(json.dumps(given).encode())["validate"] == 7


# The package


def test_public_names_are_pinned() -> None:
    assert sorted(assent.__all__) == [
        "ApprovalConflict",
        "ApprovalHandle",
        "ApprovalInterrupted",
        "ApprovalNotFound",
        "Approvers",
        "AskInterrupted",
        "Assent",
        "AssentError",
        "ConversationBusy",
        "Decision",
        "Identity",
        "InvalidRequest",
        "InvalidTool",
        "NotAllowed",
        "Outcome",
        "Permission",
        "ProbeAnswer",
        "ProbeResult",
        "Question",
        "QuestionConflict",
        "QuestionHandle",
        "QuestionNotFound",
        "QuestionOutcome",
        "QuotaExceeded",
        "Registry",
        "SharedFile",
        "Status",
        "SyncAssent",
        "Tool",
        "ToolContext",
        "ToolOutcome",
        "ToolResult",
        "Unavailable",
        "http_tool",
        "program_tool",
        "tool",
    ]  # fmt: skip
    assert sorted(types.__all__) == [
        "Answer",
        "AnswerVerdict",
        "Approval",
        "AskedQuestion",
        "AuditEntry",
        "AuditEvent",
        "AuditRecord",
        "DecisionKind",
        "Edit",
        "Execution",
        "FileSummary",
        "Flaw",
        "FlawKind",
        "FrozenReview",
        "Grant",
        "Judged",
        "JudgedAnswer",
        "LedgerNeeded",
        "LedgerReader",
        "MissingExtra",
        "NotFrozen",
        "Option",
        "Override",
        "PendingItem",
        "PendingType",
        "Phase",
        "Progress",
        "QuestionInterrupted",
        "QuestionKind",
        "QuestionState",
        "QuestionStatus",
        "Remember",
        "ResultPreview",
        "ResultReview",
        "RevokedKind",
        "Risk",
        "Rule",
        "Ruled",
        "RuledKind",
        "Ruling",
        "RulingKind",
        "RulingRefused",
        "Settlement",
        "Stage",
        "State",
        "Surface",
        "SyncApproval",
        "SyncQuestion",
        "ToolDescription",
        "Unhashable",
        "Verdict",
        "VerdictKind",
        "WhenPending",
    ]  # fmt: skip
    assert all(getattr(assent, name) is not None for name in assent.__all__)
    assert all(getattr(types, name) is not None for name in types.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        assent.no_such_name  # noqa: B018


def test_importing_assent_brings_neither_a_door_nor_a_database() -> None:
    heavy = (
        "httpx",
        "temporalio",
        "click",
        "rich",
        "jsonschema_rs",
        "sqlalchemy",
        "asyncpg",
        "alembic",
        "pydantic_settings",
        "ledger",
        "workers",
    )
    script = f"import sys, assent; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"


# How calls are read


def test_a_tool_says_how_its_calls_are_read_in_each_language() -> None:
    @tool(
        title={"en": "Refund an order", "zh": "退款"},
        labels={"order": {"en": "Order", "zh-CN": "订单"}},
        summary={"en": "Refund {amount} {currency} for order {order}", "zh": "订单 {order} 退款 {amount} {currency}"},
        registry=Registry(),
    )
    def refund(
        order: str, amount: Annotated[Decimal, Field(title="Amount")], currency: str = "EUR", note: str | None = None
    ) -> None: ...

    read = refund.manifest.presentation
    assert read.title == Words(en="Refund an order", zh="退款")
    assert read.labels == {"amount": Words(en="Amount", zh="Amount"), "order": Words(en="Order", zh="订单")}
    assert read.order == ("order", "amount", "currency", "note")
    assert read.decimals == ("amount",)

    @tool(title="Refund an order", registry=Registry())
    def plain(order: str) -> None: ...

    assert plain.manifest.presentation.title == Words(en="Refund an order", zh="Refund an order")
    assert plain.manifest.presentation.labels == {}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"summary": "Refund {amont}"}, "summary names no parameter"),
        ({"summary": "{order!r}"}, "not the name of an argument"),
        ({"summary": {"de": "Erstatten"}}, "for each of en and zh"),
        ({"summary": {"en": "Refund {order}", "zh": "退款"}}, "summary names other arguments"),
        ({"labels": {"order": "Amount"}}, "are both called 'amount'"),
        ({"labels": {"order": {"en": "A", "zh": "甲"}, "amount": {"en": "B", "zh": "甲"}}}, "are both called '甲'"),
        ({"title": "two\nlines"}, "one line"),
        ({"title": ""}, "one line"),
        ({"labels": {"amont": "Amount"}}, "labels names no parameter"),
    ],
)
def test_what_cannot_be_read_is_refused_when_the_tool_is_registered(said: dict[str, Any], complaint: str) -> None:
    def refund(order: str, amount: int) -> None: ...

    with pytest.raises(InvalidTool, match=complaint):
        tool(registry=Registry(), **said)(refund)


# Warnings


def test_warnings_are_sentences_or_a_function_of_the_arguments() -> None:
    def pay(amount: int, to: str = "me") -> None: ...

    said = registered(pay, warnings="It costs\nmoney.").manifest
    assert (said.warnings, said.warns) == (("It costs money.",), False)
    for function in (
        lambda amount: f"{amount}!",
        lambda to, amount: [f"{amount}!"],
        lambda **arguments: f"{arguments['amount']}!",
        lambda arguments: (f"{arguments['amount']}!",),
    ):
        made = registered(pay, warnings=function)
        assert (made.manifest.warnings, made.manifest.warns) == ((), True)
        assert sentences(made.warning({"amount": 7, "to": "you"})()) == ("7!",)


@pytest.mark.parametrize(
    ("said", "why"),
    [(["x" * 501], "500 characters"), (["x"] * 21, "at most 20"), ([1], "not a int"), (lambda a, b: "", "takes a, b")],
)
def test_warnings_that_cannot_be_shown_are_refused(said: Any, why: str) -> None:
    with pytest.raises(InvalidTool, match=why):
        registered(lambda: None, name="x", warnings=said)
