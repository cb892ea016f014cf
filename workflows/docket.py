"""What was said about one approval, and what of it stands. No I/O and no waiting: one thread of control."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent.contracts import Decision, DecisionKind, Identity, Judged, Outcome, Plan, Status, Verdict, VerdictKind
    from assent.judgement import after_ending, audit_entry, objection, refusal_entry
    from assent.messages import AuditEntry, AuditEvent, Carried, Shelf, VerdictQuestion, Withdrawal

MOST_AT_ONCE = 20
"""How many audit entries one message carries, each with a reason of any length."""
_MOST_EARLY = 100
"""How many decisions wait for what they are judged by; nobody needs more than one."""
_MOST_REMEMBERED = 150
"""How many verdicts an approval remembers: with the longest ids, still far below what one message may hold."""


class Docket:
    """Decisions and withdrawals in the order they came, each with its verdict; the first valid one stands."""

    def __init__(self, carried: Carried | None) -> None:
        self.plan: Plan | None = carried.plan if carried else None
        self.opened_at: datetime | None = carried.opened_at if carried else None
        self.judged = {judged.event_id: judged for judged in carried.judged} if carried else {}
        self.unwritten: list[AuditEntry] = list(carried.unwritten) if carried else []
        self.malformed = carried.malformed if carried else 0
        self.decision: Decision | None = None
        self.status: Status | None = None
        self.reason: str | None = None
        self.ended_by: Identity | None = None
        self._cards = set(carried.cards.message_ids) if carried else set()
        self._expects_cards = carried is not None and not carried.cards.complete
        self._early: list[Decision] = list(carried.early) if carried else []

    def open(self, plan: Plan) -> None:
        """From here on the plan can be decided; what came too early is judged first."""
        self.plan, self.opened_at = plan, workflow.now()
        self._expects_cards = bool(plan.addresses)
        self._take_early_ones()

    # Cards: a click on a message that nobody knows yet waits until all of them are known.

    def expect_cards(self) -> None:
        self._expects_cards = True

    def card_arrived(self, message_id: str) -> None:
        self._cards.add(message_id)
        self._take_early_ones()

    def all_cards_arrived(self) -> None:
        self._expects_cards = False
        self._take_early_ones()

    def undeliverable(self, why: str) -> None:
        """Nobody can click what cannot be delivered."""
        if not self.settled:
            self.end(Status.CANCELLED, AuditEvent.CANCEL, reason=f"the card could not be delivered: {why}")

    def _take_early_ones(self) -> None:
        early, self._early = self._early, []
        for decision in early:
            self.take(decision)

    def recall(self, plan: Plan | None, outcome: Outcome) -> None:
        """Take over an ending that the ledger remembers."""
        self.plan, self.status, self.reason = plan, outcome.status, outcome.reason
        self.ended_by = outcome.decided_by

    def take(self, decision: Decision) -> None:
        """Judge a decision, or keep it until it is known what it is judged by."""
        unknown_card = decision.message_id is not None and decision.message_id not in self._cards
        too_early = self.plan is None or (unknown_card and self._expects_cards and not self.settled)
        if too_early and len(self._early) < _MOST_EARLY:
            self._early.append(decision)
        elif self.plan is not None:
            self.judge(self.plan, decision)

    def verdict(self, question: VerdictQuestion) -> Verdict:
        """What became of one sending of one decision."""
        judged = self.judged.get(question.event_id)
        if judged is None:
            return Verdict(kind=VerdictKind.RECEIVED)
        kind = judged.verdict if judged.delivery_id == question.delivery_id else VerdictKind.DUPLICATE
        if kind is VerdictKind.FORBIDDEN:
            return Verdict(kind=kind)
        return Verdict(kind=kind, status=self.status, decided_by=self.decided_by)

    def carried(self, plan: Plan, cards: Shelf) -> Carried:
        """What a new run needs to know of this one."""
        assert self.opened_at is not None
        return Carried(
            plan=plan,
            opened_at=self.opened_at,
            cards=cards,
            judged=tuple(self.judged.values()),
            unwritten=tuple(self.unwritten),
            early=tuple(self._early),
            malformed=self.malformed,
        )

    @property
    def settled(self) -> bool:
        """Whether the wait is over."""
        return self.decision is not None or self.status is not None

    @property
    def accepted(self) -> Judged | None:
        """The decision that stands, as it is remembered."""
        return self.judged.get(self.decision.event_id) if self.decision else None

    @property
    def decided_by(self) -> Identity | None:
        return self.decision.actor if self.decision else self.ended_by

    def judge(self, plan: Plan, decision: Decision) -> None:
        if decision.event_id in self.judged:
            return
        received = min(decision.received_at or workflow.now(), workflow.now())
        received = max(received, self.opened_at or received)
        # Once it is over, a click on a card whose message was never confirmed is late, not forged.
        unconfirmed = {decision.message_id} if self._expects_cards and decision.message_id else set()
        verdict = objection(plan, decision, self._cards | unconfirmed)
        if verdict is None and self.status is not None:
            verdict = after_ending(self.status)
        if verdict is None and self.decision is not None:
            verdict = VerdictKind.ALREADY_DECIDED
        if verdict is None and received > plan.deadline:
            verdict = VerdictKind.EXPIRED
        self._remember(decision, verdict or VerdictKind.ACCEPTED, received)
        if verdict is None:
            self._accept(decision)
        elif entry := refusal_entry(decision, verdict, workflow.now()):
            self.unwritten.append(entry)

    def _accept(self, decision: Decision) -> None:
        self.decision = decision
        self.unwritten.append(audit_entry(AuditEvent.CONFIRM, decision, workflow.now()))
        if decision.kind is DecisionKind.REJECT:
            self.status, self.reason = Status.REJECTED, decision.reason

    def _remember(self, decision: Decision, verdict: VerdictKind, received: datetime) -> None:
        if len(self.judged) >= _MOST_REMEMBERED:
            oldest = next(key for key, judged in self.judged.items() if judged.verdict is not VerdictKind.ACCEPTED)
            del self.judged[oldest]
        self.judged[decision.event_id] = Judged.of(decision, verdict, received)

    def withdraw(self, withdrawal: Withdrawal) -> None:
        if self.settled:
            return
        self.ended_by = withdrawal.actor
        self.end(
            Status.CANCELLED,
            AuditEvent.CANCEL,
            reason=withdrawal.reason,
            actor=withdrawal.actor,
            surface=withdrawal.surface,
        )

    def end(self, status: Status, event: AuditEvent, *, reason: str | None = None, **said: Any) -> None:
        """End without a decision. Only while nobody has decided."""
        self.status, self.reason = status, reason
        payload_sha256 = self.plan.payload_sha256 if self.plan else None
        self.unwritten.append(
            AuditEntry(
                event=event, at=workflow.now(), once=str(event), payload_sha256=payload_sha256, reason=reason, **said
            )
        )

    @property
    def next_entries(self) -> tuple[AuditEntry, ...]:
        return tuple(self.unwritten[:MOST_AT_ONCE])

    def written(self, entries: tuple[AuditEntry, ...]) -> None:
        written = {entry.once for entry in entries}
        self.unwritten = [entry for entry in self.unwritten if entry.once not in written]
