"""The matrix as text: `docs/faults.md` up to its record of random schedules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.faults.table import TABLE, Fault, Impossible, Moment, Seen
from tests.support import program_deaths, question_deaths
from tests.support.dying_worker import QUESTION_STEPS, RUN_STEPS, Step

DOCUMENT = Path(__file__).parents[2] / "docs" / "faults.md"
RECORD = "## Random schedules"
"""Where the compared part of the document ends."""

_PREFACE = Path(__file__).with_name("preface.md")

_HOW = {
    Fault.KILL: "The tool worker is killed; another starts.",
    Fault.KILL_SAFE: "The same death, under a tool that may be begun again with the same key.",
    Fault.STOP: "The worker is stopped until another one has taken the call over, then continued. Stopped within the "
    "transaction of its claim or record, it still holds the row: the other one waits for it.",
    Fault.SENT_AWAY: "The worker is stopped within the transaction of its claim or record until PostgreSQL ends that, "
    "and another worker has dealt with the call; then it is continued.",
    Fault.DRAIN: "The worker is told to leave while it has calls in hand. It leaves with exit code 0.",
    Fault.LOST_REQUEST: "The proxy breaks the connection when the worker sends the commit, which never arrives (in the "
    "tool, before report: it breaks the idle connections). New connections can be made at once.",
    Fault.LOST_ANSWER: "The proxy lets the commit arrive, and breaks the connection before the answer does.",
    Fault.CUT_LONG: "The tool worker cannot reach the ledger any more: not until the call may no longer begin, or the "
    "worker gives up recording. The approvals worker can.",
    Fault.DISK_FULL: "The ledger's file system has not one block left, for the approvals worker either: until a claim "
    "was refused and the tool worker gave up recording. Then there is room again.",
    Fault.GROUP: "What several calls write is committed together. Before claim, before record: the worker is killed "
    "when it has written one call's claim and another's record, and has not committed: neither is there. After record: "
    "two records are committed, and the worker is killed before either call hears so: both are there. Another worker "
    "starts.",
    Fault.POSTGRES: "`pg_ctl restart -m immediate`: every connection breaks, the database recovers as after a crash.",
    Fault.TEMPORAL: "The server is killed, the calls go on and end, and the server starts again on its file.",
    Fault.TEMPORAL_AWAY: "The server is killed, stays away for longer than the heartbeat timeout, and starts again on "
    "its file; the worker, which was well all the while, is heard again only after it was given up on. Temporal sees "
    "nothing but silence: what still runs by then is called unknown, and what it says in the end is kept beside it. "
    "What has ended is told.",
    Fault.EXCEPTION: "In the tool: it takes effect and raises. Before claim, before record: the database raises, each "
    "time it is asked.",
    Fault.HANG: "In the tool: it ends only after its timeout. Before claim, before record, after record: the ledger "
    "does not answer until the worker has given up. Before report: Temporal hears nothing until a heartbeat is missed.",
    Fault.HARD_TIMEOUT: "The worker is killed, and none comes back until Temporal's last limit (schedule-to-close) has "
    "passed.",
    Fault.CLOCK_AHEAD: "The worker's wall clock jumps. Before claim: while the call waits to be taken. Whether a call "
    "comes too late is measured by Temporal's clock, and what the ledger compares by the database's.",
    Fault.CLOCK_BACK: "The same, in the other direction.",
    Fault.OTHER_CLOCK: "As at the top; the worker that starts then takes every time from a wrong clock.",
    Fault.DENIED: "An operator's rule stops the tool while calls are under way: what has not begun no longer does.",
    Fault.RESET: "An operator resets the approval to its beginning in Temporal, and the clicks are kept. What is on "
    "record is told again. A call that still runs then is never begun a second time, but nobody answers for it: what "
    "it says in the end is kept.",
}


def section(fault: Fault, seen: Mapping[Moment, Seen]) -> str:
    """What was seen of one fault. Where it cannot strike, the table says why."""
    lines = [f"## {fault}", "", _HOW[fault], ""]
    lines += ["| moment | status | side effects | ledger | card |", "|---|---|---|---|---|"]
    whys = []
    for moment, expected in TABLE[fault].items():
        if isinstance(expected, Impossible):
            lines.append(f"| {moment} | — | | | |")
            whys.append(f"{moment.capitalize()}: {expected.why}.")
        else:
            lines.append(f"| {moment} | " + " | ".join(seen[moment]) + " |")
    return "\n".join([*lines, *(("", *whys) if whys else ()), ""])


_WHEN = {
    "Ledger.register_question": "{} the question is on record",
    "Ledger.sent": "{} its card is noted as sent",
    "Ledger.offer_line": "answered, {} the line is kept for whoever writes it",
    "Ledger.close_line": "written, {} the ledger says what became of the line",
    "Ledger.conclude_question": "{} its end is on record",
    "TemporalQuestions.ask": "right {} it asked",
    "TemporalQuestions.outcome": "right {} it was told the answer",
    "Ledger.claim_line": "answered, {} the row that says who writes",
    "ProgramProcess.write": "the row is there, {} the write",
    "Ledger.confirm_line": "line written, {} its confirmation",
    "Ledger.end_run": "{} the end of the program is noted",
}
"""Where a worker dies, by the function before or after which it does."""
_QUESTIONS = (
    "a worker dies while a person is asked",
    "An agent asks, or a `retry_safe` tool that runs; the person answers again and again until somebody hears it. "
    "The worker is killed with SIGKILL, and another starts. One answer counts, nobody is asked twice, and the audit "
    "agrees. `python -m tests.faults --questions` acts out these rows alone, on both databases.",
    "| who dies | when | question | answers that count | call |",
)
_PROGRAMS = (
    "a worker dies while a program asks",
    "The program of a call asks twice, and appends every line that it reads to a file, which the test counts. The "
    "worker is killed with SIGKILL, and another starts; with a tools worker its program is lost. No line is read "
    "twice. A tools worker that dies right after it asked may have been answered as fast: then the first interaction "
    "is resolved, and one line was read. `python -m tests.faults --programs` acts out these rows alone, on both "
    "databases.",
    "| who dies | when | call | first interaction | lines read |",
)


def deaths(about: tuple[str, str, str], steps: Mapping[str, Step], rows: Mapping[str, tuple[str, ...]]) -> str:
    """What must be seen where a worker dies at a step."""
    title, how, head = about
    lines = [f"## {title}", "", how, "", head, "|---" * 5 + "|"]
    for name, step in steps.items():
        when = _WHEN[name.rpartition(" ")[0]].format(step.when)
        lines.append(f"| {step.kind} worker | {when} | " + " | ".join(cell or "—" for cell in rows[name]) + " |")
    return "\n".join([*lines, ""])


def matrix(seen: Mapping[Fault, Mapping[Moment, Seen]]) -> str:
    asked = (
        deaths(_QUESTIONS, QUESTION_STEPS, question_deaths.ROWS),
        deaths(_PROGRAMS, RUN_STEPS, program_deaths.ROWS),
    )
    return "\n".join([_PREFACE.read_text(), *(section(fault, seen[fault]) for fault in Fault), *asked])


def write(seen: Mapping[Fault, Mapping[Moment, Seen]]) -> None:
    """Replace the matrix, and keep what is on record of the random schedules."""
    kept = DOCUMENT.read_text().partition(RECORD)[2] if DOCUMENT.exists() else "\n"
    DOCUMENT.write_text(matrix(seen) + "\n" + RECORD + kept)


def violations(fault: Fault, seen: Mapping[Moment, Seen]) -> list[str]:
    """What contradicts the sentence that the product stands on, whatever the table says."""
    found = []
    for moment, cell in seen.items():
        several = cell.effects not in ("0", "1")
        allowed = fault is Fault.KILL_SAFE and cell.effects.endswith("under one key")
        wrong = (
            (several and not allowed)
            or (cell.status == "executed" and cell.effects == "0")
            or (cell.status == "failed" and cell.effects != "0")
            or (cell.status == "frozen") != cell.claim.startswith("unknown")
        )
        if wrong:
            found.append(f"{fault}, {moment}: {cell}")
    return found


def differences(seen: Mapping[Fault, Mapping[Moment, Seen]]) -> list[str]:
    """What was seen otherwise than the sentence or the table has it."""
    found = [line for fault, row in seen.items() for line in violations(fault, row)]
    for fault, row in seen.items():
        for moment, cell in TABLE[fault].items():
            if isinstance(cell, Seen) and row.get(moment) != cell:
                found.append(f"{fault}, {moment}: {row.get(moment)}, and the table says {cell}")
    return found
