"""How a call of the open API is answered: token, limits and faults first, then the work, then the envelope."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse

from simulator import people
from simulator.errors import Refused, app_too_often, bad_token, invalid_parameter
from simulator.faults import EVERY_KIND, Fault
from simulator.limits import PER_APP
from simulator.state import Simulator

_SLOW_SECONDS = 5.0
_UNDERSTATED = 1024 * 1024


@dataclass(frozen=True)
class Call:
    """One call of the API."""

    simulator: Simulator
    request: Request
    body: bytes

    @property
    def query(self) -> dict[str, str]:
        return dict(self.request.query_params)

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def json(self) -> dict[str, Any]:
        try:
            parsed = json.loads(self.body)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise Refused(9499, "Invalid parameter value: the body must be a JSON object")
        return parsed

    def about(self) -> dict[str, str | None]:
        """What a fault may be matched with."""
        message = self.simulator.messages.get(str(self.request.path_params.get("message_id", "")))
        chat_id = message.chat_id if message else self.request.path_params.get("chat_id")
        receive_kind = self.query.get("receive_id_type")
        if chat_id is None and receive_kind:
            try:
                receive_id = self.json().get("receive_id")
            except Refused:
                receive_id = None
            person = people.find(receive_kind, str(receive_id)) if receive_kind in people.ID_KINDS else None
            chat_id = self.simulator.private_chat(person).chat_id if person else receive_id
        return {"chat_id": chat_id, "message_id": message.message_id if message else None}


Work = Callable[[Call], dict[str, Any] | Response | Awaitable[dict[str, Any] | Response]]


def endpoint(
    place: str, work: Work, *, public: bool = False, kinds: frozenset[str] = EVERY_KIND
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that does this work.

    `place` is what faults call it, `kinds` are those that can happen to it; `public` ones need no token.
    """

    async def answer(request: Request) -> Response:
        simulator: Simulator = request.app.state.simulator
        call = Call(simulator, request, await request.body())
        fault = simulator.faults.take(place, call.about(), kinds) if simulator.faults.all else None
        response = _gateway_fault(simulator, fault)
        if fault is not None and fault.kind in ("refuse", "disconnect"):
            return await hang_up(request)
        if response is None:
            try:
                if not public:
                    _admit(call, place)
                done = work(call)
                data = await done if isinstance(done, Awaitable) else done
                response = data if isinstance(data, Response) else success(data)
            except Refused as refused:
                response = refusal(refused)
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(_SLOW_SECONDS if fault.seconds is None else fault.seconds)
        if fault is not None and fault.kind in ("half", "undeclared"):
            response = _cut(response) if fault.kind == "half" else _undeclared(response)
        if fault is not None and fault.kind == "understated":
            return await _understate(request, response)
        if fault is not None and fault.kind == "lost_answer":
            return await hang_up(request)
        response.headers["x-tt-logid"] = secrets.token_hex(16)
        return response

    return answer


def success(data: dict[str, Any]) -> Response:
    return JSONResponse({"code": 0, "msg": "success", "data": data})


def refusal(refused: Refused) -> Response:
    return JSONResponse({"code": refused.code, "msg": refused.message}, refused.status, refused.headers)


def _cut(response: Response) -> Response:
    """Half of what it says it holds."""
    whole = bytes(response.body)
    return StreamingResponse(_pieces(whole[: len(whole) // 2]), response.status_code, dict(response.headers))


def _undeclared(response: Response) -> Response:
    """All of it, without a word about how much that is."""
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return StreamingResponse(_pieces(bytes(response.body)), response.status_code, headers)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 65536):
        yield data[start : start + 65536]


async def _understate(request: Request, response: Response) -> Response:
    """All of it in chunks, with a length that is another: no server would write that, so it is written by hand."""
    transport, whole = _transport(request), bytes(response.body)
    declared = min(len(whole), _UNDERSTATED)
    kind = response.headers.get("content-type", "application/octet-stream")
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {declared}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    transport.write(head.encode("latin-1"))
    async for piece in _pieces(whole):
        transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    transport.write(b"0\r\n\r\n")
    transport.close()
    await request.receive()  # until it is closed: what is returned goes nowhere
    return Response()


async def hang_up(request: Request) -> Response:
    """Close the connection without a word. In-process, where there is no connection, the caller gets an exception."""
    _transport(request).abort()
    await asyncio.sleep(0)  # the server notices; what is returned now goes nowhere
    return Response()


def _transport(request: Request) -> asyncio.Transport:
    transport: asyncio.Transport | None = request.scope.get("simulator.transport")
    if transport is None:
        raise ConnectionResetError("the simulator closed the connection")
    return transport


def _admit(call: Call, place: str) -> None:
    scheme, _, token = call.request.headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or not token:
        raise Refused(99991661, "Missing access token for authorization.")
    if not call.simulator.is_token(token):
        raise bad_token()
    if call.simulator.settings.limits:
        wait = call.simulator.limits.wait(f"app {place}", PER_APP, call.simulator.clock())
        if wait:
            raise app_too_often(wait)


def _gateway_fault(simulator: Simulator, fault: Fault | None) -> Response | None:
    """The answer of a platform that did not even look at the call."""
    if fault is None:
        return None
    if fault.kind == "429":
        return JSONResponse({"code": 11232, "msg": "create message trigger system rate limit"}, 429)
    if fault.kind == "ratelimit":
        reset = str(max(1, round(1 if fault.seconds is None else fault.seconds)))
        message = "request trigger frequency limit"
        return refusal(Refused(99991400, message, headers={"x-ogw-ratelimit-reset": reset}))
    if fault.kind == "5xx":
        return JSONResponse({"code": 5000, "msg": "internal error"}, fault.code or 500)
    if fault.kind == "html":
        return HTMLResponse("<html><body><h1>502 Bad Gateway</h1></body></html>", 502)
    if fault.kind == "expired_token":
        simulator.expire_tokens()
        return refusal(bad_token())
    if fault.kind == "code":
        return refusal(Refused(fault.code or 230001, "as asked for by a fault"))
    return None


def require(given: dict[str, Any], name: str) -> str:
    """A field that must be there and be a string."""
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise invalid_parameter(f"{name} is required")
    return value
