"""What an approval remembers of decisions, and what the audit is still to be told. Both are bounded in bytes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Generic, Self, TypeVar

from assent import sizes
from assent.contracts.answers import JudgedAnswer
from assent.contracts.audit import AuditEntry, AuditEvent
from assent.contracts.decision import Judged, VerdictKind
from assent.contracts.values import Frozen

Verdicts = TypeVar("Verdicts", bound=Judged | JudgedAnswer)
"""What is remembered of a decision, or of an answer."""

_MOST_AT_ONCE = 20
"""How many audit entries one message carries."""
_MOST_REMEMBERED = 150
"""How many verdicts an approval remembers: with the longest ids, still far below what one message may hold."""


class Notes(Frozen, Generic[Verdicts]):
    """Verdicts that were given, and audit entries that the ledger does not have yet."""

    judged: tuple[Verdicts, ...] = ()
    unwritten: tuple[AuditEntry, ...] = ()
    unnoted: int = 0
    """Refusals that found no room to be recorded in."""
    malformed: int = 0
    """Messages that could not be read and were set aside."""

    # Verdicts

    def verdict_on(self, event_id: str) -> Verdicts | None:
        return next((each for each in self.judged if each.event_id == event_id), None)

    def remember(self, judged: Verdicts, counted: Collection[str]) -> Self:
        """Keep a verdict; where there is no room, forget the oldest, one that changed nothing before one that counts.

        counted: the events whose approvals count.
        """
        kept: list[Verdicts] = [*self.judged]
        left = sizes.JUDGED - sizes.size(judged) - sizes.total(kept)
        while kept and (len(kept) >= _MOST_REMEMBERED or left < 0):
            gone = _least_needed(kept, counted)
            kept.remove(gone)
            left += sizes.size(gone)
        return self.model_copy(update={"judged": (*kept, judged)})

    def overtaken(self, verdict: VerdictKind) -> Self:
        """Something else was on record before: what was accepted did not count, and is told so."""
        late = {"verdict": verdict}
        judged = (
            each.model_copy(update=late) if each.verdict is VerdictKind.ACCEPTED else each for each in self.judged
        )
        return self.model_copy(update={"judged": tuple(judged)})

    # The audit

    def note(self, entry: AuditEntry) -> Self:
        return self.model_copy(update={"unwritten": (*self.unwritten, entry)})

    def note_refusal(self, entry: AuditEntry) -> Self:
        """Note a decision that was refused, if there is room: refusals crowd out none that count."""
        if self.has_room(sizes.size(entry), sizes.REFUSALS):
            return self.note(entry)
        return self.model_copy(update={"unnoted": self.unnoted + 1})

    def has_room(self, size: int, limit: int = sizes.UNWRITTEN) -> bool:
        """Whether so much more can wait to be recorded."""
        return sizes.total(self.unwritten) + size <= limit

    @property
    def next_entries(self) -> tuple[AuditEntry, ...]:
        """What is to be written next, as much as one message carries."""
        fitting: list[AuditEntry] = []
        room = sizes.BATCH
        for entry in self.unwritten[:_MOST_AT_ONCE]:
            room -= sizes.size(entry)
            if room < 0 and fitting:
                break
            fitting.append(entry)
        return tuple(fitting)

    def written(self, entries: Collection[AuditEntry], now: datetime) -> Self:
        """The ledger has these; once it has all, it is told how many refusals found no room meanwhile."""
        done = {entry.once for entry in entries}
        left = tuple(entry for entry in self.unwritten if entry.once not in done)
        notes = self.model_copy(update={"unwritten": left})
        if left or not self.unnoted:
            return notes
        said = AuditEntry(
            event=AuditEvent.FORBID,
            at=now,
            once=f"unnoted:{now.isoformat()}",
            reason=f"{self.unnoted} decisions more were refused while the ledger was out of reach",
        )
        return notes.model_copy(update={"unwritten": (said,), "unnoted": 0})

    def set_aside(self) -> Self:
        """A message could not be read."""
        return self.model_copy(update={"malformed": self.malformed + 1})


def _least_needed(judged: Sequence[Verdicts], counted: Collection[str]) -> Verdicts:
    refused = (each for each in judged if each.verdict is not VerdictKind.ACCEPTED)
    spent = (each for each in judged if each.event_id not in counted)
    return next(refused, None) or next(spent, None) or judged[0]
