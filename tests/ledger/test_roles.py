"""Each process's role in a PostgreSQL ledger: it can do its work, and nothing more."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text
from temporalio.client import Client

from assent import Assent, Identity, tool
from assent.settings import Settings
from assent.tools.definition import Registry, registry
from assent.types import Risk
from ledger import Ledger, LedgerError, Reader, roles
from ledger.schema import metadata
from tests.conftest import HEARTBEAT, ME, OPERATOR, new_database
from tests.support import servers
from tests.support.environment import ROOT
from tests.support.ledgers import propose
from tests.support.stepwise import writing
from tests.support.tools import leave_mark, marks
from tests.support.waiting import until
from tests.support.web import write_tokens
from workers import api
from workers.approvals import approvals_worker
from workers.process import missing_search_attributes
from workers.tools import tool_workers

TABLES = sorted(metadata.tables)
EVERYTHING = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")


@dataclass(frozen=True)
class LedgerWithRoles:
    """A ledger with an owner who is no superuser, and a role for each process."""

    owner: str
    urls: dict[str, str]

    def open(self, process: str) -> Ledger:
        return Ledger.open(self.urls[process])


@pytest.fixture(scope="module")
async def with_roles(tmp_path_factory: pytest.TempPathFactory) -> LedgerWithRoles:
    url = await new_database("postgres", tmp_path_factory.mktemp("roles"), has_schema=False)
    prefix = f"r{uuid.uuid4().hex[:8]}"
    root = Ledger.open(url)
    async with writing(root.engine) as connection:
        await connection.execute(f"CREATE ROLE {prefix} LOGIN CREATEROLE")
        name = (await connection.execute(text("SELECT current_database()"))).scalar_one()
        await connection.execute(f"ALTER DATABASE {name} OWNER TO {prefix}")
    await root.dispose()
    owner = url.replace("postgres@", f"{prefix}@")
    ledger = Ledger.open(owner)
    await ledger.upgrade()
    passwords = {process: f"it's {process}" for process in roles.ROLES}
    for _ in range(2):  # again is harmless
        made = await roles.grant(ledger.engine, passwords, prefix)
    await ledger.dispose()
    assert made == [f"{prefix}_{process}" for process in roles.ROLES]
    return LedgerWithRoles(
        owner, {process: url.replace("postgres@", f"{prefix}_{process}@") for process in roles.ROLES}
    )


async def refused(ledger: Ledger, statement: str) -> bool:
    try:
        async with writing(ledger.engine) as connection:
            await connection.execute(statement)
    except LedgerError as error:
        said = str(error)
        assert "permission denied" in said or "must be owner" in said or "read-only transaction" in said, said
        return True
    return False


@pytest.mark.parametrize("process", roles.ROLES)
async def test_each_role_has_the_rights_that_are_written_down_and_no_others(
    with_roles: LedgerWithRoles, process: str
) -> None:
    ledger = with_roles.open(process)
    async with writing(ledger.engine) as connection:
        for table, right in itertools.product([*TABLES, "alembic_version"], EVERYTHING):
            found = await connection.execute(
                text("SELECT has_table_privilege(:table, :right)"), {"table": table, "right": right}
            )
            may_read = right == "SELECT" and table not in roles.UNREAD.get(process, ())
            granted = may_read or right in roles.ROLES[process].get(table, ())
            assert found.scalar_one() is granted, (process, table, right)
        superuser = "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user"
        assert not (await connection.execute(text(superuser))).scalar_one()
    await ledger.dispose()


@pytest.mark.parametrize("process", roles.ROLES)
async def test_no_role_rewrites_the_audit_or_the_schema(with_roles: LedgerWithRoles, process: str) -> None:
    ledger = with_roles.open(process)
    for statement in (
        "UPDATE audit SET body = ''",
        "DELETE FROM audit",
        "TRUNCATE seals",
        "UPDATE seals SET head = ''",
        "DELETE FROM claims",
        "DROP TABLE audit",
        "ALTER TABLE claims DROP COLUMN state",
        "CREATE TABLE more (n int)",
        "CREATE ROLE somebody",
    ):
        assert await refused(ledger, statement), statement
    await ledger.dispose()


async def test_the_api_writes_nothing_and_the_tools_decide_nothing(with_roles: LedgerWithRoles) -> None:
    ours = with_roles.open("approvals")
    plan = await propose(ours)
    reading, tools = with_roles.open("api"), with_roles.open("tools")
    for statement in (
        f"UPDATE claims SET state = 'closed' WHERE consent = '{plan.approval_id}'",
        "INSERT INTO claims (consent, idempotency_key, approval_id, payload_sha256, state, attempt) "
        "VALUES ('c', 'k', 'a', 'p', 'started', 1)",
        "UPDATE approvals SET status = 'executed'",
        "INSERT INTO policies (n, text, sha256, since) VALUES (99, '', '', '')",
        "SELECT 1 FROM approvals FOR UPDATE",
    ):
        assert await refused(reading, statement), statement
    for statement in (
        "UPDATE approvals SET plan = ''",
        "UPDATE approvals SET status = 'executed'",
        "INSERT INTO approvals (approval_id) VALUES ('x')",
        "INSERT INTO policies (n, text, sha256, since) VALUES (99, '', '', '')",
        "UPDATE grants SET revoked_at = NULL",
        "INSERT INTO grants (grant_id) VALUES ('x')",
        "INSERT INTO decisions (approval_id, event_id, judged) VALUES ('x', 'x', 'x')",
    ):
        assert await refused(tools, statement), statement
    assert await refused(ours, "UPDATE catalogue SET manifest = ''")
    assert await Reader(reading).state(plan.approval_id) is not None
    for ledger in (ours, reading, tools):
        await ledger.dispose()


async def test_a_tools_worker_publishes_another_teams_tool_anew(with_roles: LedgerWithRoles) -> None:
    """The catalogue is one for all of them: their role says nothing of whose tool it is."""
    ours, theirs, reading = (with_roles.open(process) for process in ("tools", "tools", "approvals"))
    careful = registry.tools["guarded_mark"].manifest.model_copy(update={"name": f"pay-{uuid.uuid4().hex[:8]}"})
    loose = careful.model_copy(update={"risk": Risk.LOW, "approvers": registry.tools["open_mark"].manifest.approvers})
    assert (loose.risk, loose.approvers) != (careful.risk, careful.approvers)
    await ours.publish([careful], datetime.now(UTC))
    await theirs.publish([loose], datetime.now(UTC))
    assert await reading.manifest(careful.name) == loose
    assert loose.shown_sha256 != careful.shown_sha256, "so the first team's workers run nothing that was shown with it"
    for ledger in (ours, theirs, reading):
        await ledger.dispose()


@pytest.fixture(scope="module")
async def client(temporal_address: str, namespaces: Iterator[str]) -> Client:
    found = await servers.connect(temporal_address, next(namespaces))
    assert not await missing_search_attributes(found)
    return found


async def test_each_process_does_its_work_with_its_own_role(
    with_roles: LedgerWithRoles, client: Client, tmp_path: Path
) -> None:
    settings = Settings(
        database_url=with_roles.urls["approvals"],
        heartbeat_timeout=HEARTBEAT,
        operators=(OPERATOR,),
        tokens=write_tokens(tmp_path),
    )
    async with AsyncExitStack() as stack:
        ours, tools, reading = (with_roles.open(process) for process in ("approvals", "tools", "api"))
        for ledger in (ours, tools, reading):
            stack.push_async_callback(ledger.dispose)
        await tools.publish((tool.manifest for tool in registry.tools.values()), datetime.now(UTC))
        for worker in (approvals_worker(client, ours, settings), *tool_workers(client, tools, registry)):
            if worker.task_queue != "nobody":
                await stack.enter_async_context(worker)
        app = api.create_app(settings, client, Reader(reading, client.namespace))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        http = await stack.enter_async_context(
            httpx.AsyncClient(base_url="http://api", transport=transport, timeout=120)
        )

        async def call(method: str, path: str, token: str = "agent", **body: object) -> dict[str, object]:
            headers = {"Authorization": f"Bearer secret-{token}"}
            answer = await http.request(method, path, headers=headers, json=body or None)
            assert answer.is_success, answer.text
            found: dict[str, object] = answer.json()
            return found

        async def ended(tool: str, **arguments: object) -> str:
            asked = await call(
                "POST",
                "/v1/approvals",
                tool=tool,
                arguments={"path": str(tmp_path / uuid.uuid4().hex), **arguments},
                requester=ME.model_dump(exclude_none=True),
            )
            approval_id = str(asked["approval_id"])

            async def pending() -> dict[str, object] | None:
                found = await call("GET", f"/v1/approvals/{approval_id}")
                return found if found["phase"] == "pending" else None

            state = (await until(pending))["state"]
            assert isinstance(state, dict)
            await call(
                "POST",
                f"/v1/approvals/{approval_id}/decide",
                "approver",
                decision="approve",
                payload_sha256=state["payload_sha256"],
                actor=ME.model_dump(exclude_none=True),
            )
            return approval_id

        done = await ended("mark")
        assert (await call("GET", f"/v1/approvals/{done}?wait=60"))["status"] == "executed"
        late = await call(
            "POST",
            f"/v1/approvals/{done}/decide",
            "approver",
            decision="reject",
            payload_sha256="0" * 64,
            actor={"open_id": "ou_me"},
        )
        assert late["kind"] == "tampered"
        frozen = await ended("raises")
        assert (await call("GET", f"/v1/approvals/{frozen}?wait=60"))["status"] == "frozen"
        ruled = await call(
            "POST",
            f"/v1/frozen/{frozen}/settle",
            "operator",
            ruling="executed",
            operator=Identity(open_id="ou_operator").model_dump(exclude_none=True),
            reason="It is in the books.",
        )
        assert ruled["kind"] == "settled"
        remembered = await ended("ask_once")
        assert (await call("GET", f"/v1/approvals/{remembered}?wait=60"))["status"] == "executed"
        await ours.seal()
        assert await reading.verify() == []
        gate = await Assent.connect(client=client, reader=Reader(reading))
        assert len(await gate.tools()) > 10


async def test_a_tools_worker_decides_in_anyones_name_through_temporal(
    with_roles: LedgerWithRoles, client: Client, tmp_path: Path
) -> None:
    """Where no authorizer says otherwise: its role in the ledger stops it from nothing that Temporal does for it."""
    taken_over, path = Registry(), tmp_path / "m"

    @tool(name="mark", registry=taken_over)
    def mark(path: str) -> int:
        return leave_mark(path)

    @tool(name="overreach", registry=taken_over, permission="public")
    async def overreach(approval_id: str, payload_sha256: str) -> str:
        bare = await Assent.connect(client=await servers.connect(client.service_client.config.target_host, namespace))
        verdict = await bare.approval(approval_id).decide("approve", actor=ME, payload_sha256=payload_sha256)
        return verdict.kind.value

    namespace = client.namespace
    settings = Settings(database_url=with_roles.urls["approvals"], heartbeat_timeout=HEARTBEAT)
    async with AsyncExitStack() as stack:
        ours, tools = with_roles.open("approvals"), with_roles.open("tools")
        for ledger in (ours, tools):
            stack.push_async_callback(ledger.dispose)
        await tools.publish((each.manifest for each in taken_over.tools.values()), datetime.now(UTC))
        for worker in (approvals_worker(client, ours, settings), *tool_workers(client, tools, taken_over)):
            await stack.enter_async_context(worker)
        gate = await Assent.connect(client=client, reader=Reader(ours))
        waiting = await gate.request("mark", {"path": str(path)}, requester=ME)
        hash_ = (await waiting.state()).payload_sha256
        said = {"approval_id": waiting.id, "payload_sha256": hash_}
        attacked = await gate.call("overreach", said, requester=Identity(open_id="ou_stranger"))
        assert (attacked.status, attacked.content) == ("executed", "accepted")
        outcome = await waiting.outcome()
        assert (outcome.status, outcome.decided_by, marks(path)) == ("executed", ME, 1)


async def test_the_command_makes_them_and_says_what_is_missing(with_roles: LedgerWithRoles, tmp_path: Path) -> None:
    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASSENT_", "LEDGER_"))}
        command = [sys.executable, "-m", "ledger", "roles", "--prefix", f"c{uuid.uuid4().hex[:8]}"]
        return subprocess.run(
            command, env={**clean, **environment}, cwd=ROOT, capture_output=True, text=True, check=False
        )

    done = run(ASSENT_DATABASE_URL=with_roles.owner, LEDGER_PASSWORD_API="secret-1")
    assert done.returncode == 0, done.stderr
    assert "_api." in done.stdout
    assert "secret-1" not in done.stdout + done.stderr
    missing = run(ASSENT_DATABASE_URL=with_roles.owner)
    assert (missing.returncode, "LEDGER_PASSWORD_API" in missing.stderr) == (2, True)
    file = tmp_path / "ledger.db"
    file.touch()
    refusal = run(ASSENT_DATABASE_URL=f"sqlite+aiosqlite:///{file}", LEDGER_PASSWORD_API="x")
    assert (refusal.returncode, "SQLite has no roles" in refusal.stderr) == (2, True)
