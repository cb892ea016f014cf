"""The door over HTTP: for agents, with a token that names them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from assent.api.problems import MEDIA_TYPE, Code, Problem, error_of
from assent.api.questions import HttpQuestions
from assent.api.reading import read
from assent.api.runs import HttpRuns
from assent.api.wire import (
    ApprovalList,
    ApprovalView,
    AuditTrail,
    FileList,
    FrozenList,
    GrantList,
    Inbox,
    Me,
    NewCancellation,
    NewDecision,
    NewRuling,
    PolicyView,
    Revoked,
    SettlementView,
    ToolList,
    path_segment,
    person,
)
from assent.client.door import Approval, FrozenReview, ToolDescription
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import Decision, Verdict, VerdictKind
from assent.contracts.files import FileSummary
from assent.contracts.grants import Grant, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.quotas import Quota
from assent.contracts.request import Request
from assent.contracts.ruling import Ruled, RuledKind, Ruling, Settlement
from assent.contracts.signals import Withdrawal
from assent.contracts.state import PendingItem, State
from assent.contracts.values import Surface
from assent.errors import ApprovalNotFound, AssentError, InvalidRequest, QuotaExceeded, Unavailable
from assent.tls import trusted

_log = logging.getLogger(__name__)

_WAIT = 30
"""How long the service holds one question for the outcome, in seconds."""
_ANSWER_WITHIN = 30.0
"""How long one question may take beyond that."""
_PATIENCE = 15.0
"""How long a question is asked again while nobody answers."""
_RULED_WITHIN = 45.0
"""How long a ruling is told again while nobody answers: the service itself waits longer for it than for others."""
_LONGEST_PAUSE = 5.0
_LOCAL = ("127.0.0.1", "localhost", "::1")

_Answer = TypeVar("_Answer", bound=BaseModel)


class HttpDoor:
    """Approvals through the HTTP API. Nothing is sent before something is asked."""

    def __init__(self, url: str, token: str | None, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._http = httpx.AsyncClient(
            base_url=_checked(url),
            headers={"Authorization": f"Bearer {_checked_token(token)}", "Accept": f"application/json, {MEDIA_TYPE}"},
            timeout=httpx.Timeout(_ANSWER_WITHIN, connect=10, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),  # each wait holds one
            transport=transport,
            verify=trusted(),
        )
        self.questions = HttpQuestions(self._insist, self._polled)
        self.runs = HttpRuns(self._insist)
        self._failures = (httpx.TransportError, httpx.DecodingError, TimeoutError)

    may_decide_anything = False

    async def principal(self) -> str:
        return (await self.me()).principal

    async def me(self) -> Me:
        return read(await self._insist("GET", "/v1/me"), Me)

    async def request(self, request: Request, *, in_doubt: bool) -> bool:
        try:
            response = await self._insist("POST", "/v1/approvals", _asked(request))
        except Unavailable as error:
            raise Unavailable(
                f"{error} Whether it was asked is not known: ask again as approval_id={request.approval_id!r}."
            ) from error
        return response.status_code == 201

    async def request_many(self, requests: tuple[Request, ...]) -> None:
        try:
            await self._insist("POST", "/v1/bundles", {"calls": [_asked(request) for request in requests]})
        except Unavailable as error:
            ids = ", ".join(repr(request.approval_id) for request in requests)
            raise Unavailable(f"{error} Which were asked is not known: ask again as {ids}.") from error

    async def outcome(self, approval_id: str) -> Outcome:
        path = f"/v1/approvals/{path_segment(approval_id)}?wait={_WAIT}"
        async for view in self._polled(path, ApprovalView):
            if view.outcome is not None:
                return view.outcome.outcome()
        raise AssertionError("polling never ends")

    async def state(self, approval_id: str) -> State:
        view = read(await self._insist("GET", f"/v1/approvals/{path_segment(approval_id)}"), ApprovalView)
        if view.state is None:
            raise Unavailable("no approvals worker has looked at the approval yet; it is kept until one does")
        return view.state

    async def submit(self, approval_id: str, decision: Decision, *, answer_within: timedelta) -> Verdict:
        if decision.approval_id != approval_id:
            return Verdict(kind=VerdictKind.TAMPERED)
        body = NewDecision(
            decision=decision.kind,
            payload_sha256=decision.payload_sha256,
            actor=decision.actor,
            reason=decision.reason,
            event_id=decision.event_id,
            delivery_id=decision.delivery_id,
            stage=decision.stage,
            delegate_to=decision.delegate_to,
            remember=decision.remember,
            persist_decision=decision.persist_decision,
        )
        told = {**_json(body), "arguments": decision.arguments}  # as they are: what JSON cannot carry is refused
        path = f"/v1/approvals/{path_segment(approval_id)}/decide"
        try:
            response = await self._insist("POST", path, told, patience=answer_within.total_seconds())
        except ApprovalNotFound:
            return Verdict(kind=VerdictKind.MISSING)
        return read(response, Verdict)

    async def withdraw(self, approval_id: str, withdrawal: Withdrawal) -> None:
        body = NewCancellation(reason=withdrawal.reason, actor=withdrawal.actor)
        try:
            await self._insist("POST", f"/v1/approvals/{path_segment(approval_id)}/cancel", _json(body))
        except ApprovalNotFound:
            return

    async def content(self, approval_id: str) -> str:
        response = await self._insist("GET", f"/v1/approvals/{path_segment(approval_id)}/content")
        return response.text

    async def approvals(
        self, *, status: str | None, thread_id: str | None = None, limit: int
    ) -> AsyncIterator[Approval]:
        chosen = f"&status={status}" if status is not None else ""
        chosen += f"&thread_id={quote(thread_id, safe='')}" if thread_id is not None else ""
        response = await self._insist("GET", f"/v1/approvals?limit={limit}{chosen}")
        for approval in read(response, ApprovalList).approvals:
            yield approval

    async def tools(self) -> list[ToolDescription]:
        return [*read(await self._insist("GET", "/v1/tools"), ToolList).tools]

    async def rules(self) -> PolicyView:
        """The operator's policy, and all that the tools say of themselves; for tokens that may read them."""
        return read(await self._insist("GET", "/v1/policy"), PolicyView)

    async def audit(self, approval_id: str) -> list[AuditRecord]:
        return [*read(await self._insist("GET", f"/v1/audit/{path_segment(approval_id)}"), AuditTrail).entries]

    async def frozen(self, *, limit: int) -> AsyncIterator[FrozenReview]:
        for review in read(await self._insist("GET", f"/v1/frozen?limit={limit}"), FrozenList).frozen:
            yield review

    async def settle(self, approval_id: str, ruling: Ruling) -> Ruled:
        body = NewRuling(
            ruling=ruling.kind,
            operator=ruling.operator,
            reason=ruling.reason,
            content=ruling.content,
            payload_hash=ruling.payload_hash,
            ruling_id=ruling.ruling_id,
        )
        path = f"/v1/frozen/{path_segment(approval_id)}/settle"
        try:
            return read(await self._insist("POST", path, _json(body), patience=_RULED_WITHIN), Ruled)
        except _ForbiddenOperator:
            return Ruled(kind=RuledKind.FORBIDDEN)

    async def settled(self, approval_id: str) -> Settlement | None:
        view = read(await self._insist("GET", f"/v1/approvals/{path_segment(approval_id)}"), ApprovalView)
        return view.settlement

    async def settlement(self, approval_id: str) -> Settlement:
        path = f"/v1/approvals/{path_segment(approval_id)}/settlement?wait={_WAIT}"
        async for view in self._polled(path, SettlementView):
            if view.settlement is not None:
                return view.settlement
        raise AssertionError("polling never ends")

    async def inbox(self, actor: Identity, *, thread_id: str | None = None) -> AsyncIterator[PendingItem]:
        chosen = f"&thread_id={quote(thread_id, safe='')}" if thread_id is not None else ""
        path = f"/v1/inbox?actor={person(actor)}&of=approvals{chosen}"
        for state in read(await self._insist("GET", path), Inbox).waiting:
            yield state

    async def result(self, approval_id: str, *, actor: Identity) -> str | None:
        try:
            path = f"/v1/approvals/{path_segment(approval_id)}/result?actor={person(actor)}"
            return (await self._insist("GET", path)).text
        except _NoResult:
            return None

    async def files(self, requester: Identity, limit: int) -> list[FileSummary]:
        path = f"/v1/files?requester={person(requester)}&limit={limit}"
        return [*read(await self._insist("GET", path), FileList).files]

    async def file(self, requester: Identity, file_id: str) -> FileSummary | None:
        path = f"/v1/files/{path_segment(file_id)}?requester={person(requester)}"
        try:
            return read(await self._insist("GET", path), FileSummary)
        except _NoFile:
            return None

    async def grants(self) -> AsyncIterator[Grant]:
        for grant in read(await self._insist("GET", "/v1/grants"), GrantList).grants:
            yield grant

    async def revoke(
        self, grant_id: str, *, actor: Identity, surface: Surface, seen_on: str | None = None
    ) -> RevokedKind:
        path = f"/v1/grants/{path_segment(grant_id)}?actor={person(actor)}"
        try:
            return read(await self._insist("DELETE", path), Revoked).kind
        except _NoGrant as refused:
            return refused.kind

    async def close(self) -> None:
        await self._http.aclose()

    async def _polled(self, path: str, answer: type[_Answer]) -> AsyncIterator[_Answer]:
        """Answer after answer to a question that the service holds for a while; restarts are waited out."""
        pauses = _pauses()
        while True:
            try:
                yield read(await self._send("GET", path, within=_WAIT + _ANSWER_WITHIN), answer)
                pauses = _pauses()
            except QuotaExceeded as error:
                _log.warning("%s is still waited for: %s", path.partition("?")[0], error)
                await asyncio.sleep(error.retry_after)
            except Unavailable as error:
                _log.warning("%s is still waited for: %s", path.partition("?")[0], error)
            await asyncio.sleep(next(pauses))

    async def _insist(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, patience: float = _PATIENCE
    ) -> httpx.Response:
        """Send until there is an answer or patience has run out. Everything here is harmless to repeat."""
        clock = asyncio.get_running_loop().time
        give_up = clock() + patience
        for pause in _pauses():
            try:
                return await self._send(method, path, body, within=max(give_up - clock(), 1.0))
            except Unavailable:
                if clock() + pause >= give_up:
                    raise
            except QuotaExceeded as error:
                if error.quota != Quota.REQUESTS or clock() + error.retry_after >= give_up:
                    raise
                pause = max(pause, error.retry_after)
            await asyncio.sleep(pause)
        raise AssertionError("pauses never end")

    async def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, within: float
    ) -> httpx.Response:
        try:
            async with asyncio.timeout(within):
                response = await self._http.request(method, path, json=body, timeout=within)
        except self._failures as error:
            raise Unavailable(
                f"{self._http.base_url} does not answer ({type(error).__name__}); what was sent before is not lost."
            ) from error
        if not response.is_success:
            raise _refusal(response)
        return response


