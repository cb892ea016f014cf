"""Who may do what in a PostgreSQL ledger: one role for each process, each with what it needs and no more.

Whoever makes the schema owns it. No process alters or drops a table, and none changes or deletes a line of the audit:
for that one would have to be the owner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqlalchemy import text

from ledger.engine import Connection, Engine

PREFIX = "assent"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

READ, ADD, CHANGE, REMOVE = "SELECT", "INSERT", "UPDATE", "DELETE"

ROLES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "api": {},
    "approvals": {
        "approvals": (ADD, CHANGE),
        "revisions": (ADD,),
        "conversations": (ADD, CHANGE),
        "questions": (ADD, CHANGE),
        "runs": (ADD, CHANGE),
        "interactions": (ADD, CHANGE),
        "awaited_keys": (ADD, REMOVE),
        "chats_seen": (ADD, CHANGE),
        "chat_members": (ADD, REMOVE),
        "decisions": (ADD,),
        "claims": (ADD, CHANGE),
        "claim_aliases": (ADD, CHANGE),
        "attempts": (ADD, CHANGE),
        "late_results": (ADD, CHANGE),
        "settlements": (ADD, CHANGE),
        "retries": (ADD,),
        "messages": (ADD, CHANGE),
        "grants": (ADD, CHANGE),
        "policies": (ADD,),
        "overrides": (ADD,),
        "person_ids": (ADD, CHANGE, REMOVE),
        "shared_files": (ADD, CHANGE, REMOVE),
        "shared_file_owners": (ADD, REMOVE),
        "file_pins": (ADD, CHANGE, REMOVE),
        "file_chunks": (ADD, REMOVE),
        "audit": (ADD,),
        "audit_sinks": (ADD, CHANGE, REMOVE),
        "audit_outbox": (ADD, REMOVE),
        "seals": (ADD,),
    },
    "tools": {
        "catalogue": (ADD, CHANGE),
        "claims": (ADD, CHANGE),
        "claim_aliases": (ADD, CHANGE),
        "attempts": (ADD, CHANGE),
        "late_results": (ADD, CHANGE),
        "settlements": (ADD,),
        "runs": (ADD, CHANGE),
        "interactions": (CHANGE,),
        # To hold an approval's row, and to say that its audit waits for a seal.
        "approvals": (f"{CHANGE} (unsealed_since)",),
        # To hold a grant's row while a call begins on it: PostgreSQL asks for the right to change something.
        "grants": (f"{CHANGE} (granted_at)",),
        "audit": (ADD,),
        "audit_outbox": (ADD,),
        "seals": (ADD,),
    },
}
"""What each process may do beside reading, which all of them may, in every table but these."""

UNREAD: Mapping[str, tuple[str, ...]] = {"api": ("file_chunks",)}
"""What a process has no business reading: agents are told of files, and never get their bytes."""


def role_name(prefix: str, process: str) -> str:
    """What a process's role is called, such as `assent_api`."""
    name = f"{prefix}_{process}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a role: small letters, digits and _")
    return name


def passwords(environment: Mapping[str, str]) -> dict[str, str]:
    """The passwords that are to be given, by process: LEDGER_PASSWORD_API and the like."""
    given = {process: environment.get(f"LEDGER_PASSWORD_{process.upper()}", "") for process in ROLES}
    return {process: password for process, password in given.items() if password}


async def grant(engine: Engine, given: Mapping[str, str], prefix: str = PREFIX) -> list[str]:
    """Make the roles of these processes, with these passwords, and let each do what it needs. Again is harmless.

    The tables must be there, and the connection be their owner's, with the right to make roles. Returns their names.
    """
    if engine.dialect.name != "postgresql":
        raise ValueError("SQLite has no roles: whoever can read the file can write it")
    names = {process: role_name(prefix, process) for process in given}
    await engine.write(_grant, names, given)
    return list(names.values())


async def _grant(connection: Connection, names: Mapping[str, str], given: Mapping[str, str]) -> None:
    database = (await connection.execute(text("SELECT quote_ident(current_database())"))).scalar_one()
    for closed in (f"DATABASE {database}", "SCHEMA public"):
        await connection.execute(f"REVOKE ALL ON {closed} FROM PUBLIC")
    for process, role in names.items():
        await _make(connection, role, given[process])
        await connection.execute(f"GRANT CONNECT ON DATABASE {database} TO {role}")
        for statement in _rights(role, process):
            await connection.execute(statement)


async def _make(connection: Connection, role: str, password: str) -> None:
    """A role and its password. The statement takes no parameters, so the database itself quotes it."""
    known = await connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role})
    if known.first() is None:
        await connection.execute(f"CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE")
    quoted = await connection.execute(text("SELECT quote_literal(CAST(:password AS text))"), {"password": password})
    await connection.execute(f"ALTER ROLE {role} PASSWORD {quoted.scalar_one()}")


def _rights(role: str, process: str) -> Iterator[str]:
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role}"
    yield f"GRANT USAGE ON SCHEMA public TO {role}"
    yield f"GRANT {READ} ON ALL TABLES IN SCHEMA public TO {role}"
    for table in UNREAD.get(process, ()):
        yield f"REVOKE {READ} ON {table} FROM {role}"
    for table, rights in ROLES[process].items():
        yield f"GRANT {', '.join(rights)} ON {table} TO {role}"
    if not ROLES[process]:
        yield f"ALTER ROLE {role} SET default_transaction_read_only = on"
