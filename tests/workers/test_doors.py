"""The two doors: what is read of the ledger leaves no trace in Temporal, is bounded, and tells strangers nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from activities.callback_secrets import CallbackSecrets
from assent import Assent, names
from assent.client.reader import CHUNK, Stored
from assent.settings import Settings
from assent.types import LedgerNeeded
from assent.watched import Watched
from ledger import Reader
from tests.conftest import ME, OPERATOR, Service
from tests.support.frozen_calls import frozen
from tests.support.stepwise import watched
from tests.support.waiting import until
from tests.support.web import Web, web_of_its_own, write_tokens
from workers import api
from workers.tokens import Tokens

SECRET_WORDS = "the words of a result that nobody else may read"


@pytest.fixture(scope="module")
async def web(
    tmp_path_factory: pytest.TempPathFactory, temporal_address: str, namespaces: Iterator[str]
) -> AsyncIterator[Web]:
    async with web_of_its_own(temporal_address, next(namespaces), tmp_path_factory.mktemp("doors")) as own:
        yield own


async def executed(web: Web, tool: str, arguments: dict[str, Any], **asked: Any) -> str:
    async with web.http() as http:
        body = {"tool": tool, "arguments": arguments, "requester": {"open_id": "ou_me"}, **asked}
        answer = await http.post("/v1/approvals", json=body)
        assert answer.status_code == 201, answer.text
        handle = web.service.gate.approval(answer.json()["approval_id"])
    await web.service.decided(handle)
    return handle.id


async def started(service: Service) -> tuple[set[str], str]:
    """Every workflow that was started until now, and one that is started here to know it.

    What Temporal lists lags behind: once this last one is listed as ended, all before it are listed, too.
    """
    last = await service.gate.request("mark", {"path": "nowhere"}, requester=ME)
    await last.cancel()
    await last.outcome()
    own = names.approval_workflow(last.id)

    async def listed() -> set[str] | None:
        found = {each.id: each.close_time async for each in service.client.list_workflows()}
        return set(found) if found.get(own) else None

    return await until(listed), own


# Reads go to the ledger


async def test_no_read_becomes_a_workflow(web: Web, tmp_path: Path) -> None:
    done = await executed(web, "returns", {"path": str(tmp_path / "m"), "what": "large", "size": 400_000})
    before, _ = await started(web.service)
    async with web.http("console") as http:
        for path in (
            *(f"/v1/approvals/{done}", f"/v1/approvals/{done}/content", f"/v1/audit/{done}", "/v1/tools", "/v1/grants"),
            *("/v1/inbox?actor=open_id:ou_me", "/v1/policy", "/v1/approvals", "/v1/frozen"),
        ):
            answer = await http.get(path)
            assert answer.status_code == 200, (path, answer.text)
    after, own = await started(web.service)
    assert after - before == {own}


async def test_a_large_result_is_sent_piece_by_piece(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = await executed(web, "returns", {"path": str(tmp_path / "m"), "what": "large", "size": 700_000})
    pieces: list[int] = []
    chunks = Stored.chunks

    async def counted(self: Stored) -> AsyncIterator[bytes]:
        async for piece in chunks(self):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setattr(Stored, "chunks", counted)
    async with web.http() as http:
        answer = await http.get(f"/v1/approvals/{done}/content")
    assert answer.json() == {"text": "ö" * 700_000}
    assert int(answer.headers["Content-Length"]) == len(answer.content) == sum(pieces) > 4 * CHUNK
    assert max(pieces) == CHUNK


async def test_what_stays_a_workflow_carries_neither_words_nor_results(web: Web, tmp_path: Path) -> None:
    bare = await Assent.connect(client=web.service.client)
    handle = await frozen(web.service, tmp_path / "m")
    said: dict[str, Any] = {"operator": OPERATOR, "reason": SECRET_WORDS, "content": {"found": SECRET_WORDS}}
    await bare.approval(handle.id).settle("executed", **said)
    late = await bare.approval(handle.id).settle("executed", **said)
    assert (late.kind, late.settlement and late.settlement.settled_by) == ("already_settled", OPERATOR)
    assert (
        await bare.approval(handle.id).decide("reject", actor=ME, payload_sha256="0" * 64, reason=SECRET_WORDS)
    ).kind
    grant_id = await remembered(web, tmp_path / "g")
    assert await bare.revoke(grant_id, actor=ME) == "revoked"
    await started(web.service)  # until all of them are listed
    read, revoked = 0, 0
    async for found in web.service.client.list_workflows(f'WorkflowType = "{names.RECALL}"'):
        history = await web.service.client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        words = [payload.data for event in history.events for payload in _payloads(event)]
        assert words
        assert not any(SECRET_WORDS.encode() in data for data in words)
        read += 1
        revoked += any(grant_id.encode() in data for data in words)
    assert read >= 4
    assert revoked == 1


async def remembered(web: Web, path: Path) -> str:
    """A call with words of its own, approved with words of their own, and the decision about it remembered."""
    gate = web.service.gate
    handle = await gate.request("ask_once", {"path": f"{path} {SECRET_WORDS}"}, requester=ME, reason=SECRET_WORDS)
    hash_ = (await handle.state()).payload_sha256
    said: dict[str, Any] = {"actor": ME, "payload_sha256": hash_, "reason": SECRET_WORDS, "remember": "exact"}
    assert (await handle.decide("approve", **said)).kind == "accepted"
    assert (await handle.outcome()).status == "executed"
    (grant,) = [each async for each in gate.grants() if each.approval_id == handle.id]
    return grant.grant_id


def _payloads(event: Any) -> Iterator[Any]:
    """Every payload of a history's event, wherever it stands."""
    for field, value in event.ListFields():
        if field.message_type is None:
            continue
        for each in value if field.is_repeated and not hasattr(value, "items") else [value]:
            if hasattr(each, "items"):
                for nested in each.values():
                    yield from (_payloads(nested) if hasattr(nested, "ListFields") else ())
            elif field.message_type.name == "Payload":
                yield each
            elif hasattr(each, "ListFields"):
                yield from _payloads(each)