class _ForbiddenOperator(AssentError):
    """Whoever is said to have ruled is no operator."""


class _NoResult(AssentError):
    """No result waits to be released."""


class _NoFile(AssentError):
    """The requester has no such file."""


class _NoGrant(AssentError):
    """The grant is not there, or not this person's to revoke."""

    def __init__(self, kind: RevokedKind) -> None:
        super().__init__(kind)
        self.kind = kind


def _refusal(response: httpx.Response) -> AssentError:
    """What the service says is wrong; or what it means when something else answered in its place."""
    try:
        found = Problem.model_validate_json(response.content)
        match found.code:
            case Code.FORBIDDEN_OPERATOR:
                return _ForbiddenOperator(found.detail)
            case Code.NO_RESULT:
                return _NoResult(found.detail)
            case Code.FILE_NOT_FOUND:
                return _NoFile(found.detail)
            case Code.GRANT_NOT_FOUND:
                return _NoGrant(RevokedKind.MISSING)
            case Code.FORBIDDEN_GRANT:
                return _NoGrant(RevokedKind.FORBIDDEN)
            case _:
                return error_of(found)
    except ValidationError:
        said = f"{response.url.copy_with(query=None)} answered {response.status_code}"
        if response.status_code >= 500 or response.status_code in (408, 429):
            return Unavailable(f"{said}; what was sent before is not lost.")
        return AssentError(f"{said}, not as Assent does; check the address.")


