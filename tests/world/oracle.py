"""What must hold, whatever happens: every word that anybody is told is held against what truly happened."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import TYPE_CHECKING, Any

from assent import names
from assent.contracts import Outcome, Ruled, Ruling, RulingKind
from assent.messages import ToolCall
from tests.world.outside import Execution

if TYPE_CHECKING:
    from tests.world.history import History

_DID_NOT_RUN = frozenset({"failed", "rejected", "expired", "cancelled", "superseded"})
_RAN = frozenset({"executed", "replayed"})


class Oracle:
    """Knows the truth, hears every word, and says which of them were wrong."""

    def __init__(self, history: History, looking: sqlite3.Connection) -> None:
        self._history, self._looking = history, looking
        self.violations: list[str] = []
        self.told: dict[str, tuple[str, float]] = {}
        """What was said of each approval, and when."""
        self._outcomes: dict[str, str] = {}
        self._settlements: dict[str, str] = {}
        self._key_of: dict[str, str] = {}
        self._rights: set[str] = set()
        self.rulings: dict[str, Ruling] = {}

    def wrong(self, what: str) -> None:
        if what not in self.violations and not self._history.is_closed:
            self._history.note(f"VIOLATION: {what}")
            self.violations.append(what)

    # What happens

    def took_effect(self, execution: Execution) -> None:
        """Nobody was told before that this would not happen; and it happens once."""
        key, outside = execution.key, self._history.outside
        times = sum(effect.execution.key == key for effect in outside.effects)
        if times > 1 + self._excuses(key, RulingKind.NOT_EXECUTED):
            self.wrong("a key took effect twice")
        status, _ = self.told.get(execution.approval_id, ("", 0.0))
        if status in _DID_NOT_RUN and not self._is_excused(execution):
            self.wrong(f"it took effect after its approval was called {status}")
        for approval_id, (status, when) in self.told.items():
            others = approval_id != execution.approval_id and self._key_of.get(approval_id) == key
            if others and status == "failed" and execution.began_at < when and not self._is_excused(execution):
                self.wrong("it took effect after another approval of its key was called failed")
        settlement = self._settled(execution.approval_id)
        if settlement and settlement["kind"] == "not_executed" and settlement["settled_by"] is None:
            self.wrong("it took effect after a probe or an attempt had settled that it did not")
        if settlement and settlement["kind"] == "not_executed" and settlement["retried"]:
            self.wrong("it took effect after a retry had settled that it did not")

    def asked(self, who: str, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """After every transaction."""
        if name == "begin":
            self._has_begun(*arguments[:2], answer)
        self.look()

    def _has_begun(self, call: ToolCall, holder: Any, beginning: Any) -> None:
        self._history.note(f"begin {call.consent}: {beginning.right}")
        if beginning.right != "run" or holder.token in self._rights:
            return
        self._rights.add(holder.token)
        if self._history.is_denied:
            self.wrong("a call began that the policy denied")
        if self.told.get(call.approval_id, ("", 0))[0] in _DID_NOT_RUN:
            self.wrong("a call began whose approval had ended without it")

    def closed(self, kind: str, workflow_id: str, value: Any) -> None:
        """An approval has ended, and whoever waits for it is told."""
        if kind == names.APPROVAL:
            self._hear(value)

    def _hear(self, outcome: Outcome) -> None:
        approval_id, status = outcome.approval_id, outcome.status.value
        self._history.note(f"TOLD {approval_id}: {status} ({outcome.reason})")
        before = self.told.get(approval_id)
        if before is not None and before[0] != status:
            self.wrong(f"an approval was called {before[0]}, then {status}")
        self.told[approval_id] = (status, asyncio.get_running_loop().time())
        key = outcome.idempotency_key or ""
        self._key_of[approval_id] = key
        outside = self._history.outside
        if status in _RAN and not outside.happened(key) and not self._excuses(key, RulingKind.EXECUTED):
            self.wrong(f"{status} without an effect")
        mine = [effect.execution for effect in outside.effects if effect.execution.approval_id == approval_id]
        if status in _DID_NOT_RUN and not all(map(self._is_excused, mine)):
            self.wrong(f"{status} though it took effect")
        same = [effect.execution for effect in outside.effects if effect.execution.key == key]
        if status == "failed" and not all(map(self._is_excused, same)):
            self.wrong("failed though its key took effect")
        self.look()

    def ruled(self, ruling: Ruling, ruled: Ruled) -> None:
        """An operator was told what became of their word."""
        self._history.note(f"RULED {ruling.kind}: {ruled.kind}")
        said = ruled.settlement
        is_final = ruled.kind == "settled" and ruling.kind is not RulingKind.RETRY
        if is_final and said is not None and said.kind != ruling.kind:
            self.wrong(f"a ruling {ruling.kind} was settled as {said.kind}")

    # What the ledger says

    def look(self) -> None:
        """What was once written down stays; and it is true."""
        for approval_id, outcome in self._looking.execute("SELECT approval_id, outcome FROM approvals"):
            if outcome is None:
                continue
            if self._outcomes.setdefault(approval_id, outcome) != outcome:
                self.wrong("an outcome was changed")
            status = json.loads(outcome)["status"]
            if approval_id in self.told and self.told[approval_id][0] != status:
                self.wrong(f"an approval was called {self.told[approval_id][0]}, and the ledger says {status}")
        for approval_id, text in self._looking.execute("SELECT approval_id, settlement FROM settlements"):
            if approval_id not in self._settlements:
                self._settlements[approval_id] = text
                self._check_settlement(approval_id, json.loads(text))
            elif self._settlements[approval_id] != text:
                self.wrong("a settlement was changed")

    def _check_settlement(self, approval_id: str, settlement: dict[str, Any]) -> None:
        kind, by, retried = settlement["kind"], settlement["settled_by"], settlement["retried"]
        self._history.note(f"SETTLED {approval_id}: {kind}, by {'a person' if by else 'nobody'}, retried {retried}")
        (key,) = self._looking.execute(
            "SELECT idempotency_key FROM claims WHERE approval_id = ?", (approval_id,)
        ).fetchone()
        ruling = self._ruling_of(approval_id)
        word_of_a_person = by is not None and not retried
        if by is not None and ruling is None:
            self.wrong("a settlement names a person who said nothing")
        if word_of_a_person and ruling is not None and ruling.kind != kind:
            self.wrong(f"a ruling {ruling.kind} is recorded as {kind}")
        happened = self._history.outside.happened(key)
        if kind == "executed" and not happened and not word_of_a_person:
            self.wrong("settled as executed without an effect")
        if (
            kind == "not_executed"
            and happened
            and not word_of_a_person
            and not self._excuses(key, RulingKind.NOT_EXECUTED)
        ):
            self.wrong("settled as not executed though it took effect")

    def _ruling_of(self, approval_id: str) -> Ruling | None:
        row = self._looking.execute(
            "SELECT body FROM audit WHERE approval_id = ? AND once = 'settle'", (approval_id,)
        ).fetchone()
        return self.rulings.get(json.loads(row[0])["event_id"]) if row else None

    def _settled(self, approval_id: str) -> dict[str, Any] | None:
        text = self._settlements.get(approval_id)
        found: dict[str, Any] | None = json.loads(text) if text else None
        return found

    def _excuses(self, key: str, kind: RulingKind) -> int:
        """How often a person said so of this key: that is taken at their word."""
        rows = self._looking.execute(
            "SELECT DISTINCT s.settlement FROM settlements s JOIN claims c ON c.approval_id = s.approval_id"
            " WHERE c.idempotency_key = ?",
            (key,),
        )
        found = [json.loads(text) for (text,) in rows]
        return sum(s["kind"] == kind and s["settled_by"] is not None and not s["retried"] for s in found)

    def _is_excused(self, execution: Execution) -> bool:
        settlement = self._settled(execution.approval_id)
        by_a_person = settlement is not None and settlement["settled_by"] is not None and not settlement["retried"]
        return bool(by_a_person and settlement and settlement["kind"] == "not_executed")

    # In the end

    async def at_the_end(self) -> None:
        """Everyone was answered, nothing is left open, and the audit is whole."""
        self.look()
        for approval_id in self._history.approvals:
            if approval_id not in self.told and approval_id not in self._history.terminated:
                self.wrong("an approval never ended")
        for consent, state in self._looking.execute("SELECT consent, state FROM claims"):
            if state in ("started", "unknown"):
                self.wrong(f"a claim is left {state}")
                self._history.note(f"left: {consent} {state}")
        for approval_id, outcome in self._looking.execute("SELECT approval_id, outcome FROM approvals"):
            status = json.loads(outcome)["status"] if outcome else None
            if status == "frozen" and approval_id not in self._settlements:
                self.wrong("a frozen approval was never answered")
        for problem in await self._history.transaction(self._history.ledger.verify):
            self.wrong(f"the audit: {problem.partition(':')[2] or problem}")