async def test_without_a_reader_what_only_the_ledger_knows_says_what_to_do(web: Web, tmp_path: Path) -> None:
    bare = await Assent.connect(client=web.service.client)
    done = bare.approval(await executed(web, "returns", {"path": str(tmp_path / "m"), "what": "large", "size": 50_000}))
    assert (await done.outcome()).status == "executed"
    for question in (done.content(), done.audit(), bare.tools(), bare.approval("unknown").state(), done.settlement()):
        with pytest.raises(LedgerNeeded, match=r"reader=….*ASSENT_URL"):
            await question
    with pytest.raises(LedgerNeeded):
        _ = [grant async for grant in bare.grants()]
    with pytest.raises(LedgerNeeded):
        _ = [state async for state in bare.inbox(ME)]


# An id is no oracle


async def test_a_conversation_with_another_agent_is_neither_ended_nor_told(web: Web, tmp_path: Path) -> None:
    def asked(tool: str, **more: Any) -> dict[str, Any]:
        call = {"tool": tool, "arguments": {"path": str(tmp_path / "m")}, "requester": {"open_id": "ou_narrow"}}
        return {**call, "thread_id": tmp_path.name, **more}

    async with web.http("agent") as agent, web.http("narrow") as narrow:
        theirs = (await agent.post("/v1/approvals", json=asked("mark"))).json()["approval_id"]
        assert (await narrow.get(f"/v1/approvals/{theirs}")).status_code == 404
        for when_pending in ("fail", "supersede"):
            made = await narrow.post("/v1/approvals", json=asked("open_mark", when_pending=when_pending))
            assert made.status_code == 201, made.text
            await narrow.post(f"/v1/approvals/{made.json()['approval_id']}/cancel")
            audit = await narrow.get(f"/v1/audit/{made.json()['approval_id']}")
            assert theirs not in made.text + audit.text
        assert (await agent.get(f"/v1/approvals/{theirs}")).json()["phase"] == "pending"
        busy = await agent.post("/v1/approvals", json=asked("mark", when_pending="fail"))
        assert (busy.status_code, busy.json()["pending"]) == (409, theirs), "its own"


