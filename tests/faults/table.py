"""The fault matrix: what must be seen after each fault at each moment. `docs/faults.md` shows it as it was seen."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Moment(StrEnum):
    """Where in a call the fault strikes."""

    CLAIM = "before claim"
    TOOL = "in the tool"
    RECORD = "before record"
    RECORDED = "after record"
    REPORT = "before report"


class Seen(NamedTuple):
    """What was seen of one call, all of it from outside."""

    status: str
    effects: str
    claim: str
    card: str


class Impossible(NamedTuple):
    """A fault that cannot strike at a moment, and why."""

    why: str


class Fault(StrEnum):
    KILL = "SIGKILL"
    KILL_SAFE = "SIGKILL, retry-safe tool"
    STOP = "SIGSTOP past the heartbeat, then SIGCONT"
    SENT_AWAY = "SIGSTOP until PostgreSQL sends it away, then SIGCONT"
    DRAIN = "SIGTERM: the worker drains"
    LOST_REQUEST = "ledger's network cut before the call"
    LOST_ANSWER = "ledger's network cut after the call"
    CUT_LONG = "ledger's network cut until the worker gives up"
    DISK_FULL = "disk full (SQLite)"
    GROUP = "SIGKILL in the middle of a grouped commit (SQLite)"
    POSTGRES = "PostgreSQL restarted"
    TEMPORAL = "Temporal restarted"
    TEMPORAL_AWAY = "Temporal out of reach for longer than the heartbeat"
    EXCEPTION = "exception"
    HANG = "hang"
    HARD_TIMEOUT = "hard timeout"
    CLOCK_AHEAD = "clock stepped a day ahead"
    CLOCK_BACK = "clock stepped a day back"
    OTHER_CLOCK = "SIGKILL, and the clock of whoever comes next is two hours ahead"
    DENIED = "the policy denies the tool"
    RESET = "the workflow is reset"


Expected = dict[Moment, Seen | Impossible]

_EXECUTED = Seen("executed", "1", "executed", "Executed")
_TWICE = Seen("executed", "2 under one key", "executed", "Executed")
_FROZEN = Seen("frozen", "1", "unknown", "Outcome unknown")
_FROZEN_LATE = Seen("frozen", "1", "unknown + late executed", "Outcome unknown")
_NOT_RUN = Seen("failed", "0", "closed", "Failed")
_NO_TRANSACTION = "it is within no transaction; the row above stops it"
_CALM = dict.fromkeys(Moment, _EXECUTED)

TABLE: dict[Fault, Expected] = {
    Fault.KILL: {**_CALM, Moment.TOOL: _FROZEN, Moment.RECORD: _FROZEN},
    Fault.KILL_SAFE: {**_CALM, Moment.TOOL: _TWICE, Moment.RECORD: _TWICE},
    Fault.STOP: {**_CALM, Moment.CLAIM: _FROZEN_LATE, Moment.TOOL: _FROZEN_LATE},
    Fault.SENT_AWAY: {
        Moment.CLAIM: _EXECUTED,
        Moment.TOOL: Impossible(_NO_TRANSACTION),
        Moment.RECORD: _FROZEN_LATE,
        Moment.RECORDED: Impossible(_NO_TRANSACTION),
        Moment.REPORT: Impossible(_NO_TRANSACTION),
    },
    Fault.DRAIN: {**_CALM},
    Fault.LOST_REQUEST: {
        **_CALM,
        Moment.RECORDED: Impossible("the record has arrived; what can be lost now is its answer, the next row"),
    },
    Fault.LOST_ANSWER: {
        Moment.CLAIM: _EXECUTED,
        Moment.TOOL: Impossible("nothing is being asked of the ledger; the row above cuts the idle connections"),
        Moment.RECORD: Impossible("a record whose answer is lost has been made; that is the next moment"),
        Moment.RECORDED: _EXECUTED,
        Moment.REPORT: Impossible("the ledger has answered everything; the row above cuts the idle connections"),
    },
    Fault.CUT_LONG: {**_CALM, Moment.CLAIM: _NOT_RUN, Moment.TOOL: _FROZEN, Moment.RECORD: _FROZEN},
    Fault.DISK_FULL: {
        **_CALM,
        Moment.RECORD: _FROZEN,
        Moment.RECORDED: Impossible("an embedded ledger answers as it records: there is no moment in between"),
    },
    Fault.GROUP: {
        Moment.CLAIM: _EXECUTED,
        Moment.TOOL: _FROZEN,
        Moment.RECORD: _FROZEN,
        Moment.RECORDED: _EXECUTED,
        Moment.REPORT: Impossible("nothing of the call is left to commit; the first row kills the worker there"),
    },
    Fault.POSTGRES: {**_CALM},
    Fault.TEMPORAL: {**_CALM},
    Fault.TEMPORAL_AWAY: {**_CALM, Moment.CLAIM: _FROZEN_LATE, Moment.TOOL: _FROZEN_LATE},
    Fault.EXCEPTION: {
        Moment.CLAIM: _NOT_RUN,
        Moment.TOOL: _FROZEN,
        Moment.RECORD: _FROZEN,
        Moment.RECORDED: Impossible("nothing runs between the record and the report that the outside could make raise"),
        Moment.REPORT: Impossible("as after the record: what cannot be serialised or sent is dealt with before it"),
    },
    Fault.HANG: {
        Moment.CLAIM: _NOT_RUN,
        Moment.TOOL: _FROZEN_LATE,
        Moment.RECORD: _FROZEN,
        Moment.RECORDED: _EXECUTED,
        Moment.REPORT: _EXECUTED,
    },
    Fault.HARD_TIMEOUT: {**_CALM, Moment.CLAIM: _NOT_RUN, Moment.TOOL: _FROZEN, Moment.RECORD: _FROZEN},
    Fault.CLOCK_AHEAD: {**_CALM},
    Fault.CLOCK_BACK: {**_CALM},
    Fault.OTHER_CLOCK: {**_CALM, Moment.TOOL: _FROZEN, Moment.RECORD: _FROZEN},
    Fault.DENIED: {**_CALM, Moment.CLAIM: _NOT_RUN},
    Fault.RESET: {**_CALM, Moment.CLAIM: _FROZEN_LATE, Moment.TOOL: _FROZEN_LATE},
}
