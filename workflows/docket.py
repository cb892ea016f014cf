"""What was said about one approval, and what of it stands. No I/O and no waiting: one thread of control."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import sizes
    from assent.contracts.approvers import Approvers
    from assent.contracts.audit import AuditEntry, AuditEvent
    from assent.contracts.carried import Carried, Shelf
    from assent.contracts.decision import Decision, DecisionKind, Judged, Stage, Verdict, VerdictKind
    from assent.contracts.identity import Identity
    from assent.contracts.outcome import Outcome
    from assent.contracts.plan import Plan
    from assent.contracts.signals import VerdictQuestion, Withdrawal
    from assent.contracts.status import Status
    from assent.contracts.values import Surface
    from assent.contracts.weigh import Weighed, Weighing
    from assent.judgement import after_ending, audit_entry, objection, refusal_entry
    from workflows.panel import Panel

_MOST_AT_ONCE = 20
"""How many audit entries one message carries."""
_MOST_EARLY = 100
"""How many decisions wait for what they are judged by; nobody needs more than one."""
_MOST_WORDS = 24 * 1024
"""How much a decision says beside an edit's payloads: a reason, and names."""
_MOST_REMEMBERED = 150
"""How many verdicts an approval remembers: with the longest ids, still far below what one message may hold."""
_MOST_EDITS, _MOST_DELEGATIONS = 100, 50
_TOO_LARGE = f"a decision holds at most {sizes.DECISION} bytes and some depth, an edit's arguments included"
_TOO_MANY = "others are looked at just now, and no more can wait behind them: decide again in a moment"
_NO_ROOM = "the ledger is out of reach, and too much waits to be recorded already: decide again in a while"
_TOO_OFTEN = f"its arguments were changed {_MOST_EDITS} times: have it proposed anew"
_OUTSIDE = "it is left to somebody of this company: leave tenant_key out"
_PASSED_ON = f"it was left to others {_MOST_DELEGATIONS} times: somebody has to decide it"
_CALLS_IN = "an approval is left to somebody else: say to whom, and not to yourself or to who asked for the call"


