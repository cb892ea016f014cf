"""Each way of settling from each surface: two operators at once, whoever else speaks, whatever Temporal forgot.

What people read on each surface is tested beside it; here every surface is asked for the same.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.feishu.verifier import Verifier
from assent import ApprovalHandle, Identity, names
from assent.types import Ruled, RulingRefused
from cards import Wording
from ledger import MessageKind
from tests.conftest import OPERATOR
from tests.support import servers
from tests.support.command_line import CommandLine
from tests.support.environment import worker_environment
from tests.support.feishu_service import REQUESTER, FeishuService, buttons, open_feishu_service
from tests.support.temporal_operations import purge
from tests.support.tools import marks
from tests.support.waiting import until
from tests.support.web import APP_ID, TENANT, Web, click_event, sealed, signed
from workers import longconn
from workers.callbacks import Callbacks

WORDING = Wording.load()
ANOTHER = Identity(open_id="ou_approver")
"""The second operator."""
REASON = "I looked."


class Word(NamedTuple):
    """What somebody says of a frozen call."""

    kind: str
    operator: Identity
    payload_hash: str | None = None
    content: Any = None


@dataclass
class Town:
    """A service with all its surfaces."""

    feishu: FeishuService
    web: Web
    connection: longconn.Answering
    command: CommandLine
    plain: Client
    """A client of Temporal's as anyone has it: it sends the JSON that was typed, and knows nothing of ours."""


@dataclass
class Case:
    """A call that may have happened, and the operators' card of its review."""

    handle: ApprovalHandle
    review: str
    payload_sha256: str
    card: Any


Say = Callable[[Town, Case, Word], Awaitable[str]]
"""Says it on one surface, and tells what the surface answered, in the same words for all."""


@pytest.fixture(scope="module")
async def town(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Town]:
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("town")
    async with AsyncExitStack() as stack:
        feishu = await open_feishu_service(stack, client, directory, operators=(OPERATOR, ANOTHER))
        verifier = Verifier(app_id=APP_ID, tenant_key=TENANT, encrypt_key=None, verification_token="unused")
        environment = worker_environment(TEMPORAL_ADDRESS=temporal_address, TEMPORAL_NAMESPACE=client.namespace)
        yield Town(
            feishu=feishu,
            web=Web(feishu.service, directory),
            connection=partial(longconn.answer, verifier, Callbacks(feishu.service.gate, WORDING)),
            command=CommandLine(feishu.service, environment),
            plain=await Client.connect(temporal_address, namespace=client.namespace),
        )


async def frozen(town: Town, path: Path) -> Case:
    """Frozen, shown to the operators, and forgotten by Temporal but for its review."""
    feishu = town.feishu
    handle = await feishu.ask(path.parent, "once_more", arguments={"path": str(path)})
    outcome = await feishu.decided(handle)
    assert outcome.status == "frozen"

    async def shown() -> Any:
        return next(iter(await feishu.chat.cards(handle.id, MessageKind.REVIEW)), None)

    card = await until(shown)
    await purge(feishu.service, handle.id)
    return Case(handle, names.review_workflow(str(outcome.idempotency_key)), str(outcome.payload_sha256), card)


# The surfaces


async def by_client(_: Town, case: Case, word: Word) -> str:
    return await _by_handle(case.handle, word)


async def by_remote_client(town: Town, case: Case, word: Word) -> str:
    async with town.web.gate("operator") as gate:
        return await _by_handle(gate.approval(case.handle.id), word)


async def _by_handle(handle: ApprovalHandle, word: Word) -> str:
    try:
        ruled: Ruled = await handle.settle(reason=REASON, **word._asdict())
    except RulingRefused as refused:
        return {"WrongHash": "wrong_hash"}[refused.code]
    return ruled.kind


