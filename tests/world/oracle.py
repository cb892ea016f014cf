"""What must hold, whatever happens: every word that anybody is told is held against what truly happened."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from datetime import datetime
from typing import TYPE_CHECKING, Any

from temporalio.exceptions import ApplicationError

from assent import names
from assent.contracts.execute import ToolCall
from assent.contracts.outcome import Outcome
from assent.contracts.ruling import Ruled, Ruling, RulingKind, Settlement
from tests.world.answers import Answers
from tests.world.lines import Lines
from tests.world.outside import Execution

if TYPE_CHECKING:
    from tests.world.history import History

_DID_NOT_RUN = frozenset({"failed", "rejected", "expired", "cancelled", "superseded"})
_CARRIED = 2 * 1024 * 1024
_RAN = frozenset({"executed", "replayed"})


class Oracle:
    """Knows the truth, hears every word, and says which of them were wrong."""

    def __init__(self, history: History, looking: sqlite3.Connection) -> None:
        self._history, self._looking = history, looking
        self.violations: list[str] = []
        self.questions = Answers(history, looking, self.wrong)
        self.lines = Lines(history, looking, self.wrong)
        self.rulings: dict[str, Ruling] = {}
        """What operators said."""
        self._told: dict[str, tuple[str, float]] = {}
        """What was said of each approval, and when."""
        self._key_of: dict[str, str] = {}
        self._outcomes: dict[str, str] = {}
        self._settlements: dict[str, Settlement] = {}
        self._seen: tuple[Any, ...] = ()
        self._rights: set[str] = set()
        self._waits: set[str] = set()
        self._refused: set[str] = set()
        self._promises: list[tuple[str, str]] = []
        """Of which keys, and when, an operator was told that the call is tried again."""

    def wrong(self, what: str) -> None:
        if what not in self.violations and not self._history.is_closed:
            self._history.note(f"VIOLATION: {what}")
            self.violations.append(what)

    # What happens

    def took_effect(self, execution: Execution) -> None:
        """Nobody was told before that this would not happen; and it happens once."""
        key, effects = execution.key, self._history.outside.effects
        times = sum(effect.execution.key == key for effect in effects)
        if times > 1 + len(self._words(key, RulingKind.NOT_EXECUTED)):
            self.wrong("a key took effect twice")
        if self._times_for_one_person(execution) > 1:
            self.wrong("one person's call took effect twice under two names")
        if self._is_excused(execution):
            return
        for approval_id, (status, when) in self._told.items():
            mine = approval_id == execution.approval_id and status in _DID_NOT_RUN
            other = self._key_of.get(approval_id) == key and status == "failed" and execution.began_at < when
            if mine or (other and not self._is_later(execution, approval_id)):
                self.wrong(f"it took effect after an approval of its key was called {status}")
        settlement = self._settlements.get(execution.approval_id)
        if settlement is not None and settlement.kind is RulingKind.NOT_EXECUTED:
            self.wrong("it took effect after it was settled, by no person's word, that it did not")

    def _is_later(self, execution: Execution, approval_id: str) -> bool:
        """Whether it began, by another consent, after all that an approval ran: whose failure says nothing of it."""
        own = [each.number for each in self._history.outside.executions if each.approval_id == approval_id]
        return bool(own) and execution.approval_id != approval_id and execution.number > max(own)

    def _times_for_one_person(self, execution: Execution) -> int:
        """How often this call of one person took effect, whatever they were called; without a word in between."""
        asked = dict(zip(self._history.approvals, self._history.plan.asked, strict=True))

        def whose(approval_id: str) -> tuple[str, str]:
            each = asked[approval_id]
            own = "" if each.scope == "same" else approval_id
            return each.scope + own, "you" if each.requester == "you" else "me"

        mine = whose(execution.approval_id)
        each = [one.execution for one in self._history.outside.effects if whose(one.execution.approval_id) == mine]
        words = set().union(*(self._words(key, RulingKind.NOT_EXECUTED) for key in {one.key for one in each}))
        return len(each) - len(words) if len({one.key for one in each}) > 1 else 1

    async def asked(self, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """After every transaction."""
        if name == "begin":
            self._has_begun(arguments[0], arguments[1], answer)
        await self.look()

    def _has_begun(self, call: ToolCall, holder: Any, beginning: Any) -> None:
        if beginning.right == "wait":
            if call.consent not in self._waits:
                self._waits.add(call.consent)
                self._history.note(f"begin {call.consent}: wait")
            return
        self._history.note(f"begin {call.consent}: {beginning.right}")
        if beginning.right != "run" or holder.token in self._rights:
            return
        self._rights.add(holder.token)
        if self._history.is_denied:
            self.wrong("a call began that the policy denied")
        if self._told.get(call.approval_id, ("", 0))[0] in _DID_NOT_RUN:
            self.wrong("a call began whose approval had ended without it")
        if call.approval_id in self._settlements:
            self.wrong("a call began that was settled")

    async def closed(self, kind: str, value: Any) -> None:
        """A workflow has ended, and whoever waits for it is told."""
        if kind == names.APPROVAL:
            await self.look()
            self._hear(value)
        if kind == names.QUESTION:
            self.questions.told(value)
            self.lines.told(value)

    def refused(self, approval_id: str, error: ApplicationError) -> None:
        """It never became an approval."""
        self._history.note(f"REFUSED {approval_id}: {error.message}")
        if approval_id.startswith(names.question_workflow("")):
            question_id = approval_id.removeprefix(names.question_workflow(""))
            self.questions.refuse(question_id)
            if not self.lines.refuse(question_id):
                self.wrong(f"a question was refused: {error.message}")
            return
        self._refused.add(approval_id)
        if error.type != "ConversationBusy":
            self.wrong(f"refused: {error.type}")
        elif error.details[1] in self._told:
            self.wrong("refused for the sake of a request that had ended")

    def carries(self, kind: str, argument: Any) -> None:
        """Temporal takes no more than this along."""
        if len(argument.model_dump_json()) > _CARRIED:
            self.wrong(f"{kind} cannot continue as new")

    def _hear(self, outcome: Outcome) -> None:
        approval_id, status, key = outcome.approval_id, outcome.status.value, outcome.idempotency_key or ""
        before = self._told.get(approval_id)
        if before is not None:
            if before[0] != status:
                self.wrong(f"an approval was called {before[0]}, then {status}")
            return
        self._history.note(f"TOLD {approval_id}: {status} ({outcome.reason})")
        self._told[approval_id], self._key_of[approval_id] = (status, asyncio.get_running_loop().time()), key
        effects = [effect.execution for effect in self._history.outside.effects if effect.execution.key == key]
        if status in _RAN and not effects and not self._words(key, RulingKind.EXECUTED):
            self.wrong(f"{status} without an effect")
        whose = [
            each
            for each in effects
            if each.approval_id == approval_id or (status == "failed" and not self._is_later(each, approval_id))
        ]
        if status in _DID_NOT_RUN and not all(map(self._is_excused, whose)):
            self.wrong(f"{status} though it took effect")

    def ruled(self, call: ToolCall, ruling: Ruling, ruled: Ruled, said_at: datetime) -> None:
        """An operator was told what became of their word."""
        if ruling.kind is RulingKind.RETRY and ruled.kind == "retrying":
            self._promises.append((call.idempotency_key, said_at.isoformat()))
            if call.approval_id in self._settlements:
                self.wrong("an operator is told that it is being tried again, and it is settled")
        self._history.note(f"RULED {ruling.kind}: {ruled.kind}")
        said = ruled.settlement
        is_final = ruled.kind == "settled" and ruling.kind is not RulingKind.RETRY
        if is_final and said is not None and said.kind != ruling.kind:
            self.wrong(f"a ruling {ruling.kind} was settled as {said.kind}")

    # What the ledger says

    async def look(self) -> None:
        """What was once written down stays; and it is true."""
        for approval_id, text in self._looking.execute("SELECT approval_id, outcome FROM approvals"):
            if text is not None and self._outcomes.setdefault(approval_id, text) != text:
                self.wrong("an outcome was changed")
            if text is not None:
                self._hear(Outcome.model_validate_json(text))
        self.lines.look()
        for outcome in self.questions.look():
            self.lines.told(outcome)
        counted = "SELECT (SELECT count(*) FROM settlements), (SELECT count(*) FROM claims WHERE answer IS NOT NULL)"
        seen = self._looking.execute(counted).fetchone()
        if seen == self._seen:
            return
        self._seen = seen
        for approval_id in self._history.approvals:
            found = await self._history.transaction(self._history.ledger.settlement, approval_id)
            if found is not None:
                self._check_settlement(approval_id, found)

    def _check_settlement(self, approval_id: str, found: Settlement) -> None:
        before = self._settlements.get(approval_id)
        if before is not None:
            if (before.kind, before.settled_by, before.settled_at) != (found.kind, found.settled_by, found.settled_at):
                self.wrong("a settlement was changed")
            return
        self._settlements[approval_id] = found
        by = "a person" if found.settled_by else "nobody"
        self._history.note(f"SETTLED {approval_id}: {found.kind}, by {by}, retried {found.retried}")
        ruling, key = self._ruling_of(approval_id, found), self._key(approval_id)
        if found.settled_by is not None and ruling is None:
            self.wrong("a settlement names a person who said nothing")
        if self._is_word(approval_id, found) and ruling is not None and ruling.kind != found.kind:
            self.wrong(f"a ruling {ruling.kind} is recorded as {found.kind}")
        happened = self._history.outside.happened(key)
        if found.kind is RulingKind.EXECUTED and not happened and not self._words(key, RulingKind.EXECUTED):
            self.wrong("settled as executed without an effect")
        if found.kind is RulingKind.NOT_EXECUTED and happened and not self._words(key, RulingKind.NOT_EXECUTED):
            self.wrong("settled as not executed though it took effect")

    def _ruling_of(self, approval_id: str, found: Settlement) -> Ruling | None:
        ruling_id = getattr(found, "ruling_id", None)
        settle = "SELECT body FROM audit WHERE approval_id = ? AND once = 'settle'"
        row = self._looking.execute(settle, (approval_id,)).fetchone()
        return self.rulings.get(ruling_id or (json.loads(row[0])["event_id"] if row else ""))

    def _key(self, approval_id: str) -> str:
        claimed = "SELECT idempotency_key FROM claims WHERE approval_id = ? ORDER BY attempt DESC"
        row = self._looking.execute(claimed, (approval_id,)).fetchone()
        return row[0] if row else ""

    def _words(self, key: str, kind: RulingKind) -> set[object]:
        """What persons said of this key, and was taken at their word."""
        return {
            settlement.settled_at
            for approval_id, settlement in self._settlements.items()
            if self._key(approval_id) == key and settlement.kind is kind and self._is_word(approval_id, settlement)
        }

    def _is_excused(self, execution: Execution) -> bool:
        settlement = self._settlements.get(execution.approval_id)
        if settlement is None or settlement.kind is not RulingKind.NOT_EXECUTED:
            return False
        return self._is_word(execution.approval_id, settlement)

    def _is_word(self, approval_id: str, settlement: Settlement) -> bool:
        """Whether it is a person's word that it was so, and not what came of the retry that they asked for."""
        ruling = self._ruling_of(approval_id, settlement) if settlement.retried else None
        came_of_a_retry = settlement.retried and (ruling is None or ruling.kind is RulingKind.RETRY)
        return settlement.settled_by is not None and not came_of_a_retry

    # In the end

    async def at_the_end(self) -> None:
        """Everyone was answered, nothing is left open, and the audit is whole."""
        await self.look()
        self.questions.at_the_end()
        self.lines.at_the_end()
        for approval_id in self._history.asked_for:
            ends = approval_id not in self._history.terminated and approval_id not in self._refused
            if ends and approval_id not in self._told:
                self.wrong("an approval never ended")
        for (approval_id,) in self._looking.execute("SELECT approval_id FROM approvals WHERE status IS NULL"):
            self._history.note(f"left: {approval_id}")
            self.wrong("the ledger takes an approval for open that is gone: its conversation stays busy")
        for consent, state in self._looking.execute("SELECT consent, state FROM claims"):
            if state in ("started", "unknown"):
                self._history.note(f"left: {consent} {state}")
                self.wrong(f"a claim is left {state}")
        for approval_id, (status, _) in self._told.items():
            if status == "frozen" and approval_id not in self._settlements:
                self.wrong("a frozen approval was never answered")
            elif status == "frozen" and not self._is_audited(approval_id):
                self.wrong("the audit of a frozen approval does not say what was settled")
        words = [json.loads(ruling)["ruling_id"] for (ruling,) in self._looking.execute("SELECT ruling FROM retries")]
        if len({*words}) < len(words):
            self.wrong("a call was tried again twice by one word")
        for key, when in self._promises:
            if not self._was_tried_again(key, when):
                self.wrong("an operator was promised a retry that was never made")
        for problem in await self._history.transaction(self._history.ledger.verify):
            self.wrong(f"the audit: {problem.partition(':')[2] or problem}")

    def _is_audited(self, approval_id: str) -> bool:
        entry = "SELECT count(*) FROM audit WHERE approval_id = ? AND once = 'settle'"
        return bool(self._looking.execute(entry, (approval_id,)).fetchone()[0])

    def _was_tried_again(self, key: str, when: str) -> bool:
        """Since then, or at that very moment; or it was found out before that it was executed."""
        again = "SELECT count(*) FROM claims WHERE idempotency_key = ? AND consent LIKE '%#%' AND ended_at >= ?"
        (made,) = self._looking.execute(again, (key, when)).fetchone()
        known = (each for name, each in self._settlements.items() if self._key(name) == key)
        return made > 0 or any(each.kind is RulingKind.EXECUTED and each.settled_by is None for each in known)