async def test_somebody_elses_approval_costs_and_says_what_one_that_does_not_exist_does(
    web: Web, tmp_path: Path
) -> None:
    done = await executed(web, "mark", {"path": str(tmp_path / "m")})
    pending = await web.service.gate.request("mark", {"path": str(tmp_path / "n")}, requester=ME)
    await pending.state()

    def ways(approval_id: str) -> list[tuple[str, str, dict[str, Any] | None]]:
        actor, hash_ = {"open_id": "ou_narrow"}, "0" * 64
        decision = {"decision": "approve", "payload_sha256": hash_, "actor": actor}
        ruling = {"ruling": "executed", "operator": {"open_id": "ou_operator"}, "reason": "so"}
        return [
            ("GET", f"/v1/approvals/{approval_id}", None),
            ("GET", f"/v1/approvals/{approval_id}/content", None),
            ("GET", f"/v1/audit/{approval_id}", None),
            ("GET", f"/v1/approvals/{approval_id}/settlement", None),
            ("GET", f"/v1/approvals/{approval_id}/result?actor=open_id:ou_narrow", None),
            ("POST", f"/v1/approvals/{approval_id}/cancel", {}),
            ("POST", f"/v1/approvals/{approval_id}/decide", decision),
            ("POST", f"/v1/frozen/{approval_id}/settle", ruling),
        ]

    seen: dict[str, list[Any]] = {}
    with watched(web.service.ledger.engine) as statements:
        for approval_id in (done, pending.id, "nobody-has-this"):
            told = []
            for token in ("narrow", "narrow_approver", "narrow_operator"):
                async with web.http(token) as http:
                    for method, path, body in ways(approval_id):
                        statements.clear()
                        answer = await http.request(method, path, json=body)
                        said = json.dumps(answer.json()).replace(approval_id, "ID")
                        if answer.status_code == 404:
                            told.append((token, path.replace(approval_id, "ID"), said, list(statements)))
            seen[approval_id] = told
    assert len(seen[done]) >= 12
    assert seen[done] == seen[pending.id] == seen["nobody-has-this"]


# An error is no echo


@pytest.mark.parametrize(
    "body",
    [
        {"tool": "mark", "arguments": {}, "requester": {"open_id": "o"}, "x" * 900_000: 1},
        {"tool": "t" * 900_000, "arguments": {}, "requester": {"open_id": "o"}},
        {f"unknown-{n}": n for n in range(40_000)},
        {"tool": "mark", "arguments": {"a" * 900_000: 2**60}, "requester": {"open_id": "o"}},
        {"tool": "mark", "arguments": {}, "requester": {"open_id": "o"}, "ttl": "z" * 900_000},
    ],
)
async def test_an_error_quotes_no_more_than_a_person_reads(web: Web, body: dict[str, Any]) -> None:
    async with web.http() as http:
        answer = await http.post("/v1/approvals", json=body)
    assert answer.status_code == 422
    assert len(answer.content) < 20_000
    assert answer.json()["detail"]


# Tokens


async def test_a_token_expires_and_says_so(web: Web, tmp_path: Path) -> None:
    past, future = (datetime.now(UTC) + timedelta(hours=n) for n in (-1, 1))
    path = tmp_path / "tokens.toml"
    path.write_text(
        "\n".join(
            f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\nexpires_at = {at:%Y-%m-%dT%H:%M:%SZ}'
            for name, digest, at in (("old", "a" * 64, past), ("new", "b" * 64, future))
        )
    )
    now = datetime.now(UTC)
    old, new = Tokens.load(path)._agents
    assert (old.has_expired(now), new.has_expired(now)) == (True, False)
    tokens = write_tokens(tmp_path, {"late": {"tools": ["*"], "on_behalf_of": ["*"]}})
    tokens.write_text(tokens.read_text() + f"\nexpires_at = {past:%Y-%m-%dT%H:%M:%SZ}\n")
    app = _app(web, tokens)
    async with web.http("late", app) as http:
        answer = await http.get("/v1/tools")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert "expired" in answer.json()["detail"]


def _app(web: Web, tokens: Path) -> Any:
    settings = web.service.settings.model_copy(update={"tokens": tokens})
    return api.create_app(settings, web.service.client, Reader(web.service.ledger))


