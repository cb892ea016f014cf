"""A ready-made tool that makes one HTTP request and knows what is certain of it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import string
from collections.abc import Awaitable, Callable, Mapping, Set
from datetime import timedelta
from encodings import normalize_encoding
from encodings.aliases import aliases
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from pydantic import StringConstraints
from pydantic_core import to_jsonable_python

from assent import strict_json
from assent.errors import AssentError, InvalidTool
from assent.tls import trusted
from assent.tools import bounded_http
from assent.tools.bounded_http import PLAIN
from assent.tools.definition import ProbeAnswer, ProbeResult, Tool, ToolContext, ToolOutcome, ToolResult, tool

_CONNECT_WITHIN = 10.0
_PROBED_WITHIN = 8.0
"""A little less than a probe has, so that nothing is left behind when its time is over."""
_MOST_PROBED = 1_000_000
"""How many bytes of a probe's answer are read."""
MOST_READ = 8_000_000
"""How many bytes of an answer are read; of a larger one the beginning is the result."""
_MOST_REFUSAL = 100_000
"""How many bytes of a refusal."""
_BEYOND = 2.0
"""Seconds that all of a request may take beyond the time that each of its steps has."""
_IN_FLIGHT = timedelta(minutes=10)
"""How long a request that nobody waits for any more may still take effect, where the tool does not say."""
_ABSENT = frozenset({404, 410})
_KEY = "idempotency_key"
"""What stands for the key in the address of a probe."""
_UNCERTAIN = frozenset({408, 409})
_NOT_TAKEN = frozenset({307, 308})
_NEVER_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.LocalProtocolError,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})
_CLIMBING = frozenset({"", ".", ".."})
"""What in the place of a path's segment would make it another path."""

_CODECS = frozenset({"utf_8", "ascii", "latin_1", "cp1252", "gbk", "gb18030"})
"""What text is read by. Others are never asked for: some raise whatever is said, and some take for ever."""
_CHARSETS = {
    **{name: codec for name, codec in aliases.items() if codec in _CODECS},
    **{codec: codec for codec in _CODECS},
    "gb2312": "gbk",  # what says so is often more, and never anything else
}

_Segment = Annotated[str, StringConstraints(pattern=r"[^.]|\.\.\.")]
"""Any text that is not climbing."""


class HttpOutcomeUnknown(AssentError):
    """The request was sent, and nothing says for certain whether it took effect."""


_Headers = Mapping[str, str] | Callable[[], Mapping[str, str]] | None


