"""A naive model of one approval: which verdict each decision gets, and where the approval stands.

It says what docs/approvers.md and docs/guarantees.md say. Nothing is kept but the list of all that
happened; every answer is computed from that list anew.

Not modelled: grants, bundles, the policy in force, keys, frozen twins, sizes, tenants (all people are
of one), a Feishu that does not answer, the very same delivery again. Hence the verdicts `received`
and `missing` never occur.

Where the documents are silent, or say two things:

S1   Who has possibly approved in the stage that is asked may pass on: check 6 names stages that are over.
S2   A rejection counts in the earlier stage that it has asked again, whether or not its author could
     still decide there. One that is enough where it was made takes back its author's votes alone.
S3   Who is certainly both giver and receiver of one delegation has given it away.
S4   Who was called in may decide in every stage, later ones included.
S5   After approvals are struck, a withdrawal or newer request goes before the end of the time, whenever
     it came; that end is deadline and grace.
S6   A reminder or escalation without effect may come again. Some, but not enough decisions hinder neither.
S7   A result has no grace of its own: it is open until the caller says that its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace

Person = frozenset[str]
"""The ids by which somebody is named, at most one of a kind: frozenset({"open_id:a", "union_id:b"})."""


def person(*ids: str) -> Person:
    """person("open_id:a", "union_id:b")"""
    return frozenset(ids)


def _agreements(a: Person, b: Person) -> list[bool]:
    """For each kind of id that is known of both: whether it is the same."""
    one, other = (dict(each.split(":", 1) for each in who) for who in (a, b))
    return [one[kind] == other[kind] for kind in one if kind in other]


def same(a: Person, b: Person) -> bool:
    """Certainly one person: an id in common, and none that contradicts it."""
    agreements = _agreements(a, b)
    return bool(agreements) and all(agreements)


def different(a: Person, b: Person) -> bool:
    """Certainly two people: they can be compared, and agree in nothing."""
    agreements = _agreements(a, b)
    return bool(agreements) and not any(agreements)


def maybe_same(a: Person, b: Person) -> bool:
    """Possibly one person: nobody can say that they are two."""
    return not different(a, b)


@dataclass(frozen=True)
class Stage:
    """One group of approvers."""

    kind: str = "requester"  # `requester`, `anyone`, `people` or `chat`
    people: tuple[Person, ...] = ()  # who, for `people`
    chat: str = ""  # whose members, for `chat`
    threshold: int = 1  # how many of them must approve
    rejections: int = 1  # how many of them must reject for the call to be rejected
    exclude_requester: bool = False  # whether the requester may not decide


def _nobody(chat: str, who: Person) -> bool:
    return False


@dataclass
class Config:
    """What is fixed about one approval."""

    requester: Person
    stages: tuple[Stage, ...] = (Stage(),)
    deadline: float = 100.0  # a decision made later than this is late
    grace: float = 3.0  # how long after the deadline it stays open; the caller calls `deadline` then
    opened: float = 0.0  # when it could first be decided
    payload: str = "payload-0"  # the hash of the payload that was proposed
    members: Callable[[str, Person], bool] = _nobody
    """Whether a person is a member of a chat, asked at the moment of the question."""
    cards: Set[str] | None = None
    """The message ids that are cards of this approval, older ones and the result's included; it may
    be a set that the caller adds to. None: every message is one."""
    remind_at: float | None = None  # when `remind` is due. For the driver: the model does not look at it
    escalate_at: float | None = None  # when `escalate` is due. For the driver: the model does not look at it
    escalate_to: tuple[Person, ...] = ()  # who is called in then
    result: str = "never"  # `always` or `never`; what `executed` takes where it is not told
    result_hash: str = "result-0"  # the hash of the result, known from `executed` on
    result_ttl: float = 3600.0  # how long a result waits, from `executed` on
    result_fallback: str = "withhold"  # `withhold` or `release`
    approval: str = ""  # its id


@dataclass(frozen=True)
class DecisionSaid:
    """A decision as it arrives."""

    event_id: str
    actor: Person
    kind: str  # `approve`, `reject`, `edit` or `delegate`
    payload: str  # the hash that it names: of a payload, or of the result
    received: float  # when it was made, as the door that took it says
    subject: str = "call"  # `call` or `result`
    delivery_id: str | None = None  # which delivery of it this is: another one each time
    message_id: str | None = None  # the card that was clicked; None through another door
    delegate_to: Person | None = None  # for `delegate`
    edit_to: str | None = None  # for `edit`: the hash of the payload it makes; None if it has no arguments
    edit_refused: bool = False  # for `edit`: whether the tool refuses its arguments
    approval: str = ""  # the approval that it names


@dataclass(frozen=True)
class Happened:
    """One line of all that happened.

    what: approve, reject, edit, delegate (accepted decisions about the call); release, withhold
    (about the result); struck, reminder, escalation, executed, reviewing, ended; wish (a withdrawal or
    a newer request after enough have decided).
    """

    what: str
    at: float
    who: Person = frozenset()  # the actor
    stage: int = 0  # the stage that was asked then
    to: Person = frozenset()  # delegate: to whom
    payload: str = ""  # edit: the new hash
    counts: bool = True  # edit: whether it is its author's approval, too
    struck: tuple[tuple[int, Person], ...] = ()  # struck: whose approvals, in which stage
    status: str = ""  # ended: how; wish: how it is to end; executed, reviewing: what became of the call


@dataclass(frozen=True)
class Vote:
    """An approval or rejection that counts."""

    kind: str
    stage: int
    who: Person


@dataclass
class NaiveApproval:
    """One approval."""

    config: Config
    history: list[Happened] = field(default_factory=list)
    verdicts: dict[str, str] = field(default_factory=dict)  # the one verdict of each decision, by its event id
    audit: list[tuple[float, str, Person]] = field(default_factory=list)  # what happened, when, and who it was

    @property
    def status(self) -> str | None:
        """How it ended: rejected, expired, cancelled, superseded, executed (or failed, frozen). None: not yet."""
        return next((line.status for line in self.history if line.what == "ended"), None)

    def _asked(self, votes: list[Vote]) -> int:
        """The first stage that these votes do not complete; the number of stages if there is none."""
        for number, stage in enumerate(self.config.stages):
            if len([v for v in votes if v.kind == "approve" and v.stage == number]) < stage.threshold:
                return number
        return len(self.config.stages)

    def _turned_down(self, votes: list[Vote]) -> bool:
        """Whether in some stage as many of these votes reject as it takes."""
        rejected = [v.stage for v in votes if v.kind == "reject"]
        return any(rejected.count(number) >= stage.rejections for number, stage in enumerate(self.config.stages))

    @property
    def votes(self) -> list[Vote]:
        """All approvals and rejections that count, in the order in which they came."""
        votes: list[Vote] = []
        for line in self.history:
            before = self._asked(votes)
            if line.what in ("approve", "reject", "delegate"):  # takes back what they certainly said before
                votes = [v for v in votes if not same(v.who, line.who)]
                votes += [Vote(line.what, line.stage, line.who)] if line.what != "delegate" else []
                if self._turned_down(votes):
                    return votes  # [S2]
            elif line.what == "edit":
                votes = [Vote("approve", 0, line.who)] if line.stage == 0 and line.counts else []
            elif line.what == "struck":
                votes = [v for v in votes if not (v.kind == "approve" and (v.stage, v.who) in line.struck)]
            asked = self._asked(votes)
            if asked != before:  # a stage begins, or begins again, without rejections; later ones are void
                votes = [v for v in votes if v.kind == "approve" and v.stage <= asked]
                if line.what == "reject":  # which has it asked again, and counts in it [S2]
                    votes.append(Vote("reject", asked, line.who))
        return votes

    @property
    def counted(self) -> list[tuple[int, Person]]:
        """Whose approvals count, in which stage."""
        return [(v.stage, v.who) for v in self.votes if v.kind == "approve"]

    @property
    def rejected_by(self) -> list[tuple[int, Person]]:
        """Whose rejections count, in which stage."""
        return [(v.stage, v.who) for v in self.votes if v.kind == "reject"]

    def approvals(self, stage: int) -> int:
        """How many approvals count in a stage."""
        return len([s for s, _ in self.counted if s == stage])

    @property
    def stage(self) -> int:
        """The stage that is asked: the first that is not complete, or the last if all are."""
        return min(self._asked(self.votes), len(self.config.stages) - 1)

    @property
    def agreed(self) -> bool:
        """Enough have approved: the call may run, or has."""
        return self._asked(self.votes) == len(self.config.stages)

    @property
    def phase(self) -> str:
        """pending, executing, reviewing or closed."""
        if self.status is not None:
            return "closed"
        if any(line.what == "reviewing" for line in self.history):
            return "reviewing"
        return "executing" if self.agreed else "pending"

    @property
    def payloads(self) -> list[str]:
        """The hashes of all revisions; the last is the one that is asked about."""
        return [self.config.payload] + [line.payload for line in self.history if line.what == "edit"]

    @property
    def payload(self) -> str:
        """The hash of what is asked about."""
        return self.payloads[-1]

    @property
    def result_deadline(self) -> float | None:
        """Until when the result can be decided about, if it waits or waited for that."""
        return next((line.at + self.config.result_ttl for line in self.history if line.what == "reviewing"), None)

    @property
    def withheld(self) -> bool | None:
        """Whether the result was withheld; None if that was not decided (yet)."""
        decided = [line.what for line in self.history if line.what in ("withhold", "release")]
        return decided[0] == "withhold" if decided else None

    def right(self, who: Person, number: int) -> str:
        """Whether a stage is somebody's to decide: `yes`, `no`, or `member`, if its chat has them."""
        stage = self.config.stages[number]
        if stage.exclude_requester and maybe_same(who, self.config.requester):
            return "no"
        for line in reversed(self.history):  # it moves for one stage; the last time counts
            if line.what == "delegate" and line.stage == number:
                if same(who, line.who):
                    return "no"  # [S3]
                if same(who, line.to):
                    return "yes"
        called = self.config.escalate_to if any(line.what == "escalation" for line in self.history) else ()
        if any(same(who, one) for one in called):
            return "yes"  # [S4]
        if stage.kind == "chat":
            return "member"
        people = (self.config.requester,) if stage.kind == "requester" else stage.people
        return "yes" if stage.kind == "anyone" or any(same(who, one) for one in people) else "no"

    def has_right(self, who: Person, number: int) -> bool:
        """Whether a stage is somebody's to decide, with Feishu's word on its chat, which knows open_ids only."""
        if self.right(who, number) == "member":
            chat = self.config.stages[number].chat
            return any(one.startswith("open_id:") for one in who) and self.config.members(chat, who)
        return self.right(who, number) == "yes"

    def _stages_for(self, subject: str) -> list[int]:
        """By which stages it goes who may decide."""
        if subject == "call" and self.phase == "pending":
            return [self.stage]
        return list(range(len(self.config.stages)))

    def may_decide(self, who: Person) -> bool:
        """Whether what is open now, the call or its result, is somebody's to decide."""
        mine = any(self.has_right(who, number) for number in self._stages_for("call"))
        return mine and self.phase in ("pending", "reviewing")

    @property
    def enough_are_left(self) -> bool:
        """Whether the stage that is asked and those after it can all still be approved, by people who count once.

        Tried out: somebody for the next approval that is needed, then for the one after it, and so on.
        """
        counted = [who for _, who in self.counted]
        needed = [
            self._left_for(number)
            for number, stage in enumerate(self.config.stages)
            if number >= self.stage and stage.kind in ("requester", "people")  # of the others there are always enough
            for _ in range(stage.threshold - self.approvals(number))
        ]

        def can_be_given(needed: list[list[Person]], taken: list[Person]) -> bool:
            return not needed or any(
                can_be_given(needed[1:], [*taken, who])
                for who in needed[0]
                if not any(same(who, other) for other in taken)
            )

        return can_be_given(needed, counted)

    def _left_for(self, number: int) -> list[Person]:
        """Everybody who is known by name, and whose the stage is to decide."""
        stage = self.config.stages[number]
        own = (self.config.requester,) if stage.kind == "requester" else stage.people
        takers = [line.to for line in self.history if line.what == "delegate" and line.stage == number]
        called = self.config.escalate_to if any(line.what == "escalation" for line in self.history) else ()
        return [who for who in (*own, *takers, *called) if self.right(who, number) == "yes"]

    def _possibly_approved(self, who: Person) -> bool:
        return any(maybe_same(who, one) for _, one in self.counted)

    def _rejected(self, who: Person) -> bool:
        return any(same(who, one) and number == self.stage for number, one in self.rejected_by)

    def awaits(self, who: Person) -> bool:
        """Whether it waits for this person. The deadline plays no part."""
        said = self.phase == "pending" and (self._possibly_approved(who) or self._rejected(who))
        return not said and self.may_decide(who)

    def decide(self, d: DecisionSaid, now: float) -> str:
        """Take a decision. Returns its verdict."""
        if d.event_id in self.verdicts:  # 1
            return "duplicate"
        verdict = self._judge(d, now)
        self.verdicts[d.event_id] = verdict
        if verdict in ("forbidden", "tampered"):
            self.audit.append((now, verdict, d.actor))
        if verdict == "accepted":
            self._do(d, now)
        return verdict

    def _judge(self, d: DecisionSaid, now: float) -> str:
        """The checks from the second on, in the documents' order."""
        stages = self._stages_for(d.subject)
        if self._is_about_something_else(d):  # 2
            return "tampered"
        if all(self.right(d.actor, number) == "no" for number in stages):  # 3
            return "forbidden"
        if d.subject == "call" and d.payload != self.payload:  # 4
            return "superseded"
        if late := self._too_late(d, now):  # 5
            return late
        if d.subject == "call" and self._counts_already(d):  # 6
            return "already_decided"
        if self._cannot_be(d):  # 7
            return "invalid"
        if not any(self.has_right(d.actor, number) for number in stages):  # 8
            return "forbidden"
        if d.kind == "edit" and (d.edit_to is None or d.edit_to == self.payload or d.edit_refused):
            return "invalid"
        return "accepted"  # 9

    def _is_about_something_else(self, d: DecisionSaid) -> bool:
        if d.approval != self.config.approval:
            return True
        if d.message_id is not None and self.config.cards is not None and d.message_id not in self.config.cards:
            return True
        if d.subject == "result":
            return self.result_deadline is None or d.payload != self.config.result_hash
        return d.payload not in self.payloads

    def _too_late(self, d: DecisionSaid, now: float) -> str | None:
        made = max(self.config.opened, min(d.received, now))
        if d.subject == "result":
            if any(line.what in ("withhold", "release") and line.who for line in self.history):
                return "already_decided"
            assert self.result_deadline is not None
            return "expired" if self.status is not None or made > self.result_deadline else None  # [S7]
        if self.status in ("expired", "superseded"):
            return self.status
        if self.phase != "pending":
            return "already_decided"
        return "expired" if made > self.config.deadline else None

    def _counts_already(self, d: DecisionSaid) -> bool:
        if d.kind == "approve":
            return self._possibly_approved(d.actor)
        if d.kind == "reject":
            return self._rejected(d.actor)
        if d.kind == "delegate":
            return any(maybe_same(d.actor, one) and number < self.stage for number, one in self.counted)  # [S1]
        return False

    def _cannot_be(self, d: DecisionSaid) -> bool:
        if d.subject == "result":
            return d.kind not in ("approve", "reject")
        if d.kind == "delegate":
            if not d.delegate_to or same(d.delegate_to, d.actor) or self._possibly_approved(d.delegate_to):
                return True
            excluded = self.config.stages[self.stage].exclude_requester
            if excluded and maybe_same(d.delegate_to, self.config.requester):
                return True
            then = [*self.history, Happened("delegate", d.received, d.actor, self.stage, to=d.delegate_to)]
            return not NaiveApproval(self.config, then).enough_are_left
        if d.kind == "approve":
            return self._leaves_too_few(Happened("approve", d.received, d.actor, self.stage), self)
        return d.kind not in ("reject", "edit")

    def _leaves_too_few(self, approving: Happened, otherwise: NaiveApproval) -> bool:
        """Whether an approval takes away somebody whom a later stage needs: it could be passed otherwise."""
        then = NaiveApproval(self.config, [*self.history, approving])
        return otherwise.enough_are_left and not then.enough_are_left

    def _do(self, d: DecisionSaid, now: float) -> None:
        """Write down what was accepted, and what follows from it."""
        stage = self.stage
        if d.subject == "result":
            self._write(Happened("release" if d.kind == "approve" else "withhold", now, who=d.actor))
            self._end("executed", now)
        elif d.kind == "edit":
            edit = Happened("edit", now, d.actor, stage, payload=d.edit_to or "")
            uncounted = replace(edit, counts=False)
            otherwise = NaiveApproval(self.config, [*self.history, uncounted])
            self._write(uncounted if self._leaves_too_few(edit, otherwise) else edit)
        elif d.kind == "delegate":
            self._write(Happened("delegate", now, d.actor, stage, to=d.delegate_to or person()))
        else:
            self._write(Happened(d.kind, now, d.actor, stage))
            if self._turned_down(self.votes):
                self._end("rejected", now)

    def cancel(self, now: float) -> None:
        """It is withdrawn."""
        self._wish("cancelled", now)

    def supersede(self, now: float) -> None:
        """A newer request takes its place."""
        self._wish("superseded", now)

    def _wish(self, status: str, now: float) -> None:
        if self.phase == "pending":
            self._end(status, now)
        elif self.phase == "executing":
            self._write(Happened("wish", now, status=status))

    def remind(self, now: float) -> None:
        """The card comes anew: once, and only until enough have decided. [S6]"""
        if self.phase == "pending" and not any(line.what == "reminder" for line in self.history):
            self._write(Happened("reminder", now))

    def escalate(self, now: float) -> None:
        """Others are called in: once, and only until enough have decided. [S6]"""
        done = any(line.what == "escalation" for line in self.history)
        if self.phase == "pending" and self.config.escalate_to and not done:
            self._write(Happened("escalation", now))

    def deadline(self, now: float) -> None:
        """The wait is over: deadline and grace of the call, or the time of the result, have come."""
        if self.phase == "pending":
            self._end("expired", now)
        elif self.result_deadline is not None and self.phase == "reviewing" and now >= self.result_deadline:
            self._write(Happened(self.config.result_fallback, now))
            self._end("executed", now)

    def recheck(self, left: Set[Person], now: float) -> None:
        """Enough have approved, and before the call begins it is seen that these have left the chat."""
        if self.phase != "executing":
            return
        members = [(number, who) for number, who in self.counted if self.right(who, number) == "member"]
        struck = tuple((number, who) for number, who in members if any(same(who, one) for one in left))
        if not struck:
            return
        self._write(Happened("struck", now, struck=struck))
        wishes = [line.status for line in self.history if line.what == "wish"]
        if now >= self.config.deadline + self.config.grace:
            wishes.append("expired")
        if wishes:
            self._end(wishes[0], now)  # [S5]

    def executed(self, now: float, reviewed: bool | None = None, ran_as: str = "executed") -> None:
        """The call has run, and is executed, failed or frozen. If its result is reviewed, that is asked next."""
        if self.phase != "executing":
            return
        self._write(Happened("executed", now, status=ran_as))
        if self.config.result == "always" if reviewed is None else reviewed:
            self._write(Happened("reviewing", now, status=ran_as))
        else:
            self._end(ran_as, now)

    def _end(self, status: str, now: float) -> None:
        """It ends so, or as its call has ended."""
        ran = [line.status for line in self.history if line.what == "executed"]
        self._write(Happened("ended", now, status=ran[0] if ran else status))

    def _write(self, line: Happened) -> None:
        self.history.append(line)
        if line.what == "struck":
            self.audit += [(line.at, "struck", who) for _, who in line.struck]
        elif line.what == "ended":
            self.audit.append((line.at, line.status, line.who))
        elif line.what not in ("executed", "wish"):
            self.audit.append((line.at, line.what, line.who))