async def by_http(town: Town, case: Case, word: Word) -> str:
    said = {
        "ruling": word.kind,
        "operator": {"open_id": word.operator.open_id},
        "reason": REASON,
        "payload_hash": word.payload_hash,
        "content": word.content,
    }
    async with town.web.http("operator") as http:
        answer = await http.post(f"/v1/frozen/{case.handle.id}/settle", json=said)
    found = answer.json()
    if answer.status_code == 403:
        return {"forbidden_operator": "forbidden"}[found["code"]]
    return str(found["why"] if answer.status_code == 409 else found["kind"])


async def by_command_line(town: Town, case: Case, word: Word) -> str:
    options = ["--yes", "--as", str(word.operator), "--reason", REASON]
    if word.payload_hash is not None:
        options += ["--hash", word.payload_hash]
    if word.content is not None:
        options += ["--content", json.dumps(word.content)]
    finished = await town.command("settle", case.handle.id, word.kind.replace("_", "-"), *options)
    kinds = [kind for said, kind in _SENTENCES.items() if re.search(said, finished.out or finished.err)]
    assert kinds, finished
    done = kinds[0] in ("settled", "retrying")
    assert (finished.code, bool(finished.out)) == (0 if done else 1, done), finished
    return kinds[0]


_SENTENCES = {
    r"^Settled: it was (not )?executed\.$": "settled",
    r"What became of it: assent show \S+$": "retrying",
    rf"^Not settled: {REQUESTER} is not an operator \(ASSENT_OPERATORS\)\.$": "forbidden",
    rf"^Not settled: ({OPERATOR}|{ANOTHER}) has already settled it: it was (not )?executed\.$": "already_settled",
    r"it was tried again since": "tried_since",
    r"type the first 12 characters of the payload's hash": "wrong_hash",
}


async def by_callback(town: Town, case: Case, word: Word) -> str:
    async def send(event: dict[str, Any]) -> Any:
        body = sealed(event)
        async with town.web.http(None, town.web.hook) as http:
            return (await http.post("/feishu/callback", content=body, headers=signed(body))).json()

    return await _by_card(case, word, send)


async def by_long_connection(town: Town, case: Case, word: Word) -> str:
    return await _by_card(case, word, lambda event: town.connection(json.dumps(event).encode()))


_TOASTS = {
    WORDING(f"toast.{toast}").en: kind
    for toast, kind in {
        "settled_executed": "settled",
        "settled_not_executed": "settled",
        "retrying": "retrying",
        "forbidden_ruling": "forbidden",
        "wrong_hash": "wrong_hash",
        "not_in_time": "not_in_time",
    }.items()
}


async def _by_card(case: Case, word: Word, send: Callable[[dict[str, Any]], Awaitable[Any]]) -> str:
    value = buttons(case.card["content"])[word.kind]["behaviors"][0]["value"]
    event = click_event(value, case.card["message_id"], open_id=str(word.operator.open_id))
    event["event"]["action"]["form_value"] = {
        "reason": REASON,
        "content": "" if word.content is None else json.dumps(word.content),
        "payload_hash": word.payload_hash or "",
    }
    while True:  # on a busy machine a press may not be answered in time: the same press again is the same ruling
        text = (await send(event))["toast"]["i18n"]["en_us"]
        kind = "already_settled" if "settled" in text and "already" in text else _TOASTS[text]
        if kind != "not_in_time":
            return kind


async def by_temporal(town: Town, case: Case, word: Word) -> str:
    """As Temporal's own UI and command line do: JSON that somebody typed."""
    typed = {"kind": word.kind, "operator": {"open_id": word.operator.open_id}, "reason": REASON}
    optional = {"payload_hash": word.payload_hash, "content": word.content}
    typed |= {name: value for name, value in optional.items() if value is not None}
    try:
        ruled = await town.plain.get_workflow_handle(case.review).execute_update("settle", typed)
    except WorkflowUpdateFailedError as error:
        return {"WrongHash": "wrong_hash"}[getattr(error.cause, "type", "")]
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return "already_settled"  # the UI shows the review as completed, with its settlement as the result
    return str(ruled["kind"])