def http_tool(
    name: str,
    method: str,
    url: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    headers: _Headers = None,
    description: str = "",
    timeout: timedelta = timedelta(seconds=30),
    probe_url: str | None = None,
    **declared: Any,
) -> Tool:
    """Register a tool that sends one HTTP request with an `Idempotency-Key`, and follows no redirect.

    url: may hold placeholders such as `https://crm/customers/{id}`; each is a parameter.
    parameters: the other parameters, name → annotation, or name → (annotation, default). They become the fields of
        the JSON body, or the query of a GET, HEAD or DELETE. Without them the tool takes `body` (or `query`) whole.
    headers: sent with each request, or a function that returns them; never shown.
    probe_url: where a GET, with the same headers, tells whether the request took effect: any 2xx says that it did, and
        its body is the result; 404 and 410 say that it did not. It may hold the tool's parameters as placeholders, and
        `{idempotency_key}`, the key as it was sent.
    declared: whatever else `@tool` takes. With a probe of either kind, `in_flight` is ten minutes if nothing else is
        said: the server may still be busy with a request that nobody waits for any more.

    Could not connect, or not even make the request: failed, it did not run. 408, 409, 5xx, a
    timeout or a connection lost after sending: unknown. Other refusals: failed.
    """
    method = method.upper()
    part = "query" if method in _WITHOUT_BODY else "body"
    whole = parameters is None
    fields = {part: (dict[str, str] if part == "query" else dict[str, Any], {})} if parameters is None else parameters
    if timeout <= timedelta(0):
        raise InvalidTool(f"tool {name!r}: timeout must be positive")
    try:
        placeholders = _placeholders(url)
        if whole and part in placeholders:
            raise ValueError(f"a placeholder cannot be named {part}, which is what the tool takes besides")
        signature = _signature({**dict.fromkeys(placeholders, _Segment), **fields})
    except ValueError as error:
        raise InvalidTool(f"tool {name!r}, {url!r}: {error}") from None
    if probe_url is not None:
        if declared.get("probe") is not None:
            raise InvalidTool(f"tool {name!r}: give it a probe or a probe_url, not both")
        known = {*placeholders, *(() if whole else fields)}
        try:
            declared["probe"] = _probe(probe_url, known, headers)
        except ValueError as error:
            raise InvalidTool(f"tool {name!r}, {probe_url!r}: {error}") from None
    if declared.get("probe") is not None:
        declared.setdefault("in_flight", _IN_FLIGHT)

    def request(client: httpx.AsyncClient, ctx: ToolContext, arguments: dict[str, Any]) -> httpx.Request:
        values = to_jsonable_python(arguments)
        target = httpx.URL(url.format(**{field: _segment(values.pop(field)) for field in placeholders}))
        own = _made(headers)
        own["Idempotency-Key"] = _header(ctx.idempotency_key)
        carried = values[part] if whole else values
        if part == "query":
            return client.build_request(method, target.copy_merge_params(carried), headers=own)
        return client.build_request(method, target, headers=own, json=carried)

    async def send(ctx: ToolContext, **arguments: Any) -> ToolResult:
        limits = httpx.Timeout(timeout.total_seconds(), connect=min(_CONNECT_WITHIN, timeout.total_seconds()))
        # A connection of its own: a kept one that the server just closed would make an unknown of a call never made.
        async with httpx.AsyncClient(timeout=limits, follow_redirects=False, verify=trusted()) as client:
            try:
                asked = request(client, ctx, arguments)
            except Exception as error:  # a header, a value, or whatever provides them: nothing has left this process
                return _not_sent(error)
            try:
                # Whatever each step may take, all of it takes no longer: a server can send a byte a second for ever.
                async with asyncio.timeout(timeout.total_seconds() + _BEYOND):
                    return await _answered(client, asked)
            except _NEVER_SENT as error:
                return _not_sent(error)
            except (httpx.HTTPError, TimeoutError) as error:
                raise HttpOutcomeUnknown(f"sent, and no whole answer came back ({type(error).__name__})") from error

    send.__name__ = name
    send.__doc__ = description or f"{method} {url}"
    send.__signature__ = signature  # type: ignore[attr-defined]
    send.__annotations__ = {field: known.annotation for field, known in signature.parameters.items()}
    # A little longer than the request may take, so that the request's own limit speaks first.
    return tool(name=name, timeout=timeout + timedelta(seconds=5), **declared)(send)


def _made(headers: _Headers) -> httpx.Headers:
    made = httpx.Headers(headers() if callable(headers) else headers)
    made.update(PLAIN)
    return made


def _probe(url: str, known: Set[str], headers: _Headers) -> Callable[..., Awaitable[ProbeResult | ProbeAnswer]]:
    """A probe that asks at *url* what became of a request."""
    placeholders = _placeholders(url)
    if unknown := sorted({*placeholders} - known - {_KEY}):
        raise ValueError(f"the placeholder {unknown[0]} is not a parameter of the tool")
    if _KEY in known and _KEY in placeholders:
        raise ValueError(f"a parameter named {_KEY} cannot be told from the key")

    async def ask(ctx: ToolContext, **arguments: Any) -> ProbeResult | ProbeAnswer:
        values = {**to_jsonable_python(arguments), _KEY: _header(ctx.idempotency_key)}
        try:
            target = httpx.URL(url.format(**{field: _segment(values[field]) for field in placeholders}))
            async with asyncio.timeout(_PROBED_WITHIN):
                return await _found(target, _made(headers))
        except Exception as error:  # only its kind: its words may hold a header
            raise HttpOutcomeUnknown(f"the probe was not answered ({type(error).__name__})") from None

    return ask


