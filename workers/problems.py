"""Every error of the webhook as problem details (RFC 9457), those of the framework too."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from assent.api.problems import MEDIA_TYPE, Code, Flaw, Problem, problem, problem_of
from assent.errors import AssentError

_log = logging.getLogger(__name__)


_MOST_FLAWS, _MOST_TEXT, _MOST_DETAIL = 20, 300, 2000
_NAMES = ("approval_id", "thread_id", "pending", "how", "why")


class Refusal(HTTPException):
    """A request that is refused, with the problem that says why."""

    def __init__(self, found: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(found.status, found.detail, headers)
        self.problem = found


def refuse(code: Code, detail: str, headers: Mapping[str, str] | None = None) -> Refusal:
    return Refusal(problem(code, detail), headers)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of these statuses."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _DESCRIPTIONS[status], "content": content} for status in statuses}


_DESCRIPTIONS = {
    400: "The body cannot be read.",
    401: "The token is missing or not known.",
    403: "The token does not reach that far.",
    404: "The approval is not known, or not to be seen with this token.",
    408: "The interaction has expired.",
    409: "It conflicts with what is already there; the code says how.",
    413: "The body is too large.",
    422: "What was sent is not valid; the errors say where.",
    429: "A quota is used up; Retry-After says when to ask again.",
    503: "Temporal or the workers did not answer. Sending the same again is harmless.",
}


def answer(found: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    wait = found.retry_after or (1 if found.status == 503 else None)
    more = {"Retry-After": str(wait)} if wait else {}
    body = _bounded(found).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return JSONResponse(body, found.status, {**more, **(headers or {})}, MEDIA_TYPE)


def _bounded(found: Problem) -> Problem:
    """A problem that quotes no more of what was sent than a person reads: it must not be an echo."""
    flaws = tuple(Flaw(path=_cut(flaw.path), problem=_cut(flaw.problem)) for flaw in found.errors[:_MOST_FLAWS])
    named = {name: _cut(value) for name in _NAMES if (value := getattr(found, name)) is not None}
    return found.model_copy(update={"detail": _cut(found.detail, _MOST_DETAIL), "errors": flaws, **named})


def _cut(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def install(app: FastAPI) -> None:
    """Let every error of this app leave as a problem."""
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(AssentError, _known)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(Exception, _fault)


def _refusal(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)
    return answer(error.problem, error.headers)


def _known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AssentError)
    return answer(problem_of(error))


def _not_valid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    flaws = tuple(
        Flaw(path=_cut(_path(each["loc"])), problem=_cut(each["msg"].removeprefix("Value error, ")))
        for each in found[:_MOST_FLAWS]
    )
    rest = [f"and {len(found) - _MOST_FLAWS} more"] if len(found) > _MOST_FLAWS else []
    said = "; ".join([*(f"{flaw.path}: {flaw.problem}" for flaw in flaws), *rest])
    return answer(problem(Code.INVALID_REQUEST, said, errors=flaws))


def _of_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    match error.status_code:
        case 404:
            return answer(problem(Code.NO_SUCH_PATH, "there is nothing at this path"))
        case 405:
            allowed = {"Allow": ", ".join(sorted(_methods(request)))}
            return answer(problem(Code.METHOD_NOT_ALLOWED, f"{request.method} is not possible here"), allowed)
        case _:
            return answer(problem(Code.MALFORMED, "the request cannot be read"), error.headers)


def _fault(request: Request, error: Exception) -> JSONResponse:
    where = "".join(traceback.format_tb(error.__traceback__))  # not what it says: that may quote what was sent
    _log.error("a request failed with %s:\n%s", type(error).__name__, where)
    return answer(problem(Code.FAULT, "the service met an error that it does not know"))


def _methods(request: Request) -> set[str]:
    """All methods of a path; the framework names only those of the first route that has it."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    return {
        method
        for route in routes
        if route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


def _path(place: Sequence[int | str]) -> str:
    """Where in a request something is: `$.arguments.x` in the body, `?wait` in the query."""
    source, *steps = place
    if source != "body":
        return f"{'?' if source == 'query' else ''}{'.'.join(map(str, steps))}"
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
