"""A ready-made tool that makes one HTTP request and knows what is certain of it."""

from __future__ import annotations

import hashlib
import inspect
import string
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
from pydantic_core import to_jsonable_python

from assent.errors import AssentError, InvalidTool
from assent.tools import Tool, ToolContext, ToolOutcome, ToolResult, tool

_CONNECT_WITHIN = 10.0
_UNCERTAIN = frozenset({408, 409})
_NOT_TAKEN = frozenset({307, 308})
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol, httpx.PoolTimeout)
_WITHOUT_BODY = frozenset({"GET", "HEAD", "DELETE"})


class HttpOutcomeUnknown(AssentError):
    """The request was sent, and nothing says for certain whether it took effect."""


def http_tool(
    name: str,
    method: str,
    url: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
    description: str = "",
    timeout: timedelta = timedelta(seconds=30),
    **declared: Any,
) -> Tool:
    """Register a tool that sends one HTTP request with an `Idempotency-Key`, and follows no redirect.

    url: may hold placeholders such as `https://crm/customers/{id}`; each is a parameter.
    parameters: the other parameters, name → annotation, or name → (annotation, default). They become the fields of
        the JSON body, or the query of a GET, HEAD or DELETE. Without them the tool takes `body` (or `query`) whole.
    headers: sent with each request, or a function that returns them; never shown.
    declared: whatever else `@tool` takes.

    Could not connect: failed, it did not run. 408, 409, 5xx, a timeout or a connection lost after sending: unknown.
    Other refusals: failed.
    """
    method = method.upper()
    placeholders = [field for _, field, _, _ in string.Formatter().parse(url) if field is not None]
    if not all(field.isidentifier() for field in placeholders):
        raise InvalidTool(f"tool {name!r}: the placeholders of {url!r} must be plain names")
    part = "query" if method in _WITHOUT_BODY else "body"
    whole = parameters is None
    fields = {part: (dict[str, str] if part == "query" else dict[str, Any], {})} if parameters is None else parameters

    async def send(ctx: ToolContext, **arguments: Any) -> ToolResult:
        target = url.format(**{field: quote(str(arguments.pop(field)), safe="") for field in placeholders})
        carried = arguments[part] if whole else arguments
        sent = {"params": carried} if part == "query" else {"json": to_jsonable_python(carried)}
        own = headers() if callable(headers) else headers or {}
        limits = httpx.Timeout(timeout.total_seconds(), connect=min(_CONNECT_WITHIN, timeout.total_seconds()))
        # A connection of its own: a kept one that the server just closed would make an unknown of a call never made.
        async with httpx.AsyncClient(timeout=limits, follow_redirects=False) as client:
            try:
                answer = await client.request(
                    method, target, headers={**own, "Idempotency-Key": _header(ctx.idempotency_key)}, **sent
                )
            except _NEVER_SENT as error:
                return ToolResult(ToolOutcome.FAILED, f"Could not connect, so it did not run ({type(error).__name__}).")
            except httpx.HTTPError as error:
                raise HttpOutcomeUnknown(f"sent, and no answer came back ({type(error).__name__})") from error
        return _judged(answer)

    known = {**dict.fromkeys(placeholders, str), **fields}
    send.__name__ = name
    send.__doc__ = description or f"{method} {url}"
    send.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [_parameter("ctx", ToolContext), *(_parameter(field, declared) for field, declared in known.items())]
    )
    send.__annotations__ = {field: part.annotation for field, part in send.__signature__.parameters.items()}  # type: ignore[attr-defined]
    # A little longer than the request may take, so that the request's own limit speaks first.
    return tool(name=name, timeout=timeout + timedelta(seconds=5), **declared)(send)


def _parameter(name: str, declared: Any) -> inspect.Parameter:
    annotation, default = declared if isinstance(declared, tuple) else (declared, inspect.Parameter.empty)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _header(key: str) -> str:
    """The key itself where a header can carry it, else its hash."""
    return key if key.isascii() and key.isprintable() else hashlib.sha256(key.encode()).hexdigest()


def _judged(answer: httpx.Response) -> ToolResult:
    content = {"status": answer.status_code, "body": _body(answer)}
    if answer.is_success:
        return ToolResult(ToolOutcome.COMPLETED, content)
    refused = answer.is_client_error and answer.status_code not in _UNCERTAIN
    if refused or answer.status_code in _NOT_TAKEN:
        return ToolResult(ToolOutcome.FAILED, content)
    raise HttpOutcomeUnknown(f"the server answered {answer.status_code}, which does not say whether it took effect")


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
