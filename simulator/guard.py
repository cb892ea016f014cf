"""Whom the simulator answers: programs on this machine, and its own page; no other page that a browser shows here.

A browser lets any page send requests to this machine, and under a name of its own that leads here also read the
answers. So the name that was asked for must be this machine's, and whatever comes from a page must come from ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from simulator.settings import is_loopback

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """Refuses what another page asks for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and (why := objection(scope)):
            if scope["type"] == "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1008, "reason": why})
                return
            await PlainTextResponse(f"Refused: {why}.\n", 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def objection(scope: Scope) -> str | None:
    """Why a request is not answered."""
    host = _one(scope["headers"], b"host")
    if host is None or not is_loopback(urlsplit(f"//{host}").hostname or ""):
        return "it was asked for under a name that is not this machine's"
    origin = _one(scope["headers"], b"origin")
    if origin is not None and origin != f"http://{host}":
        return "another page asks for it"
    changes = scope["type"] == "websocket" or scope["method"] not in _HARMLESS
    if changes and _one(scope["headers"], b"sec-fetch-site") in ("cross-site", "same-site"):
        return "another page asks for it"
    return None


def _one(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The value of a header; of one that is given twice, nothing that anything would agree with."""
    found = [value.decode("latin-1") for known, value in headers if known == name]
    return found[0] if len(found) == 1 else "twice" if found else None
