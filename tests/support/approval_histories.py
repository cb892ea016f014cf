"""Random histories of one approval, lived by the core and, beside it, by a naive model of what the documents say.

`python -m tests.support.approval_histories 10000` lives so many and says how long it took; a second number is the seed
of the first.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from assent import core
from assent.contracts.address import Address
from assent.contracts.approvers import Approvers
from assent.contracts.audit import AuditEntry
from assent.contracts.decision import Decision, DecisionKind, Stage, VerdictKind
from assent.contracts.deliver import CardKind, Delivered, Delivery
from assent.contracts.execute import Report, ReportKind
from assent.contracts.identity import Identity
from assent.contracts.permission import Fallback
from assent.contracts.plan import Edit, Plan
from assent.contracts.signals import Supersession, VerdictQuestion, Withdrawal
from assent.contracts.status import Phase, Status
from assent.contracts.weigh import Weighed
from assent.core import Planned, Unplanned
from assent.payload import canonical_payload, sha256
from tests.support import naive_approval as naive
from tests.support import policies

OPENED = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = "t"
DEADLINE, GRACE, RESULT_TTL = 100, 3, 50
CARD, RESULT = "om_card", "f" * 64
CHATS = ("oc_1", "oc_2")
ENDS = {Status.REJECTED, Status.EXPIRED, Status.CANCELLED, Status.SUPERSEDED}

POOL = tuple(
    frozenset(ids)
    for ids in (
        ("open_id:a",),
        ("open_id:b", "union_id:b"),
        ("open_id:c",),
        ("union_id:d",),
        ("open_id:e", "user_id:e"),
        ("open_id:a", "union_id:b"),  # nobody can say who that is
        ("user_id:f",),
        ("open_id:g",),
    )
)


class Violation(AssertionError):
    """The core broke a promise, or disagrees with the model."""


@cache
def identity(person: naive.Person) -> Identity:
    return Identity(tenant_key=TENANT, **dict(each.split(":") for each in sorted(person)))


def named(person: Identity) -> str:
    return "+".join(sorted(person.keys))


def at(seconds: float) -> datetime:
    return OPENED + timedelta(seconds=seconds)


@cache
def payload(number: int) -> str:
    return canonical_payload("send_mail", {"n": number})


class History:
    """One approval and all that happens to it."""

    def __init__(self, seed: int, *, immediate: bool) -> None:
        """
        immediate: whether what is asked outside is answered at once, as the model takes it; if not, others come
        meanwhile, and the model is not asked.
        """
        self.random = random.Random(seed)
        self.seed, self.immediate = seed, immediate
        self.now, self.events, self.log = 0.0, 0, list[str]()
        self.members = {chat: {each for each in POOL if self.random.random() < 0.6} for chat in CHATS}
        self.requester = self.random.choice(POOL)
        self.stages = tuple(self._stage() for _ in range(self.random.choice((1, 1, 1, 2, 3))))
        escalates = self.random.random() < 0.5
        self.escalate_to = tuple(self.random.sample(POOL, 1)) if escalates else ()
        self.fallback = self.random.choice(list(Fallback))
        self.plan = self._plan()
        self.approval = self._opened()
        self.model = self._model()
        self.verdicts: dict[str, VerdictKind] = {}
        self.audited: list[AuditEntry] = []
        self.said: list[Decision] = []
        self.on_their_way: list[Delivery] = []
        self.slow: list[Delivery] = []
        self.shown: dict[tuple[CardKind, int, int], int] = {}
        """What each card that was sent shows: the renewal by which it was made. Sent again it stays what it was."""

    # How it begins

    def _stage(self) -> naive.Stage:
        kind = self.random.choice(("requester", "anyone", "people", "people", "chat"))
        if kind == "requester":
            return naive.Stage(kind=kind)
        people = tuple(self.random.sample(POOL, self.random.randint(1, 4))) if kind == "people" else ()
        most = len(people) if kind == "people" else 3
        return naive.Stage(
            kind=kind,
            people=people,
            chat=self.random.choice(CHATS) if kind == "chat" else "",
            threshold=self.random.randint(1, min(most, 3)),
            rejections=self.random.choice((1, 1, 2)),
            exclude_requester=self.random.random() < 0.3,
        )

    def _plan(self) -> Plan:
        groups = [
            Approvers(
                kind=Approvers.Kind(stage.kind),
                people=tuple(map(identity, stage.people)),
                chat_id=stage.chat or None,
                threshold=stage.threshold,
                rejections=stage.rejections,
                exclude_requester=stage.exclude_requester,
            )
            for stage in self.stages
        ]
        return policies.plan(
            requester=identity(self.requester),
            keeps_later_stages=True,
            waits_for_no_chat=True,
            approvers=groups[0].model_copy(update={"then": tuple(groups[1:])}),
            payload=payload(0),
            payload_sha256=sha256(payload(0)),
            deadline=at(DEADLINE),
            grace=timedelta(seconds=GRACE),
            result_ttl=timedelta(seconds=RESULT_TTL),
            result_fallback=self.fallback,
            escalate_to=tuple(map(identity, self.escalate_to)),
            addresses=() if self.immediate else tuple(Address.of(identity(each)) for each in POOL[:3]),
        )

    def _opened(self) -> Planned:
        opened = core.open_with(Unplanned(request=policies.request(self.plan)), self.plan, OPENED)
        return opened.model_copy(update={"other_messages": (CARD,)})

    def _model(self) -> naive.NaiveApproval:
        return naive.NaiveApproval(
            naive.Config(
                requester=self.requester,
                stages=self.stages,
                deadline=DEADLINE,
                grace=GRACE,
                opened=0.0,
                payload=sha256(payload(0)),
                members=self._is_member,
                cards={CARD},
                escalate_to=self.escalate_to,
                result_hash=RESULT,
                result_ttl=RESULT_TTL,
                result_fallback=str(self.fallback),
                approval="a",
            )
        )

    def _is_member(self, chat: str, person: naive.Person) -> bool:
        """Feishu knows members by their open_id."""
        mine = {each for each in person if each.startswith("open_id:")}
        return any(mine & other for other in self.members[chat])

    def _is_in_one_of(self, chats: tuple[str, ...], person: naive.Person) -> bool:
        return any(self._is_member(chat, person) for chat in chats)

    # What happens

    def live(self, steps: int) -> None:
        after = 0
        for _ in range(steps):
            self._happen()
            self._check()
            after += approval_is_over(self.approval)
            if after > 3:
                break

    def _happen(self) -> None:
        if self.random.random() < 0.15:
            self.now += self.random.choice((1, 10, 40))
        if self.random.random() < 0.1:
            chat = self.random.choice(CHATS)
            self.members[chat] = {each for each in POOL if self.random.random() < 0.6}
        if not self.immediate and self.approval.asking is not None and self.random.random() < 0.4:
            self._answer()
        if self.now >= (core.ends_at(self.approval) - OPENED).total_seconds() and self._waits:
            self._time_is_over()
            return
        doing = {"decide": 20, "cancel": 0.3, "supersede": 0.3, "escalate": 1, "written": 2, "again": 2}
        if self.approval.decision is not None and self.approval.ending is None:
            doing |= {"recheck": 3, "execute": 6}
        if not self.immediate:
            doing |= {"send": 4, "arrive": 6, "resume": 1}
        choice = self.random.choices(list(doing), list(doing.values()))[0]
        getattr(self, f"_{choice}")()

    @property
    def _waits(self) -> bool:
        result = self.approval.result
        if result is not None:
            return result.decision is None and not result.is_over
        return not self.approval.wait_is_over

    def _decide(self) -> None:
        self.events += 1
        self._say(self._decision(f"e{self.events}"))

    def _again(self) -> None:
        """The same decision is delivered once more."""
        if self.said:
            former = self.random.choice(self.said)
            self._say(former.model_copy(update={"delivery_id": f"d{self.now}{len(self.log)}"}))

    def _decision(self, event_id: str) -> Decision:
        about_result = self.random.random() < (0.7 if self.approval.result else 0.05)
        kinds = ("approve", "approve", "approve", "reject", "edit", "delegate")
        kind = DecisionKind(self.random.choice(kinds))
        current = RESULT if about_result else self.approval.plan.payload_sha256
        names = self.random.choices(("current", "former", "other"), (20, 1, 1))[0]
        digest = {"current": current, "former": sha256(payload(0)), "other": "0" * 64}[names]
        to = (
            identity(self.random.choice(POOL))
            if kind is DecisionKind.DELEGATE and self.random.random() < 0.95
            else None
        )
        edited = {"n": self.random.randint(0, 3)} if kind is DecisionKind.EDIT else None
        return Decision(
            approval_id="a" if self.random.random() < 0.98 else "another",
            kind=kind,
            payload_sha256=digest,
            actor=identity(self.random.choice(self._likely())),
            event_id=event_id,
            stage=Stage.RESULT if about_result else Stage.CALL,
            message_id=self.random.choices((None, CARD, "om_other"), (10, 10, 1))[0],
            received_at=at(self.now - self.random.choice((0, 0, 5))),
            arguments=edited,
            delegate_to=to,
        )

    def _likely(self) -> tuple[naive.Person, ...]:
        """Whoever may click; mostly those who are waited for."""
        awaited = core.awaited(self.approval)
        found = tuple(each for each in POOL if awaited and awaited.asks(identity(each)))
        return found if found and self.random.random() < 0.6 else POOL

    def _say(self, decision: Decision) -> None:
        is_new = decision.event_id not in {each.event_id for each in self.said}
        self.said.append(decision)
        to = f" to {named(decision.delegate_to)}" if decision.delegate_to else ""
        self.log.append(
            f"{self.now:g} {decision.event_id} {decision.kind}{to} by {named(decision.actor)} of {decision.stage}"
        )
        self.approval = core.decide(self.approval, decision, at(self.now))
        if self.immediate and self.approval.asking is not None:
            self._answer()
        question = VerdictQuestion(event_id=decision.event_id, delivery_id=decision.delivery_id)
        judged = self.approval.notes.verdict_on(decision.event_id)
        if not self.immediate:
            return
        mine = judged.verdict if judged and is_new else VerdictKind.DUPLICATE
        told = core.verdict(self.approval, question).kind
        if told not in (mine, VerdictKind.RECEIVED):
            raise self._wrong(f"{decision.event_id} is told {told}, and was judged {mine}")
        theirs = self.model.decide(self._as_said(decision), self.now)
        self.log[-1] += f": {mine}"
        if mine != theirs:
            raise self._wrong(f"{decision.event_id} is {mine}, and {theirs} by the documents")

    def _as_said(self, decision: Decision) -> naive.DecisionSaid:
        received = (decision.received_at or at(self.now)) - OPENED
        edit_to = sha256(payload(decision.arguments["n"])) if decision.arguments else None
        return naive.DecisionSaid(
            event_id=decision.event_id,
            actor=decision.actor.keys,
            kind=decision.kind,
            payload=decision.payload_sha256 or "",
            received=received.total_seconds(),
            subject=decision.stage,
            delivery_id=decision.delivery_id,
            message_id=decision.message_id,
            delegate_to=decision.delegate_to.keys if decision.delegate_to else None,
            edit_to=edit_to,
            edit_refused=edit_to == self.model.payload,
            approval=decision.approval_id,
        )

    def _answer(self) -> None:
        """Feishu and the tool say what they are asked."""
        asked = self.approval.asking
        assert asked is not None
        self.log.append(f"{self.now:g} asked outside about {asked.event_id}")
        question = core.question(self.approval, asked, at(self.now))
        outside = tuple(each for each in question.actors if not self._is_in_one_of(question.chats, each.keys))
        weighed = Weighed(outsiders=outside)
        if not outside and question.decision is not None:
            weighed = self._edited(question.decision)
        self.approval = core.answer(self.approval, asked, weighed, at(self.now))

    def _edited(self, decision: Decision) -> Weighed:
        plan = self.approval.plan
        changed = payload((decision.arguments or {})["n"])
        digest = sha256(changed)
        if digest == plan.payload_sha256:
            return Weighed(invalid="it changes nothing")
        former = tuple(each for each in (*plan.former_sha256, plan.payload_sha256) if each != digest)
        edit = Edit(
            by=decision.actor,
            proposed_payload=payload(0),
            proposed_payload_sha256=sha256(payload(0)),
            payload=changed,
            payload_sha256=digest,
        )
        update = {"payload": changed, "payload_sha256": digest, "former_sha256": former, "edit": edit}
        return Weighed(plan=plan.model_copy(update={**update, "revision": plan.revision + 1}))

    def _cancel(self) -> None:
        self.log.append(f"{self.now:g} cancel")
        self.approval = core.withdraw(self.approval, Withdrawal(), at(self.now))
        self.model.cancel(self.now)

    def _supersede(self) -> None:
        self.log.append(f"{self.now:g} supersede")
        self.approval = core.supersede(self.approval, Supersession(by="newer"), at(self.now))
        self.model.supersede(self.now)

    def _escalate(self) -> None:
        if not self._waits or self.approval.result is not None or not self.escalate_to:
            return
        self.log.append(f"{self.now:g} escalate")
        due = self.approval.plan.model_copy(update={"escalate_at": at(self.now)})
        self.approval = self.approval.model_copy(update={"plan": due})
        self.approval = core.call_others(self.approval, at(self.now))
        self.model.escalate(self.now)

    def _written(self) -> None:
        """The ledger takes what the audit is to be told."""
        entries = self.approval.notes.next_entries
        self.audited += entries
        self.approval = core.write(self.approval, entries, at(self.now))

    def _recheck(self) -> None:
        """Before the call begins, those who approved as members of a chat are looked at once more."""
        gone: list[Identity] = []
        for question in core.questions_before_call(self.approval, at(self.now)):
            gone += [each for each in question.actors if not self._is_in_one_of(question.chats, each.keys)]
        self.log.append(f"{self.now:g} recheck: {[str(each) for each in gone]}")
        if gone:
            self.approval = core.strike(self.approval, tuple(gone), at(self.now))
        self.model.recheck({each.keys for each in gone}, self.now)
        if self._waits and self.now >= DEADLINE + GRACE:
            self.approval = core.expire(self.approval, at(self.now))

    def _execute(self) -> None:
        if self.approval.is_begun:
            return
        sealed = self.random.random() < 0.6
        self.log.append(f"{self.now:g} executed{', sealed' if sealed else ''}")
        report = Report(kind=ReportKind.EXECUTED, sealed=sealed, content_sha256=RESULT if sealed else None)
        self.approval, _ = core.report(core.begin(self.approval), report, at(self.now))
        if not sealed:
            self.approval = core.close(self.approval)
        self.model.executed(self.now, reviewed=sealed)

    # Cards, and runs that end while they are on their way

    def _send(self) -> None:
        self.approval, deliveries = core.send(self.approval, at(self.now))
        self.on_their_way += deliveries
        for each in deliveries:
            self.log.append(f"{self.now:g} card {each.generation}/{each.place} of renewal {self.approval.renewal}")
            self.shown.setdefault((each.kind, each.generation, each.place), self.approval.renewal)

    def _arrive(self) -> None:
        if not self.on_their_way:
            return
        each = self.on_their_way.pop(self.random.randrange(len(self.on_their_way)))
        if each not in self.slow and self.random.random() < 0.3:
            self.slow.append(each)
            self.on_their_way.append(each)
            self.approval = core.pass_by(self.approval, each, at(self.now))
            return
        arrived = Delivered(message_id=f"om_{each.kind}_{each.generation}_{each.place}")
        self.approval = core.land(self.approval, each, arrived, at(self.now))

    def _resume(self) -> None:
        """The run ends, and with it whatever it waited for; the next one begins with what it left."""
        self.log.append(f"{self.now:g} a new run")
        self.on_their_way, self.slow = [], []
        self.approval = core.resume(Planned.model_validate_json(self.approval.model_dump_json()))

    def _check_cards(self) -> None:
        """Once nothing is due any more, those who decide have cards of what they decide about."""
        for _ in range(4):
            self._send()
            while self.on_their_way:
                self._arrive()
        if not self._waits or not self.approval.plan.addresses:
            return
        kind = CardKind.RESULT if self.approval.result else CardKind.CALL
        cards = self.approval.result.cards if self.approval.result else self.approval.cards
        panel, plan = self.approval.panel, self.approval.plan
        addresses = panel.private_addresses(plan) if self.approval.result else panel.addresses(plan)
        for place in range(len(addresses)):
            if self.shown.get((kind, cards.generation, place)) != self.approval.renewal:
                raise self._wrong(f"the card {cards.generation}/{place} is not of renewal {self.approval.renewal}")

    def _time_is_over(self) -> None:
        self.log.append(f"{self.now:g} the time is over")
        if self.approval.result is None:
            self.approval = core.expire(self.approval, at(self.now))
        else:
            self.approval, _ = core.release(self.approval, self.approval.result, at(self.now))
        self.model.deadline(self.now)

    # What must hold

    def _check(self) -> None:
        approval = self.approval
        if self.random.random() < 0.2:
            self.approval = Planned.model_validate_json(approval.model_dump_json())
            if self.approval != approval:
                raise self._wrong("read again, it is another")
        for judged in approval.notes.judged:
            if self.verdicts.setdefault(judged.event_id, judged.verdict) is not judged.verdict:
                raise self._wrong(f"the verdict on {judged.event_id} changed to {judged.verdict}")
        self._check_counting()
        if self.immediate:
            self._compare()

    def _check_counting(self) -> None:
        approval, plan = self.approval, self.approval.plan
        counted = [one.actor for one in approval.panel.counted]
        for n, one in enumerate(counted):
            if any(one.may_be(other) for other in counted[:n]):
                raise self._wrong(f"{one} counts twice")
        for one_counted in approval.panel.counted:
            group = plan.approvers.stages[one_counted.stage]
            if group.exclude_requester and one_counted.actor.may_be(plan.requester):
                raise self._wrong("an excluded requester counts")
        if approval.is_begun and not approval.panel.is_complete(plan):
            raise self._wrong("it runs, and not enough have approved")
        if approval.ending is not None and approval.ending.status in ENDS and approval.is_begun:
            raise self._wrong(f"it runs, and ended {approval.ending.status}")

    def _compare(self) -> None:
        approval, model = self.approval, self.model
        status = approval.ending.status if approval.ending else None
        if approval.phase is Phase.REVIEWING and self._waits:
            status = None  # by the documents it ends when its result is decided about
        if status != model.status:
            raise self._wrong(f"it is {status}, and {model.status} by the documents")
        counted = [(one.stage, one.actor.keys) for one in approval.panel.counted]
        if Counter(counted) != Counter(model.counted):
            raise self._wrong(f"{counted} count, and {model.counted} by the documents")
        state = core.state(approval)
        for person in POOL:
            awaited = state.awaited
            mine = awaited is not None and awaited.asks(identity(person))
            chats = awaited.chats_to_ask(identity(person)) if awaited else ()
            mine = mine and (not chats or self._is_in_one_of(chats, person))
            if mine != model.awaits(person):
                raise self._wrong(f"it waits for {set(person)}: {mine}, and {not mine} by the documents")

    def finish(self) -> None:
        """Once all is written, every accepted decision and every refusal for what it is stands in the audit, once."""
        if not self.immediate:
            self._check_cards()
        while self.approval.notes.unwritten:
            self._written()
        if self.approval.result and self.approval.result.decision:
            _, question = core.release(self.approval, self.approval.result, at(self.now))
            self.audited += question.entries
        told = Counter(entry.event_id for entry in self.audited if entry.event_id is not None)
        for event_id, verdict in self.verdicts.items():
            expected = verdict in (VerdictKind.ACCEPTED, VerdictKind.TAMPERED, VerdictKind.FORBIDDEN)
            if told[event_id] != int(expected):
                raise self._wrong(f"{event_id} is {verdict}, and in the audit {told[event_id]} times")

    def _wrong(self, what: str) -> Violation:
        about = f"seed {self.seed}: requester {set(self.requester)}, {self.stages}, calls in {self.escalate_to}"
        return Violation("\n".join([what, about, *self.log]))


def approval_is_over(approval: Planned) -> bool:
    """Whether nothing but late decisions can happen to it."""
    if approval.result is not None:
        return approval.result.is_over or approval.result.decision is not None
    return approval.ending is not None


def lived(seed: int, *, immediate: bool = True, steps: int = 25) -> History:
    history = History(seed, immediate=immediate)
    history.live(steps)
    history.finish()
    return history


def statistics(histories: Iterator[History]) -> dict[str, Any]:
    """How often each verdict was given, so that nobody takes idle histories for a proof."""
    verdicts: Counter[str] = Counter()
    for history in histories:
        verdicts.update(str(verdict) for verdict in history.verdicts.values())
    return dict(verdicts)


if __name__ == "__main__":
    count, first = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    found = statistics(lived(first + n, immediate=n % 4 != 0) for n in range(count))
    print(f"{count} histories in {time.monotonic() - began:.0f} s: {found}")