async def _found(target: httpx.URL, headers: httpx.Headers) -> ProbeResult | ProbeAnswer:
    async with (
        httpx.AsyncClient(timeout=_PROBED_WITHIN, follow_redirects=False, verify=trusted()) as client,
        client.stream("GET", target, headers=headers) as answer,
    ):
        if answer.status_code in _ABSENT:
            return ProbeAnswer.NOT_EXECUTED
        if not answer.is_success:
            return ProbeAnswer.UNKNOWN
        found = await bounded_http.read(answer, _MOST_PROBED)
        return ProbeResult(ProbeAnswer.EXECUTED, _value(found.data, answer))


def _placeholders(url: str) -> list[str]:
    found = dict.fromkeys(field for _, field, _, _ in string.Formatter().parse(url) if field is not None)
    if not all(field.isidentifier() for field in found):
        raise ValueError("the placeholders must be plain names")
    return list(found)


def _signature(fields: Mapping[str, Any]) -> inspect.Signature:
    return inspect.Signature([_parameter("ctx", ToolContext), *(_parameter(*field) for field in fields.items())])


def _parameter(name: str, declared: Any) -> inspect.Parameter:
    annotation, default = declared if isinstance(declared, tuple) else (declared, inspect.Parameter.empty)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _segment(value: Any) -> str:
    """A value in the place of a placeholder, as it was shown."""
    text = value if isinstance(value, str) else json.dumps(value)
    if text in _CLIMBING:
        raise ValueError("the placeholder would be another path")
    return quote(text, safe="")


def _not_sent(error: Exception) -> ToolResult:
    # Only the kind of the error: its words may hold a header.
    return ToolResult(ToolOutcome.FAILED, f"Nothing was sent, so it did not run ({type(error).__name__}).")


def _header(key: str) -> str:
    """The key itself where a header can carry it, else its hash."""
    return key if key.isascii() and key.isprintable() else hashlib.sha256(key.encode()).hexdigest()


async def _answered(client: httpx.AsyncClient, asked: httpx.Request) -> ToolResult:
    """Send it, and judge by the status; the body is read only where it says something, and no further than it may."""
    answer = await client.send(asked, stream=True)
    try:
        status = answer.status_code
        refused = answer.is_client_error and status not in _UNCERTAIN
        if answer.is_success:
            return ToolResult(ToolOutcome.COMPLETED, {"status": status, **await _body(answer, MOST_READ)})
        if refused or status in _NOT_TAKEN:
            return ToolResult(ToolOutcome.FAILED, {"status": status, **await _body(answer, _MOST_REFUSAL)})
        raise HttpOutcomeUnknown(f"the server answered {status}, which does not say whether it took effect")
    finally:
        await answer.aclose()


async def _body(answer: httpx.Response, most: int) -> dict[str, Any]:
    """What was answered, as JSON or as text; and why it is not all of it, where it is not."""
    found = await bounded_http.read(answer, most)
    problem = {} if found.problem is None else {"problem": f"of the body: {found.problem}"}
    return {"body": _value(found.data, answer) if found.data or not problem else None, **problem}


def _value(data: bytes, answer: httpx.Response) -> Any:
    text = data.decode(_charset(answer), "replace")
    try:
        strict_json.measure(text)
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _charset(answer: httpx.Response) -> str:
    """The codec of an answer. What names it is the server's: it is looked for in a table, and nowhere else."""
    named = answer.charset_encoding or ""
    return _CHARSETS.get(normalize_encoding(named).lower(), "utf_8") if named.isascii() else "utf_8"
