"""Clicks on the webhook, many at once, beside endpoints that do less: each server is a process of its own.

Every click is sealed and signed as the platform does it, before anything is measured, and is the only one on its own
pending approval: the answer must be the toast of an accepted one, or, where the machine is too busy to know that in
time, of a received one, and those are counted. What was consented to then waits for a tool worker, of which none
runs: the calls' own cost is the other tables' matter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
from temporalio.client import Client

import simulator
from assent import Assent, Identity
from benchmarks.bare import TOAST
from benchmarks.flows import ARGUMENTS, pay
from benchmarks.measure import Servers
from benchmarks.processes import FEISHU, PLATFORM
from benchmarks.workflows import QUEUE, TTL, BareWorkflow
from cards import Wording
from cards.toasts import Toast
from simulator.delivery import envelope
from tests.support.feishu_service import buttons
from tests.support.waiting import until

CLICKERS = 50
_KINDS = {"open_id": "ou", "union_id": "on", "user_id": "u"}
_ROLES = ("requester", "approver", "outsider", "operator")
REQUESTERS = [Identity.model_validate({kind: f"{start}_{who}"}) for kind, start in _KINDS.items() for who in _ROLES]
"""As many private chats as there are, so that what one chat takes in a second does not decide how fast they fill."""
_AT_ONCE = 25
"""How many approvals are asked for at a time while the next round is prepared."""


@dataclass(frozen=True)
class Post:
    """One request, ready to be written to a connection, and the answer it must get."""

    data: bytes
    answer: Any
    late_answer: Any = None
    """What it may get instead where the full answer takes too long."""


@dataclass(frozen=True)
class Burst:
    """How one target did in one round."""

    rate: float
    """Answers per second."""
    milliseconds: list[float]
    late: int
    """How many got the answer of those who cannot wait longer."""
    cpu: dict[str, float]
    """Milliseconds of processor time per request, by process."""


Rounds = list[dict[str, Burst]]


class Target(ABC):
    """Something that takes callbacks."""

    def __init__(self, name: str, url: str, count: int) -> None:
        self.name = name
        self.url = url
        self.count = count

    @abstractmethod
    async def posts(self, count: int) -> list[Post]:
        """So many requests, with everything behind them prepared."""


class Bare(Target):
    """Reads the body of a click and answers."""

    async def posts(self, count: int) -> list[Post]:
        return [Post(_sealed(self.url, _event(_click_on("om_nothing", {}, "requester"))), TOAST) for _ in range(count)]


class Durable(Target):
    """Signals a bare workflow and asks it what became of that."""

    def __init__(self, name: str, url: str, count: int, client: Client) -> None:
        super().__init__(name, url, count)
        self._client = client

    async def posts(self, count: int) -> list[Post]:
        flows = [await self._waiting() for _ in range(count)]
        return [Post(_request(self.url, flow.encode(), {}), TOAST) for flow in flows]

    async def _waiting(self) -> str:
        flow = f"bench/{secrets.token_hex(8)}"
        handle = await self._client.start_workflow(BareWorkflow.run, flow, id=flow, task_queue=QUEUE)
        await handle.query("decided", result_type=bool)  # answered by a worker that has run its first task
        return flow


class SetAside(Target):
    """The webhook with an event that is none of ours: proved, opened, read, and nothing signalled."""

    async def posts(self, count: int) -> list[Post]:
        event = _click_on("om_nothing", {}, "requester")
        return [Post(_sealed(self.url, _event(event, "im.message.receive_v1")), {}) for _ in range(count)]


class Clicks(Target):
    """The webhook with clicks that are accepted."""

    def __init__(self, name: str, url: str, count: int, gate: Assent, chat: str) -> None:
        super().__init__(name, url, count)
        self._gate = gate
        self._chat = chat
        wording = Wording.load(None)
        self._accepted = Toast.of("success", wording("toast.approved")).answer()
        self._received = Toast.of("info", wording("toast.received")).answer()

    async def posts(self, count: int) -> list[Post]:
        requesters = cycle(REQUESTERS)
        asked: set[str] = set()
        while len(asked) < count:
            some = [self._ask(next(requesters)) for _ in range(min(_AT_ONCE, count - len(asked)))]
            asked.update(await asyncio.gather(*some))
        async with httpx.AsyncClient(base_url=self._chat, timeout=30, trust_env=False) as http:
            shown = await until(lambda: _shown(http, asked), seconds=60)
        return [Post(_sealed(self.url, _event(click)), self._accepted, self._received) for click in shown]

    async def _ask(self, requester: Identity) -> str:
        return (await self._gate.request(pay.name, ARGUMENTS, requester=requester, ttl=TTL)).id


async def _shown(http: httpx.AsyncClient, asked: set[str]) -> list[dict[str, Any]] | None:
    """A click on the card of each of these approvals, once all the cards are there."""
    await asyncio.sleep(0.3)  # the list is long, and whoever makes it is needed for something else
    answer = await http.get("/api/messages", params={"limit": len(asked)})
    clicks: list[dict[str, Any]] = []
    for message in answer.raise_for_status().json()["messages"]:
        approve = buttons(message["content"]).get("approve")
        if approve and (value := approve["behaviors"][0]["value"])["approval_id"] in asked:
            clicks.append(_click_on(message["message_id"], value, message["chat_id"].removeprefix("oc_p2p_")))
    return clicks if len(clicks) == len(asked) else None


def _click_on(message_id: str, value: dict[str, Any], role: str) -> dict[str, Any]:
    """What the platform tells of a click in someone's private chat."""
    person = {kind: f"{start}_{role}" for kind, start in _KINDS.items()}
    return {
        "operator": {"tenant_key": FEISHU["TENANT_KEY"], **person},
        "token": f"c-{secrets.token_hex(20)}",
        "action": {"value": value, "tag": "button", "timezone": "Asia/Shanghai"},
        "host": "im_message",
        "context": {"open_message_id": message_id, "open_chat_id": f"oc_p2p_{role}"},
    }