class Docket:
    """Decisions and withdrawals in the order they came, each with its verdict; what is enough to decide stands."""

    def __init__(self, carried: Carried | None) -> None:
        self.plan: Plan | None = carried.plan if carried else None
        self.panel: Panel | None = Panel(carried.plan, carried.bench) if carried else None
        self.opened_at: datetime | None = carried.opened_at if carried else None
        self.judged = {judged.event_id: judged for judged in carried.judged} if carried else {}
        self.unwritten: list[AuditEntry] = list(carried.unwritten) if carried else []
        self.malformed = carried.malformed if carried else 0
        self._unnoted = carried.unnoted if carried else 0
        """How many refusals found no room to be recorded in."""
        self.decision: Decision | None = None
        self.begun = False
        """Whether the call was handed to a worker: from then on it can be neither cancelled nor superseded."""
        self.status: Status | None = None
        self.reason: str | None = None
        self.recorded = False
        """Whether the ledger has the ending. Until then an ending without an execution may turn out to be another."""
        self.ended_by: Identity | None = None
        self._put_off: tuple[Identity | None, Status, AuditEvent, dict[str, Any]] | None = None
        """An end that came while those who had decided were looked at once more: it counts if they do not."""
        self.renewals = 0
        """How often the cards became others: an edit, the next stage, somebody called in, a reminder."""
        self.reminding = False
        """Whether that was because nobody decides."""
        self.news = 0
        """How often something changed that the cards should say."""
        self.weighing: Decision | None = None
        """The decision that waits for an answer from outside; later ones wait behind it."""
        self._cards = set(carried.cards.message_ids) if carried else set()
        self._expects_cards = carried is not None and (not carried.cards.complete or bool(carried.cards.held_until))
        if carried and carried.cards.shared:
            self._cards |= set(carried.cards.shared.message_ids)
        self._early: list[Decision] = list(carried.early) if carried else []
        self.result_sha256: str | None = None
        self.result_deadline: datetime | None = None
        self.result_decision: Decision | None = None
        if carried and carried.reviewing:
            outcome = carried.reviewing.outcome
            self.begun, self.status, self.reason = True, outcome.status, outcome.reason
            self.ended_by = outcome.decided_by
            self.review_result(carried.reviewing.content_sha256, carried.reviewing.deadline)
            self._cards |= set(carried.reviewing.cards.message_ids)

    def resume(self) -> None:
        """Judge what a former run had not come to, or was asking about."""
        self._take_early_ones()

    def open(self, plan: Plan) -> None:
        """From here on the plan can be decided; what came too early is judged first."""
        self.plan, self.panel, self.opened_at = plan, Panel(plan), workflow.now()
        if plan.denied is not None:
            self.end(Status.REJECTED, AuditEvent.DENY, reason=plan.denied, surface=Surface.POLICY)
        elif plan.grant is not None and plan.grant.decision is DecisionKind.REJECT:
            self.ended_by = plan.grant.granted_by
            self.end(Status.REJECTED, AuditEvent.GRANT, reason=plan.grant.reason, grant_id=plan.grant.grant_id)
        elif plan.grant is not None:
            self.ended_by = plan.grant.granted_by
            self._note(AuditEvent.GRANT, "grant", grant_id=plan.grant.grant_id, actor=plan.grant.granted_by)
        self._expects_cards = bool(plan.addresses) and not self.needs_nobody
        self._take_early_ones()

    @property
    def needs_nobody(self) -> bool:
        """Whether the plan runs without asking."""
        plan = self.plan
        return plan is not None and (plan.asks_nobody or plan.denied is not None)

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
        self.plan, self.status, self.reason, self.recorded = plan, outcome.status, outcome.reason, True
        self.panel = Panel(plan) if plan else None
        self.ended_by = outcome.decided_by

    def take(self, decision: Decision) -> None:
        """Judge a decision, or keep it until it is known what it is judged by."""
        if decision.event_id in self.judged:
            return
        if sizes.size(decision) > sizes.DECISION or sizes.is_too_deep(decision):
            self._refuse(decision, VerdictKind.INVALID, _TOO_LARGE)
            return
        unknown_card = decision.message_id is not None and decision.message_id not in self._cards
        too_early = self.plan is None or (unknown_card and self._expects_cards and not self.settled)
        if self.weighing is not None and not too_early and (hopeless := self._hopeless(decision)):
            if decision.event_id not in self.judged:
                self._refuse(decision, hopeless)
        elif (too_early or self.weighing is not None) and self._may_wait(decision):
            self._early.append(decision)
        elif self.plan is not None and self.weighing is None:
            self.judge(self.plan, decision)
        else:
            self._refuse(decision, VerdictKind.INVALID, _TOO_MANY)

    def _may_wait(self, decision: Decision) -> bool:
        """Whether there is room for one more that waits for what it is judged by."""
        waiting = [*self._early, *([self.weighing] if self.weighing else [])]
        return len(waiting) < _MOST_EARLY and sizes.total(waiting) + sizes.size(decision) <= sizes.WAITING

    def verdict(self, question: VerdictQuestion) -> Verdict:
        """What became of one sending of one decision."""
        judged = self.judged.get(question.event_id)
        if judged is None or (self.status is not None and self.told_status is None):
            return Verdict(kind=VerdictKind.RECEIVED)
        kind = judged.verdict if judged.delivery_id == question.delivery_id else VerdictKind.DUPLICATE
        if kind is VerdictKind.FORBIDDEN:
            return Verdict(kind=kind)
        panel = self.panel
        return Verdict(
            kind=kind,
            status=self.told_status,
            decided_by=self.decided_by,
            reason=judged.problem,
            approvals=panel.approved if panel else 0,
            needed=panel.group.threshold if panel else 1,
        )

    def carried(self, plan: Plan, cards: Shelf) -> Carried:
        """What a new run needs to know of this one."""
        assert self.opened_at is not None
        assert self.panel is not None
        waiting = [self.weighing] if self.weighing else []
        return Carried(
            plan=plan,
            opened_at=self.opened_at,
            cards=cards,
            judged=tuple(self.judged.values()),
            unwritten=tuple(self.unwritten),
            early=(*waiting, *self._early),
            malformed=self.malformed,
            unnoted=self._unnoted,
            bench=self.panel.bench,
        )

    @property
    def settled(self) -> bool:
        """Whether the wait is over."""
        return self.decision is not None or self.status is not None or self.begun

    @property
    def told_status(self) -> Status | None:
        """How it ended, once that can be told: after an execution its claim knows it, otherwise the ledger has to."""
        return self.status if self.begun or self.recorded else None

    @property
    def accepted(self) -> Judged | None:
        """The decision that stands, as it is remembered."""
        return self.judged.get(self.decision.event_id) if self.decision else None

    @property
    def decided_by(self) -> Identity | None:
        return self.decision.actor if self.decision else self.ended_by

    @property
    def approved_by(self) -> tuple[Identity, ...]:
        """Everybody whose approval counted."""
        return tuple(one.actor for one in self.panel.counted) if self.panel else ()

    # Judging

    def _hopeless(self, decision: Decision) -> VerdictKind | None:
        """Why a decision cannot count whatever becomes of the one before it: strangers crowd out nobody."""
        assert self.plan is not None
        assert self.panel is not None
        may_ever = self.panel.may_review(decision.actor.within(self.plan.tenant_key))
        verdict = objection(self.plan, decision, self._cards, result_sha256=self.result_sha256, may_decide=may_ever)
        return verdict if verdict in (VerdictKind.TAMPERED, VerdictKind.FORBIDDEN) else None

    def judge(self, plan: Plan, decision: Decision) -> None:
        if decision.event_id in self.judged:
            return
        assert self.panel is not None
        # Once it is over, a click on a card whose message was never confirmed is late, not forged.
        unconfirmed = {decision.message_id} if self._expects_cards and decision.message_id else set()
        actor = decision.actor.within(plan.tenant_key)
        verdict = objection(
            plan,
            decision,
            self._cards | unconfirmed,
            result_sha256=self.result_sha256,
            may_decide=self.panel.may_review(actor) if self._is_late(decision) else self.panel.may_decide(actor),
        )
        verdict = verdict or self._too_late(plan, decision) or self._pointless(decision, actor)
        problem = (self._problem(decision, actor) or self._crowded(decision)) if verdict is None else None
        if verdict is None and problem is None and self.needs_weighing(decision):
            self.weighing = decision
        elif problem is not None:
            self._refuse(decision, VerdictKind.INVALID, problem)
        elif verdict is None:
            self._accept(decision)
        else:
            self._refuse(decision, verdict)

    def _is_late(self, decision: Decision) -> bool:
        """Whether it is no longer about who approves in which stage."""
        return decision.stage is Stage.RESULT or self.settled

    def _received(self, decision: Decision) -> datetime:
        received = min(decision.received_at or workflow.now(), workflow.now())
        return max(received, self.opened_at or received)

    def _too_late(self, plan: Plan, decision: Decision) -> VerdictKind | None:
        if decision.stage is Stage.RESULT:
            assert self.result_deadline is not None
            if self.result_decision is not None:
                return VerdictKind.ALREADY_DECIDED
            return VerdictKind.EXPIRED if self._received(decision) > self.result_deadline else None
        if self.status is not None:
            return after_ending(self.status)
        if self.decision is not None or plan.asks_nobody:
            return VerdictKind.ALREADY_DECIDED
        return VerdictKind.EXPIRED if self._received(decision) > plan.deadline else None

    def _pointless(self, decision: Decision, actor: Identity) -> VerdictKind | None:
        """One person counts once."""
        assert self.panel is not None
        if decision.stage is Stage.RESULT:
            return None
        twice = decision.kind is DecisionKind.APPROVE and self.panel.has_approved(actor)
        again = decision.kind is DecisionKind.REJECT and self.panel.has_rejected(actor)
        over = decision.kind is DecisionKind.DELEGATE and self.panel.has_passed(actor)
        return VerdictKind.ALREADY_DECIDED if twice or again or over else None

    def _problem(self, decision: Decision, actor: Identity) -> str | None:
        assert self.plan is not None
        assert self.panel is not None
        if decision.kind is DecisionKind.EDIT and decision.stage is Stage.RESULT:
            return "there is nothing to edit in a result"
        if decision.kind is DecisionKind.EDIT:
            return _TOO_OFTEN if self.plan.revision >= _MOST_EDITS else None
        if decision.kind is not DecisionKind.DELEGATE:
            return None
        if self.panel.passed_on >= _MOST_DELEGATIONS:
            return _PASSED_ON
        if decision.delegate_to is not None and decision.delegate_to.is_outside(self.plan.tenant_key):
            return _OUTSIDE
        to = decision.delegate_to.within(self.plan.tenant_key) if decision.delegate_to else None
        excluded = self.panel.group.exclude_requester
        if to is None or decision.stage is Stage.RESULT or to.is_same_person(actor):
            return _CALLS_IN
        in_vain = self.panel.has_approved(to) or (excluded and to.may_be(self.plan.requester))
        return _CALLS_IN if in_vain else None

    def _crowded(self, decision: Decision) -> str | None:
        """Why a decision cannot count though it is right: what it says could not be recorded any more."""
        return _NO_ROOM if sizes.total(self.unwritten) + sizes.size(decision) > sizes.UNWRITTEN else None

    # Asking outside: does this person belong to the chat? would these arguments do?

    def needs_weighing(self, decision: Decision) -> bool:
        assert self.plan is not None
        assert self.panel is not None
        actor = decision.actor.within(self.plan.tenant_key)
        if decision.stage is Stage.RESULT:
            return decision.kind is not DecisionKind.EDIT and self.panel.chats_to_ask(actor) is not None
        return decision.kind is DecisionKind.EDIT or self.panel.must_be_member(actor)

    def question(self) -> Weighing:
        """What is to be asked about the decision that waits."""
        assert self.plan is not None
        assert self.panel is not None
        assert self.weighing is not None
        actor = self.weighing.actor.within(self.plan.tenant_key)
        if self.weighing.stage is Stage.RESULT:
            group = self.panel.chats_to_ask(actor) or self.panel.group
            must_belong = True
        else:
            group, must_belong = self.panel.group, self.panel.must_be_member(actor)
        return Weighing(
            approval_id=self.plan.approval_id,
            approvers=group,
            actors=(actor,) if must_belong and group.kind is Approvers.Kind.CHAT else (),
            decision=self.weighing if self.weighing.kind is DecisionKind.EDIT else None,
            payload_sha256=self.plan.payload_sha256,
            now=workflow.now(),
        )

    def weighed(self, answer: Weighed) -> None:
        """The answer has come; unless the approval has ended meanwhile, the decision is judged by it."""
        decision, self.weighing = self.weighing, None
        assert decision is not None
        assert self.plan is not None
        assert self.panel is not None
        actor = decision.actor.within(self.plan.tenant_key)
        late = after_ending(self.status) if self.status is not None and decision.stage is Stage.CALL else None
        if late is not None:
            self._refuse(decision, late)
        elif answer.outsiders:
            self._refuse(decision, VerdictKind.FORBIDDEN)
        elif answer.invalid is not None:
            self._refuse(decision, VerdictKind.INVALID, answer.invalid)
        elif problem := self._problem(decision, actor) if decision.kind is DecisionKind.DELEGATE else None:
            self._refuse(decision, VerdictKind.INVALID, problem)
        elif answer.plan is not None and sizes.total(self.unwritten) + _size_of(answer.plan) > sizes.UNWRITTEN:
            self._refuse(decision, VerdictKind.INVALID, _NO_ROOM)
        else:
            self._accept(decision, answer.plan)
        self._take_early_ones()

    # What counts

    def _accept(self, decision: Decision, revised: Plan | None = None) -> None:
        assert self.plan is not None
        assert self.panel is not None
        actor = decision.actor.within(self.plan.tenant_key)
        self._remember(decision, VerdictKind.ACCEPTED)
        if decision.stage is Stage.RESULT:
            self.result_decision = decision
            return
        stage = self.panel.stage
        match decision.kind:
            case DecisionKind.DELEGATE:
                assert decision.delegate_to is not None
                to = decision.delegate_to.within(self.plan.tenant_key)
                self.panel.delegate(actor, to)
                self._confirm(decision, AuditEvent.DELEGATE, delegate_to=to)
                self._renew()
                return
            case DecisionKind.REJECT:
                self._confirm(decision)
                if self.panel.reject(actor):
                    self.decision, self.status, self.reason = decision, Status.REJECTED, decision.reason
                elif self.panel.stage != stage:
                    self._renew()
                self.news += 1
                return
            case DecisionKind.EDIT:
                assert revised is not None
                self._confirm_edit(decision, revised)
                asked = self.panel.group.chat_id if self.panel.must_be_member(actor) else None
                self.plan, self.panel = revised, self.panel.revised(revised)
                if revised.denied is not None:
                    self.end(Status.REJECTED, AuditEvent.DENY, reason=revised.denied, surface=Surface.POLICY)
                    return
                known = not self.panel.must_be_member(actor) or self.panel.group.chat_id == asked
                if known and self.panel.may_decide(actor):
                    self.panel.approve(decision, actor)
                self._renew()
            case DecisionKind.APPROVE:
                self._confirm(decision)
                self.panel.approve(decision, actor)
        if self.panel.is_complete:
            self.decision = decision
        elif self.panel.stage != stage:
            self._renew()
        self.news += 1

    def strike(self, outsiders: tuple[Identity, ...]) -> None:
        """Approvals of people who have left the chat since do not count: it is to be decided anew."""
        assert self.panel is not None
        self.panel.strike(outsiders)
        for person in outsiders:
            self._note(AuditEvent.FORBID, f"strike:{person}:{len(self.judged)}", actor=person)
        self.decision = None
        if self._put_off is not None:
            by, status, event, said = self._put_off
            self.end_if_open(status, event, by=by, **said)
        else:
            self._renew()

    def remind(self) -> None:
        assert self.panel is not None
        self.panel.reminded = True
        self._note(AuditEvent.REMIND, "remind")
        self._renew(reminding=True)

    def escalate(self) -> None:
        assert self.panel is not None
        self.panel.escalated = True
        self._note(AuditEvent.ESCALATE, "escalate")
        self._renew(reminding=True)

    def _renew(self, *, reminding: bool = False) -> None:
        self.renewals += 1
        self.reminding = reminding

    # Results

    def review_result(self, content_sha256: str, deadline: datetime) -> None:
        """From here on it can be decided whether the agent gets the result."""
        self.result_sha256, self.result_deadline = content_sha256, deadline

    # Keeping

    def _confirm(self, decision: Decision, event: AuditEvent = AuditEvent.CONFIRM, **said: Any) -> None:
        entry = audit_entry(event, decision, workflow.now())
        self.unwritten.append(entry.model_copy(update=said) if said else entry)

    def _confirm_edit(self, decision: Decision, revised: Plan) -> None:
        assert revised.edit is not None
        self._confirm(
            decision,
            payload_sha256=revised.payload_sha256,
            payload=revised.payload,
            proposed_payload_sha256=revised.edit.proposed_payload_sha256,
            proposed_payload=revised.edit.proposed_payload,
            rule=revised.rule.name if revised.rule else None,
            policy_sha256=revised.rule.policy_sha256 if revised.rule else None,
        )

    def _refuse(self, decision: Decision, verdict: VerdictKind, problem: str | None = None) -> None:
        self._remember(decision, verdict, problem)
        entry = refusal_entry(decision, verdict, workflow.now())
        if entry is None:
            return
        if sizes.total(self.unwritten) + sizes.size(entry) <= sizes.REFUSALS:
            self.unwritten.append(entry)
        else:  # the ledger has been out of reach for long
            self._unnoted += 1

    def _remember(self, decision: Decision, verdict: VerdictKind, problem: str | None = None) -> None:
        judged = Judged.of(decision, verdict, self._received(decision), problem)
        room = sizes.JUDGED - sizes.size(judged)
        while self.judged and (len(self.judged) >= _MOST_REMEMBERED or sizes.total(self.judged.values()) > room):
            self._forget_one()
        self.judged[decision.event_id] = judged

    def _forget_one(self) -> None:
        """Forget the oldest verdict, one that changed nothing before one that counts."""
        counted = {one.event_id for one in self.panel.counted} if self.panel else set()
        refused = (key for key, judged in self.judged.items() if judged.verdict is not VerdictKind.ACCEPTED)
        spent = (key for key in self.judged if key not in counted)
        del self.judged[next(refused, None) or next(spent, None) or next(iter(self.judged))]

    def withdraw(self, withdrawal: Withdrawal) -> None:
        denied = withdrawal.surface is Surface.POLICY
        self.end_if_open(
            Status.REJECTED if denied else Status.CANCELLED,
            AuditEvent.DENY if denied else AuditEvent.CANCEL,
            by=withdrawal.actor,
            reason=withdrawal.reason,
            actor=withdrawal.actor,
            surface=withdrawal.surface,
        )

    def end_if_open(self, status: Status, event: AuditEvent, *, by: Identity | None = None, **said: Any) -> None:
        """End without a decision, unless somebody has decided; if that decision is struck, it ends then."""
        if self.begun or self.status is not None:
            return
        if self.decision is not None:
            self._put_off = self._put_off or (by, status, event, said)
            return
        self.ended_by = by
        self.end(status, event, **said)

    def end(self, status: Status, event: AuditEvent, *, reason: str | None = None, **said: Any) -> None:
        """End without a decision. Only while nobody has decided."""
        self.status, self.reason = status, reason
        self._note(event, str(event), reason=reason, **said)
        if self.weighing is not None:
            decision, self.weighing = self.weighing, None
            self._refuse(decision, after_ending(status))
        self._take_early_ones()

    def _note(self, event: AuditEvent, once: str, **said: Any) -> None:
        plan = self.plan
        if plan is not None and plan.rule is not None:
            said = {"rule": plan.rule.name, "policy_sha256": plan.rule.policy_sha256, **said}
        payload_sha256 = plan.payload_sha256 if plan else None
        self.unwritten.append(
            AuditEntry(event=event, at=workflow.now(), once=once, payload_sha256=payload_sha256, **said)
        )

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

    def written(self, entries: tuple[AuditEntry, ...]) -> None:
        written = {entry.once for entry in entries}
        self.unwritten = [entry for entry in self.unwritten if entry.once not in written]
        if self._unnoted and not self.unwritten:
            reason = f"{self._unnoted} decisions more were refused while the ledger was out of reach"
            self._note(AuditEvent.FORBID, f"unnoted:{workflow.now().isoformat()}", reason=reason)
            self._unnoted = 0


def _size_of(revised: Plan) -> int:
    """How much the audit says of an edit."""
    assert revised.edit is not None
    return sizes.text_size(revised.payload, revised.edit.proposed_payload) + _MOST_WORDS