SURFACES: dict[str, tuple[Say, str]] = {
    "client": (by_client, "client"),
    "command_line": (by_command_line, "command_line"),
    "http": (by_http, "http"),
    "http_client": (by_remote_client, "http"),
    "feishu_callback": (by_callback, "feishu"),
    "feishu_long_connection": (by_long_connection, "feishu"),
    "temporal": (by_temporal, "temporal"),
}
"""How each is spoken to, and what the settlement calls it."""


@pytest.mark.parametrize("surface", SURFACES)
async def test_of_two_operators_one_settles_and_nobody_else_does(town: Town, tmp_path: Path, surface: str) -> None:
    ways = ("executed", "not_executed", "retry")
    await asyncio.gather(*(settled_once(town, tmp_path / way, surface, way) for way in ways))
    assert await town.feishu.service.ledger.verify() == []


async def settled_once(town: Town, path: Path, surface: str, way: str) -> None:
    """A frozen call is settled in one way, once, by an operator, whoever else says something of it."""
    case, ledger = await frozen(town, path), town.feishu.service.ledger
    say, called = partial(SURFACES[surface][0], town, case), SURFACES[surface][1]
    word = partial(Word, way)
    if way == "executed":
        word = partial(word, content={"booking": 7})
    if way == "retry":
        assert await say(word(OPERATOR, payload_hash=case.payload_sha256[:11])) == "wrong_hash"
        word = partial(word, payload_hash=case.payload_sha256[:12])
    assert await say(word(REQUESTER)) == "forbidden"
    assert (await ledger.settlement(case.handle.id), marks(path)) == (None, 1)

    answers = await asyncio.gather(say(word(OPERATOR)), say(word(ANOTHER)))
    settlement = await case.handle.settlement()
    if way == "retry":
        assert {"retrying", "settled"} & {*answers}  # a press that is repeated may find that its own retry has ended
        assert {*answers} <= {"retrying", "settled", "already_settled", "tried_since"}
    else:
        assert sorted(answers) == ["already_settled", "settled"]
        winner = (OPERATOR, ANOTHER)[answers.index("settled")]
        assert (settlement.settled_by and settlement.settled_by.open_id) == winner.open_id
    opposite = "not_executed" if way == "executed" else "executed"
    assert await say(Word(opposite, OPERATOR)) == "already_settled"
    assert await case.handle.settlement() == settlement

    found = (settlement.kind, settlement.content, settlement.retried, marks(path))
    assert (
        found
        == {
            "executed": ("executed", {"booking": 7}, False, 1),
            "not_executed": ("not_executed", None, False, 1),
            "retry": ("executed", {"marks": 2}, True, 2),
        }[way]
    )
    assert (settlement.surface, settlement.reason) == (called, REASON)
    claim = (await ledger.chain_sights(case.handle.id))[-1]
    assert claim.state == ("failed" if way == "not_executed" else "executed")
    entry = (await ledger.entries(case.handle.id))[-1]
    assert (entry.event, entry.ruling, entry.surface, entry.actor) == (
        "settle",
        settlement.kind,
        called,
        settlement.settled_by,
    )


async def test_of_all_surfaces_at_once_one_settles(town: Town, tmp_path: Path) -> None:
    case = await frozen(town, tmp_path / "m")
    words = [Word(kind, OPERATOR) for _, kind in zip(SURFACES, cycle(("executed", "not_executed")), strict=False)]
    said = zip(SURFACES.values(), words, strict=True)
    answers = await asyncio.gather(*(say(town, case, word) for (say, _), word in said))
    assert sorted(answers) == [*["already_settled"] * (len(SURFACES) - 1), "settled"]
    heard = words[answers.index("settled")]
    assert (await case.handle.settlement()).kind == heard.kind
    assert marks(tmp_path / "m") == 1