async def test_a_changed_file_counts_at_once_and_a_broken_one_changes_nothing(
    web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rights: dict[str, Any] = {"tools": ["*"], "on_behalf_of": ["*"]}
    path = write_tokens(tmp_path, {"first": rights})
    app = _app(web, path)

    async def codes() -> list[int]:
        found = []
        for name in ("first", "second"):
            async with web.http(name, app) as http:
                found.append((await http.get("/v1/tools")).status_code)
        return found

    assert await codes() == [200, 401]
    os.replace(write_tokens(tmp_path, {"first": rights, "second": rights}), path)
    assert await codes() == [200, 200]
    path.write_text("this is no TOML")
    assert await codes() == [200, 200]
    assert await codes() == [200, 200]
    assert caplog.text.count("what was read before stays in force") == 1
    path.unlink()
    assert await codes() == [200, 200]
    os.replace(write_tokens(tmp_path, {"second": rights}), path)
    assert await codes() == [401, 200]


def test_a_file_that_rests_is_not_read_again(tmp_path: Path) -> None:
    path, reads = tmp_path / "file", list[Path]()
    path.write_text("1")
    long_ago = time.time() - 60
    os.utime(path, (long_ago, long_ago))

    def load(found: Path) -> str:
        reads.append(found)
        return found.read_text()

    watched = Watched(path, load)
    assert [watched.held for _ in range(3)] == ["1"] * 3
    assert len(reads) == 1
    path.write_text("2")
    assert watched.held == "2"


async def test_a_rotated_token_decides_settles_and_reads_nothing_of_its_own(web: Web, tmp_path: Path) -> None:
    rights = {"tools": ["*"], "on_behalf_of": ["*"], "may_decide": True, "may_settle": True, "principal": "billing"}
    app = _app(web, write_tokens(tmp_path, {"billing-1": rights, "billing-2": rights}))
    async with web.http("billing-1", app) as old, web.http("billing-2", app) as new:
        body = {"tool": "raises", "arguments": {"path": str(tmp_path / "m")}, "requester": {"open_id": "ou_me"}}
        asked = (await old.post("/v1/approvals", json=body)).json()
        approval_id = asked["approval_id"]
        again = await new.post("/v1/approvals", json={**body, "approval_id": approval_id})
        assert again.status_code == 200, "the other token of the same agent attaches"
        state = (await new.get(f"/v1/approvals/{approval_id}?wait=0")).json()["state"]
        assert state["asked_by"] == "billing"
        decision = {"decision": "approve", "payload_sha256": state["payload_sha256"], "actor": {"open_id": "ou_me"}}
        refused = await new.post(f"/v1/approvals/{approval_id}/decide", json=decision)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        inbox = (await new.get("/v1/inbox?actor=open_id:ou_me")).json()["waiting"]
        assert approval_id not in [each["approval_id"] for each in inbox]
        await web.service.decided(web.service.gate.approval(approval_id))
        ruling = {"ruling": "executed", "operator": {"open_id": "ou_operator"}, "reason": "so"}
        settled = await new.post(f"/v1/frozen/{approval_id}/settle", json=ruling)
        assert (settled.status_code, settled.json()["code"]) == (403, "forbidden")


# Secrets of callbacks


def test_each_agent_has_its_own_secrets_and_two_while_one_takes_the_others_place(tmp_path: Path) -> None:
    path = tmp_path / "callbacks.toml"
    path.write_text('[[callback]]\nprincipal = "billing"\nsecrets = ["new", "old"]\n')
    secrets = CallbackSecrets(Settings(callback_secret=SecretStr("house former"), callback_secrets=path))
    assert secrets.of("billing") == ("new", "old")
    assert secrets.of("other") == secrets.of(None) == ("house", "former")
    path.write_text('[[callback]]\nprincipal = "billing"\nsecrets = ["newest"]\n')
    assert secrets.of("billing") == ("newest",)
    assert CallbackSecrets(Settings()).of("billing") == ()


@pytest.mark.parametrize(
    "text",
    [
        "no toml",
        'callback = "s3cret"',
        '[[callback]]\nprincipal = "a"\nsecrets = []',
        '[[callback]]\nprincipal = "a"\nsecrets = [""]',
        '[[callback]]\nprincipal = "a"\nsecret = "s3cret"',
        '[[callback]]\nprincipal = "a"\nsecrets = ["s3cret"]\n[[callback]]\nprincipal = "a"\nsecrets = ["s3cret"]',
    ],
)
def test_a_mistake_in_the_secrets_is_named_and_no_secret_is_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "callbacks.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"callbacks\.toml") as refused:
        CallbackSecrets(Settings(callback_secrets=path))
    assert "s3cret" not in str(refused.value)


def test_the_webhook_knows_no_ledger() -> None:
    known = "{name.partition('.')[0] for name in sys.modules} & {'ledger', 'sqlalchemy'}"
    script = f"import sys, workers.webhook, workers.longconn; print({known})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
