"""Tools to try the service with, one for each way a call can end, and for each way people are asked.

What they "do" are lines in `.dev/outbox`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from assent import (
    Approvers,
    Identity,
    Permission,
    ProbeAnswer,
    ProbeResult,
    SharedFile,
    ToolContext,
    ToolOutcome,
    ToolResult,
    program_tool,
    tool,
)


@tool
def send_invoice(to: str, amount: Decimal, ctx: ToolContext, currency: str = "EUR") -> dict[str, Any]:
    """Send an invoice.

    Ends `executed`. The plain case: what it returns is what the agent gets. `amount` is a decimal, sent as a string
    such as "120.00", and `currency` is filled in before anyone is asked, so that it is part of what is approved.
    """
    invoice = {"to": to, "amount": str(amount), "currency": currency, "approval": ctx.approval_id}
    return {"invoice": _write("invoices", invoice), **invoice}


@tool
def archive_file(file: SharedFile, folder: str) -> dict[str, Any]:
    """Put a file that somebody shared with the bot into the archive.

    Ends `executed`. Agents send the file's id. What is shown is what was fetched, and the body gets exactly that.
    """
    archived = {"name": file.name, "bytes": len(file.read()), "sha256": file.sha256, "folder": folder}
    return {"entry": _write("archive", archived), **archived}


@tool(risk="low")
def read_mailbox(folder: str = "inbox") -> ToolResult:
    """Read a mailbox that nobody has connected yet.

    Ends `failed`, with an `authorize_url`. A tool that knows that nothing happened says so with a `ToolResult`. The
    agent can show the link, and ask anew.
    """
    return ToolResult(
        ToolOutcome.NEEDS_USER_AUTH,
        f"The folder {folder!r} belongs to a mailbox that is not connected yet.",
        authorize_url="https://example.com/oauth/authorize?scope=mail.read",
    )


@tool(risk="high")
def transfer_money(to: str, amount: Decimal, ctx: ToolContext) -> None:
    """Transfer money, and lose the connection before the bank answers.

    Ends `frozen`. An exception means: whether it happened is not known. It is neither called failed nor tried
    again.
    """
    _write("transfers", {"to": to, "amount": str(amount), "approval": ctx.approval_id})
    raise ConnectionError("the bank closed the connection before it answered")


@tool(timeout=timedelta(seconds=2))
async def rebuild_index(name: str) -> None:
    """Rebuild a search index that never answers.

    Ends `frozen`, after two seconds. A body that takes longer than its `timeout` may have done its work or not:
    that is unknown, too.
    """
    _write("rebuilds", {"index": name})
    await asyncio.Event().wait()


def find_booking(ctx: ToolContext, room: str, day: date) -> ProbeResult | ProbeAnswer:
    """Whether the booking of this very call is in the book."""
    for booking in _read("bookings"):
        if booking["key"] == ctx.idempotency_key:
            return ProbeResult(ProbeAnswer.EXECUTED, booking)
    return ProbeAnswer.UNKNOWN


@tool(retry_safe=True, attempts=2, probe=find_booking)
def book_room(room: str, day: date, ctx: ToolContext) -> dict[str, Any]:
    """Book a room through a connection that breaks the first time.

    Ends `executed`, with one booking. The tool passes its idempotency key on, so beginning it again is harmless:
    `retry_safe`. The first attempt books and breaks, the second finds its own booking. The probe would be asked if
    the second broke, too.
    """
    found = find_booking(ctx, room, day)
    if isinstance(found, ProbeResult):
        return {**found.content, "attempt": ctx.attempt}
    _write("bookings", {"room": room, "day": day.isoformat(), "key": ctx.idempotency_key})
    raise ConnectionError("the connection broke after the booking was made")


@tool(risk="high", approvers="anyone", sensitive=["password"], max_ttl=timedelta(minutes=5))
def delete_customer(customer: str, password: str) -> dict[str, Any]:
    """Delete a customer for good.

    Ends `executed`; anyone may decide, within five minutes. `password` is part of what is approved and hashed, and
    masked where people look at the call.
    """
    return {"deleted": customer, "deletions": _write("deletions", {"customer": customer})}


@tool(risk="high")
def migrate_database(version: int, ctx: ToolContext) -> None:
    """Migrate a database, and lose the worker in the middle of it.

    Ends `frozen`. The process that runs it is killed outright, as by a power cut. Nobody can know how far it came,
    so nobody says that it was done, or that it failed; and it is not begun again.
    """
    _write("migrations", {"version": version, "approval": ctx.approval_id})
    os.kill(os.getpid(), signal.SIGKILL)


@tool(permission=Permission(execution="auto"), risk="low")
def look_up_rate(currency: str) -> dict[str, str]:
    """Look up what a euro costs.

    Ends `executed`, at once: nobody is asked. What it did is in the audit all the same.
    """
    rates = {"CNY": "7.84", "USD": "1.09", "GBP": "0.85"}
    return {"currency": currency, "rate": rates.get(currency, "not known")}


@tool(permission=Permission(execution="ask-once"), risk="low")
def post_update(channel: str, text: str) -> dict[str, Any]:
    """Post an update for everybody.

    Ends `executed`. Asked for once more, it is not asked about again: the decision is remembered for exactly this
    call, or, if the person says so on the card, for this tool in this chat.
    """
    return {"updates": _write("updates", {"channel": channel, "text": text}), "channel": channel}


BOARD = Approvers(
    kind=Approvers.Kind.PEOPLE,
    people=(Identity(open_id="ou_approver"), Identity(open_id="ou_outsider"), Identity(open_id="ou_operator")),
    threshold=2,
    exclude_requester=True,
)


@tool(approvers=BOARD, max_ttl=timedelta(hours=4))
def sign_contract(customer: str, months: int) -> dict[str, Any]:
    """Sign a contract in the company's name.

    Ends `executed`, once two of three people agree. Who asked for it does not count, and who changes the arguments
    makes the others look again.
    """
    return {"contracts": _write("contracts", {"customer": customer, "months": months}), "customer": customer}


@tool(permission=Permission(result="always"))
def read_payroll(department: str) -> dict[str, Any]:
    """Read what the people of a department earn.

    Ends `executed`, and the agent has the result once a person has released it. Until then, and if it is withheld,
    the agent is told only that the call ran.
    """
    return {"department": department, "people": 7, "total": "31415.00", "currency": "EUR"}


def _outbox(name: str) -> Path:
    return Path(os.environ.get("ASSENT_DEV_DIR") or ".dev") / "outbox" / f"{name}.jsonl"


def _write(name: str, entry: dict[str, Any]) -> int:
    """One side effect that can be counted; returns how many there are now."""
    file = _outbox(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")
    return len(_read(name))


def _read(name: str) -> list[dict[str, Any]]:
    file = _outbox(name)
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


@tool(asks=timedelta(hours=1))
def publish_release(version: str, ctx: ToolContext) -> dict[str, Any]:
    """Publish a release, to those whom somebody chooses while it runs.

    Ends `executed`. It declares with `asks` how long its questions may take. Whoever may decide the call answers; the
    tool's own time does not run meanwhile.
    """
    outcome = ctx.ask(
        {
            "id": "audience",
            "prompt": f"Who should get {version}? / {version} 发给谁？",
            "kind": "choice",
            "options": [{"value": "testers", "label": "Testers / 测试人员"}, {"value": "all", "label": "All / 所有人"}],
        }
    )
    audience = outcome.answers["audience"] if outcome.is_answered else "nobody"
    return {"version": version, "to": audience, "release": _write("releases", {"version": version, "to": audience})}


rebuild = program_tool(
    "rebuild",
    ["sh", "sample_program.sh", "{target}"],
    cwd=Path(__file__).parent,
    failure_codes=[3],
    description="Rebuild an index, with a program that asks three times while it runs.\n\nEnds `executed`.",
    title={"en": "Rebuild an index with a program", "zh": "用程序重建索引"},
)