def _event(event: dict[str, Any], kind: str = "card.action.trigger") -> dict[str, Any]:
    header = {
        "event_id": secrets.token_hex(16),
        "token": FEISHU["VERIFICATION_TOKEN"],
        "create_time": str(int(time.time() * 1_000_000)),
        "event_type": kind,
        "tenant_key": FEISHU["TENANT_KEY"],
        "app_id": FEISHU["APP_ID"],
    }
    return {"schema": "2.0", "header": header, "event": event}


_PLATFORM = simulator.Settings.from_environment(PLATFORM)


def _sealed(url: str, event: dict[str, Any]) -> bytes:
    """Encrypted and signed by the simulated platform's own code."""
    sent = envelope(_PLATFORM, event, time.time())
    return _request(url, sent.body.encode(), sent.headers)


def _request(url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    address = urlsplit(url)
    said = {"host": address.netloc, "content-length": str(len(body)), **headers}
    lines = [f"POST {address.path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# Clicking


async def burst(target: Target, count: int, processes: Servers) -> Burst:
    """Prepare so many requests, then let all clickers send them, each one after the other."""
    posts = await target.posts(count)
    address = urlsplit(target.url)
    lines = [await asyncio.open_connection(address.hostname, address.port) for _ in range(CLICKERS)]
    left, answers = iter(posts), list[tuple[float, bool]]()
    gc.collect()
    gc.disable()  # a pause of the clickers' own process is nobody's answer
    try:
        before, began = _cpu(processes), time.monotonic()
        await asyncio.gather(*(_clicker(reader, writer, left, answers) for reader, writer in lines))
        seconds = time.monotonic() - began
    finally:
        gc.enable()
    spent = {name: 1000 * (used - before[name]) / count for name, used in _cpu(processes).items()}
    for _, writer in lines:
        writer.close()
    return Burst(count / seconds, [waited for waited, _ in answers], sum(late for _, late in answers), spent)


async def _clicker(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: Iterator[Post], answers: list[tuple[float, bool]]
) -> None:
    for post in left:
        began = time.monotonic()
        writer.write(post.data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        body = await reader.readexactly(length)
        waited, answer = 1000 * (time.monotonic() - began), json.loads(body)
        assert head.startswith("http/1.1 200"), head
        assert answer in (post.answer, post.late_answer), answer
        answers.append((waited, answer != post.answer))


def _cpu(processes: Servers) -> dict[str, float]:
    return {name: _seconds(process) for name, process in processes.items()}


def _seconds(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


async def bursts(targets: Sequence[Target], rounds: int, enough: float, processes: Servers) -> Rounds:
    """All targets in turn, in rounds; no further one is begun that would not end within *enough* seconds."""
    for target in targets:
        await burst(target, CLICKERS, processes)
    done: Rounds = []
    began = time.monotonic()
    while len(done) < rounds and (time.monotonic() - began) * (len(done) + 1) <= enough * max(len(done), 1):
        order = [*targets[len(done) :], *targets[: len(done)]]
        done.append({target.name: await burst(target, target.count, processes) for target in order})
    return done