def _asked(request: Request) -> dict[str, Any]:
    """What is sent of a request: its arguments as they are, so that what JSON cannot carry is refused."""
    ours = {"surface", "asked_by", "arguments", "bundle_id", "is_bound_to_chat"}
    return {**request.model_dump(mode="json", exclude=ours, exclude_none=True), "arguments": request.arguments}


def _json(body: BaseModel) -> dict[str, Any]:
    return body.model_dump(mode="json")


def _pauses() -> itertools.chain[float]:
    """How long to wait before the next try: longer each time, never in step with others."""
    growing = (0.1 * 2**n for n in range(6))
    return itertools.chain((pause * random.uniform(0.5, 1) for pause in growing), itertools.repeat(_LONGEST_PAUSE))


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and parts.hostname in _LOCAL:
        return url
    if parts.scheme == "http":
        raise InvalidRequest(f"{url!r}: the token would travel in the clear; use https")
    raise InvalidRequest(f"{url!r} is not the address of an HTTP API; write https://…")


def _checked_token(token: str | None) -> str:
    if not token:
        raise InvalidRequest("the HTTP API knows agents by their tokens: Assent.connect(url, token=…)")
    if not (token.isascii() and token.isprintable()):
        raise InvalidRequest("the token holds characters that no header can carry")
    return token
