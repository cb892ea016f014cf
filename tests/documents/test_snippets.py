"""What the documents say is true: their code runs, and their calls are answered as shown."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import time
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text
from standardwebhooks import WebhookVerificationError

from activities.announcements import AnnouncementActivities
from activities.callback_secrets import CallbackSecrets
from activities.cards import CardActivities
from activities.feishu.client import Feishu
from activities.review_cards import ReviewCards
from assent import ApprovalHandle, Assent, Decision, Identity, Outcome, Question, errors, names
from assent.agent_calls import MANIFEST
from assent.contracts.audit import ClosingHead
from assent.contracts.conclude import Announcement
from assent.contracts.manifest import Manifest
from assent.names import AGENT_CALL
from assent.payload import canonical_payload
from assent.policy.rules import Asking, Rules
from assent.settings import Settings
from assent.temporal import search
from assent.tools import definition as tools
from assent.tools.definition import Registry, Tool
from assent.types import Execution, ResultReview, Ruled, Ruling
from cards import Wording
from ledger import Ledger, Reader
from ledger.engine import open_engine
from tests.conftest import HEARTBEAT, Service, new_database
from tests.support import servers
from tests.support.documents import (
    API,
    APPROVERS,
    FEISHU,
    OPERATIONS,
    README,
    ROOT,
    Curl,
    Snippet,
    agrees,
    calls,
    rows,
    section,
    snippets,
)
from tests.support.simulated_feishu import served
from tests.support.stepwise import reading
from tests.support.waiting import until
from tests.support.web import write_tokens
from workers import api
from workers.approvals import approvals_worker, outbound_worker
from workers.sample_requests import SAMPLES
from workers.setup import set_up
from workers.tokens import Agent, Tokens
from workers.tools import tool_workers

ME = Identity(open_id="ou_me")
ASKER = Identity(open_id="ou_requester")
"""On whose behalf the documents ask over HTTP."""
OPERATOR = Identity(open_id="ou_operator")
TOKENS = {
    "AGENT_TOKEN": "secret-billing-agent",
    "APPROVER_TOKEN": "secret-approver",
    "OPERATOR_TOKEN": "secret-operations",
}
RIGHTS: dict[str, dict[str, Any]] = {
    "billing-agent": {"tools": ["send_*"], "on_behalf_of": [str(ASKER)], "may_list_files": True},
    "approver": {"tools": ["*"], "on_behalf_of": ["*"], "may_decide": True},
    "operations": {"tools": ["*"], "on_behalf_of": ["*"], "may_settle": True},
}


# The code runs, against the real service


@asynccontextmanager
async def registering() -> AsyncIterator[dict[str, Tool]]:
    """A moment in which `@tool` registers into an empty registry, so that no other test meets these tools."""
    before, tools.registry.tools = tools.registry.tools, {}
    try:
        yield tools.registry.tools
    finally:
        tools.registry.tools = before


@pytest.fixture(scope="module")
async def samples() -> dict[str, Tool]:
    async with registering():
        from workers import samples
    return {found.name: found for found in vars(samples).values() if isinstance(found, Tool)}


@dataclass
class Documented(Service):
    """A service with everything that the documents speak of."""

    address: str
    """Where its webhook is."""


def agreeable_feishu() -> httpx.MockTransport:
    """A Feishu that knows everybody and takes everything."""
    numbers = itertools.count()

    def answer(request: httpx.Request) -> httpx.Response:
        named = request.url.path.rpartition("/")[2]
        data = {
            "message_id": f"om_{next(numbers)}",
            "file_key": "file_1",
            "user": {"open_id": f"ou_{named}", request.url.params.get("user_id_type", "open_id"): named},
            "items": [{"message_id": named, "chat_id": "oc_team"}],
        }
        return httpx.Response(200, json={"code": 0, "data": data, "tenant_access_token": "t", "expire": 7200})

    return httpx.MockTransport(answer)


@pytest.fixture(scope="module")
async def documented(
    samples: dict[str, Tool],
    tmp_path_factory: pytest.TempPathFactory,
    temporal_address: str,
    namespaces: Iterator[str],
) -> AsyncIterator[Documented]:
    """A service that offers the samples and all tools that the documents declare."""
    async with registering() as declared:
        for snippet in snippets("python"):
            if snippet.declares_tools:
                await snippet.run()
    registry = Registry()
    registry.tools = {**samples, **declared}
    client = await servers.connect(temporal_address, next(namespaces))
    directory = tmp_path_factory.mktemp("documents")
    settings = Settings(
        database_url=await new_database("sqlite", directory),
        heartbeat_timeout=HEARTBEAT,
        feishu_app_id="cli_assent",
        feishu_encrypt_key=SecretStr("encrypt-key"),
        feishu_tenant_key="tenant_1",
        tokens=write_tokens(directory, RIGHTS),
        callback_secret=SecretStr("callback-secret"),
        operators=(OPERATOR,),
    )
    await set_up(client, settings)
    async with AsyncExitStack() as stack:
        ledger = Ledger.open(settings.database_url)
        stack.push_async_callback(ledger.dispose)
        await ledger.publish((tool.manifest for tool in registry.tools.values()), datetime.now(UTC))
        message = {"message_id": "om_shared", "chat_id": "oc_p2p"}
        shared = {"key": "file_1", "name": "q3.pdf"}
        for owner in (ASKER, ME):
            await ledger.files.register(owner.within("tenant_1"), shared, message=message, ttl_seconds=0)
        feishu = Feishu(app_id="cli_assent", app_secret="s", domain="http://feishu", transport=agreeable_feishu())
        stack.push_async_callback(feishu.close)
        cards = CardActivities(ledger, feishu, Wording.load())
        reviews = ReviewCards(ledger, feishu, Wording.load(), settings, cards)
        outbound = outbound_worker(client, ledger, settings, cards, reviews)
        own = (approvals_worker(client, ledger, settings, cards), outbound)
        for worker in (*own, *tool_workers(client, ledger, registry)):
            await stack.enter_async_context(worker)
        address = await stack.enter_async_context(served(api.create_app(settings, client, Reader(ledger))))
        gate = await Assent.connect(client=client, reader=Reader(ledger))
        yield Documented(client, ledger, settings, gate, address)


@pytest.fixture(autouse=True)
def outbox(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSENT_DEV_DIR", str(tmp_path))


@asynccontextmanager
async def person(service: Service) -> AsyncIterator[None]:
    """The person who approves, as soon as they have a card, whatever is asked on their behalf."""

    async def approve() -> None:
        while True:
            async for approval in service.gate.approvals(status="pending"):
                if approval.requester == str(ASKER) and "deliver" in await service.events(approval.approval_id):
                    handle = service.gate.approval(approval.approval_id)
                    await handle.decide("approve", actor=ASKER, payload_sha256=(await handle.state()).payload_sha256)
            async for question in service.gate.questions(status="pending"):
                if question.requester == str(ASKER):
                    asked = service.gate.question(question.question_id)
                    state = await asked.state()
                    answers = {each.id: _answer(each) for each in state.questions}
                    await asked.respond(answers, actor=ASKER, questions_sha256=state.questions_sha256)
            await asyncio.sleep(0.1)

    async with asyncio.TaskGroup() as together:
        approving = together.create_task(approve())
        yield
        approving.cancel()


def _answer(question: Question) -> bool | str:
    """What somebody answers who is asked anything."""
    if question.options:
        return question.options[0].value
    return True if question.kind == "confirm" else "as you like"


@pytest.mark.parametrize("snippet", [found for found in snippets("python") if not found.declares_tools], ids=str)
async def test_python_runs(
    snippet: Snippet, documented: Documented, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", documented.client.namespace)
    monkeypatch.setenv("AGENT_TOKEN", TOKENS["AGENT_TOKEN"])
    monkeypatch.setenv("ASSENT_DATABASE_URL", documented.settings.database_url)
    async with asyncio.timeout(300), person(documented):
        await snippet.at(documented.address).run()


@pytest.mark.parametrize("document", [README, API], ids=lambda document: document.name)
async def test_calls_are_answered_as_shown(document: Path, documented: Documented) -> None:
    async with httpx.AsyncClient(base_url=documented.address, timeout=60) as http:
        seen = [await call(curl, http, documented) for curl in calls(document)]
    assert len(seen) > 1


async def call(curl: Curl, http: httpx.AsyncClient, service: Documented) -> httpx.Response:
    """Make a call of a document, with what has to be there before, and compare the answer."""
    expects_error = curl.answer is not None and "code" in curl.answer
    body = json.loads(curl.body) if curl.body else None
    if curl.approval_id and not expects_error:
        handle = await filed(service, curl.approval_id)
        if body and "payload_sha256" in body:
            body["payload_sha256"] = (await handle.state()).payload_sha256
    headers = {name: re.sub(r"\$(\w+)", lambda found: TOKENS[found[1]], said) for name, said in curl.headers.items()}

    async def answered() -> httpx.Response | None:
        answer = await http.request(curl.method, curl.target, headers=headers, json=body)
        is_behind = "?" in curl.target and "wait=" not in curl.target and not agrees(curl.answer, answer.json())
        return None if is_behind else answer

    if "wait=" in curl.target:
        async with person(service):
            answer = await until(answered)
    else:
        answer = await until(answered)
    assert answer.is_success != expects_error, answer.text
    assert curl.answer is None or agrees(curl.answer, answer.json()), answer.text
    return answer


async def filed(service: Service, approval_id: str) -> ApprovalHandle:
    """An approval that a document takes to be there."""
    handle = service.gate.approval(approval_id)
    try:
        await handle.state()
    except errors.ApprovalNotFound:
        tool = "transfer_money" if approval_id.startswith("transfer") else "send_invoice"
        await service.gate.request(tool, SAMPLE_ARGUMENTS[tool], requester=ASKER, approval_id=approval_id)
        if tool == "transfer_money":
            assert (await service.decided(handle, actor=ASKER)).status == "frozen"
    return handle


@pytest.mark.parametrize("secret", [f"whsec_{base64.b64encode(bytes(32 * [1])).decode()}", "any-text"])
async def test_completion_callbacks_are_verified_as_shown(secret: str) -> None:
    (shown,) = [found for found in snippets("python", API) if "is_from_assent" in found.code]
    is_from_assent = (await shown.run())["is_from_assent"]
    (by_library,) = [found for found in snippets("python", API) if "outcome_of" in found.code]
    outcome_of = (await by_library.run())["outcome_of"]
    (form,) = [json.loads(found.code) for found in snippets("json", API) if "ended_at" in found.code]
    posts: list[httpx.Request] = []

    def for_library(key: str) -> str | bytes:
        """As the text before the snippet says."""
        return key if key.startswith("whsec_") else key.encode()

    def take(request: httpx.Request) -> httpx.Response:
        posts.append(request)
        return httpx.Response(204)

    async def head(approval_id: str) -> ClosingHead:
        return ClosingHead.model_validate(form["audit"])

    another = f"whsec_{base64.b64encode(bytes(32 * [2])).decode()}"
    announcements = AnnouncementActivities(
        CallbackSecrets(Settings(callback_secret=SecretStr(secret))), head, httpx.MockTransport(take)
    )
    await announcements.announce(Announcement(url="https://billing.example.com/assent/done", **form))
    await announcements.close()
    (post,) = posts
    assert json.loads(post.content).keys() == form.keys()
    assert agrees(form["outcome"], json.loads(post.content)["outcome"])
    assert json.loads(post.content)["audit"] == form["audit"]
    assert not any(name.startswith("x-") for name in post.headers)
    headers = {name: value for name, value in post.headers.items() if name.startswith("webhook-")}
    assert headers.keys() == rows(API, "Completion callbacks").keys()
    assert is_from_assent(secret, headers, post.content)
    assert outcome_of(for_library(secret), headers, post.content) == json.loads(post.content)["outcome"]
    late = {**headers, "webhook-timestamp": str(int(time.time()) + 1)}
    rotated = {
        **headers,
        "webhook-signature": f"v1,{base64.b64encode(bytes(32)).decode()} " + headers["webhook-signature"],
    }
    assert is_from_assent(secret, rotated, post.content)
    for key, said, body in [
        (secret, headers, post.content + b" "),
        (another, headers, post.content),
        (secret, late, post.content),
        (secret, {**headers, "webhook-id": "msg_other"}, post.content),
    ]:
        assert not is_from_assent(key, said, body)
        with pytest.raises(WebhookVerificationError):
            outcome_of(for_library(key), said, body)


async def test_shown_files_can_be_read(tmp_path: Path) -> None:
    (tokens,) = snippets("toml", API)
    (tmp_path / "tokens.toml").write_text(tokens.code)
    Tokens.load(tmp_path / "tokens.toml")
    (entry,) = tomllib.loads(tokens.code)["token"]
    assert entry.keys() == rows(API, "Tokens").keys() == Agent.model_fields.keys() - {"tenant_key"}
    (texts,) = snippets("toml", FEISHU)
    (tmp_path / "en.toml").write_text(texts.code)
    assert Wording.load(tmp_path)("card.approve").en == tomllib.loads(texts.code)["card"]["approve"]


@pytest.mark.parametrize("document", [README, APPROVERS, OPERATIONS], ids=lambda document: document.name)
def test_shown_rules_are_a_policy(document: Path) -> None:
    files = list(snippets("toml", document))
    assert files
    for file in files:
        assert Rules.parse(file.code).names


async def test_the_rules_of_make_dev_warn_of_a_sample(samples: dict[str, Tool]) -> None:
    rules = Rules.load(ROOT / "workers" / "sample_policy.toml")
    warned = {}
    for sample in SAMPLES:
        asking = Asking.of(canonical_payload(sample.tool, sample.arguments), ASKER, None)
        manifest = MANIFEST if sample.tool == AGENT_CALL else samples[sample.tool].manifest
        warned[sample.tool] = rules.effective(manifest, asking).warnings
    assert [tool for tool, warnings in warned.items() if warnings] == ["transfer_money"]


SAMPLE_ARGUMENTS: dict[str, dict[str, Any]] = {
    "send_invoice": {"to": "ada@example.com", "amount": "120.00"},
    "read_mailbox": {},
    "transfer_money": {"to": "DE00", "amount": "5000"},
    "rebuild_index": {"name": "customers"},
    "book_room": {"room": "Turing", "day": "2030-01-02"},
    "delete_customer": {"customer": "c-1", "password": "hunter2"},
    "look_up_rate": {"currency": "CNY"},
    "post_update": {"channel": "all-hands", "text": "The lift is working again."},
    "sign_contract": {"customer": "ACME Ltd.", "months": 24},
    "read_payroll": {"department": "Sales"},
    "publish_release": {"version": "7.3"},
    "archive_file": {"file": "the newest", "folder": "2030"},
    "rebuild": {"target": "customers"},
}
DEADLY = "migrate_database"
"""The sample that kills its process; it has tests of its own."""


@pytest.mark.parametrize("name", SAMPLE_ARGUMENTS)
async def test_sample_ends_as_it_says(name: str, documented: Service, samples: dict[str, Tool]) -> None:
    assert samples.keys() == SAMPLE_ARGUMENTS.keys() | {DEADLY}
    arguments = SAMPLE_ARGUMENTS[name]
    if name == "archive_file":
        arguments = {**arguments, "file": (await documented.ledger.files.recent(ME.within("tenant_1")))[0].file_id}
    handle = await documented.gate.request(name, arguments, requester=ME)
    outcome = await agreed(documented, handle, samples[name].manifest)
    assert f"Ends `{outcome.status}`" in samples[name].manifest.description
    assert not outcome.withheld
    assert ("authorize_url" in samples[name].manifest.description) == (outcome.authorize_url is not None)


async def agreed(service: Service, handle: ApprovalHandle, manifest: Manifest) -> Outcome:
    """The outcome after everybody has approved whom the tool asks, and released what it lets them look at."""
    people = manifest.approvers.people[: manifest.approvers.threshold] or (ME,)
    if manifest.permission.execution is not Execution.AUTO:
        seen = (await handle.state()).payload_sha256
        for person in people:
            assert (await handle.decide("approve", actor=person, payload_sha256=seen)).kind == "accepted"
    if manifest.permission.result is ResultReview.ALWAYS:

        async def result_sha256() -> str | None:
            return (await handle.state()).result_sha256

        seen = await until(result_sha256)
        await handle.decide("approve", actor=people[0], payload_sha256=seen, stage="result")
    known: set[str] = set()
    for _ in range((3 if manifest.program else 1) if manifest.asks else 0):

        async def asked() -> str | None:
            lines = [each async for each in service.gate.questions(status="pending")]
            found = (line.question_id for line in lines if line.tool == manifest.name)
            return next((each for each in found if each not in known), None)

        question = service.gate.question(await until(asked))
        shown = await question.state()
        answers = {each.id: _answer(each) for each in shown.questions}
        await question.respond(answers, actor=people[0], questions_sha256=shown.questions_sha256)
        known.add(question.id)
    return await handle.outcome()


@pytest.mark.parametrize(
    ("name", "arguments", "status", "content"),
    [
        ("refund", {"order": "A-1", "amount": "20"}, "executed", {"order": "A-1", "refunded": "20 EUR"}),
        ("refund", {"order": "A-1", "amount": "2000"}, "failed", "Refunds beyond 1000 are made by accounting."),
        ("read_calendar", {"week": 54}, "failed", "There is no week 54."),
        ("read_calendar", {"week": 1}, "failed", "The calendar is not connected yet."),
        ("order_paper", {"boxes": 3}, "executed", "3 boxes"),
        ("send_letter", {"to": "Bob"}, "executed", {"to": "Bob", "found": True}),
        ("greet", {"name": "Bob"}, "executed", "open_id:ou_me greets Bob"),
        (
            "book_flight",
            {"to": "Lisbon", "day": "2030-01-02", "card_number": "4000"},
            "executed",
            {"to": "Lisbon", "day": "2030-01-02", "seat": "aisle", "for": "open_id:ou_me"},
        ),
    ],
)
async def test_documented_tool_ends_as_the_text_says(
    name: str, arguments: dict[str, Any], status: str, content: object, documented: Service
) -> None:
    actor = Identity(open_id="ou_grace") if name == "book_flight" else ME
    outcome = await approved(documented, name, arguments, actor)
    assert (outcome.status, outcome.content) == (status, content)


async def approved(service: Service, name: str, arguments: dict[str, Any], actor: Identity = ME) -> Outcome:
    return await service.decided(await service.gate.request(name, arguments, requester=ME), actor=actor)


async def test_signals_have_the_documented_form(documented: Service) -> None:
    decide, cancel, _ = (json.loads(snippet.code) for snippet in snippets("json", OPERATIONS))
    fields = re.findall(r"^\| `(\w+)` \|", section(OPERATIONS, "Deciding from Temporal's UI"), re.MULTILINE)
    assert decide.keys() <= set(fields) <= Decision.model_fields.keys()
    for name, form, status in (("decide", decide, "executed"), ("cancel", cancel, "cancelled")):
        handle = await documented.gate.request("send_invoice", SAMPLE_ARGUMENTS["send_invoice"], requester=ME)
        state = await handle.state()
        known = {"approval_id": handle.id, "payload_sha256": state.payload_sha256} if name == "decide" else {}
        await documented.client.get_workflow_handle(names.approval_workflow(handle.id)).signal(name, {**form, **known})
        assert (await handle.outcome()).status == status


async def test_the_update_has_the_documented_form(documented: Service) -> None:
    *_, form = (json.loads(snippet.code) for snippet in snippets("json", OPERATIONS))
    fields = rows(OPERATIONS, "Settling from Temporal's UI").keys()
    assert form.keys() <= fields == Ruling.model_fields.keys() - {"surface", "proof"}
    arguments = {**SAMPLE_ARGUMENTS["transfer_money"], "to": "DE-by-update"}
    handle = await documented.gate.request("transfer_money", arguments, requester=ME)
    outcome = await documented.decided(handle, actor=ME)
    review = documented.client.get_workflow_handle(names.review_workflow(str(outcome.idempotency_key)))
    ruled: Ruled = await review.execute_update("settle", form, result_type=Ruled)
    assert ruled.kind == "settled"
    settlement = await handle.settlement()
    assert (settlement.kind, settlement.content, settlement.settled_by) == ("executed", form["content"], OPERATOR)


async def test_saved_views_can_be_queried(documented: Service) -> None:
    queries = [line for snippet in snippets("text", OPERATIONS) for line in snippet.code.splitlines()]
    assert len(queries) > 5
    for query in queries:
        await documented.client.count_workflows(query)
    assert {key.name for key in search.SEARCH_ATTRIBUTES} == set(re.findall(r"`(Assent\w+)`", OPERATIONS.read_text()))


async def test_sql_can_be_asked(documented: Service) -> None:
    engine = open_engine(documented.settings.database_url)
    async with reading(engine) as connection:
        for snippet in snippets("sql"):
            for statement in snippet.code.strip().split("\n"):
                await connection.execute(text(statement))
    await engine.dispose()
