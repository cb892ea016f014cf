"""Who may decide a call now, who has, and who is still needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from assent.contracts.address import Address, AddressKind
from assent.contracts.approvers import Approvers, Deciders, DecidingGroup
from assent.contracts.decision import Decision, Judged, Remember
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.state import Progress
from assent.contracts.values import Frozen


class Counted(Frozen):
    """An approval that counts."""

    stage: int
    event_id: str
    actor: Identity
    is_member: bool = False
    """Whether it counts only because its actor belongs to a chat."""
    remember: Remember | None = None


class Delegation(Frozen):
    """That somebody left their decision to somebody else, for one stage: nobody hands over more than their turn."""

    giver: Identity
    taker: Identity
    stage: int


class Panel(Frozen):
    """The approvers of one plan, stage by stage: what they have done, and who was called in besides."""

    stage: int = 0
    counted: tuple[Counted, ...] = ()
    rejected_by: tuple[Identity, ...] = ()
    ask_again: tuple[Identity, ...] = ()
    """Whose last decision is not to be remembered."""
    delegations: tuple[Delegation, ...] = ()
    reminded: bool = False
    escalated: bool = False

    # Whose turn it is

    def group(self, plan: Plan) -> Approvers:
        """Whose turn it is; once all have approved, who came last."""
        return plan.approvers.stages[self._place(plan)]

    def is_complete(self, plan: Plan) -> bool:
        return self.stage >= len(plan.approvers.stages)

    def approved(self, plan: Plan) -> int:
        """How many approvals count in this stage."""
        return sum(1 for one in self.counted if one.stage == self._place(plan))

    def _place(self, plan: Plan) -> int:
        return min(self.stage, len(plan.approvers.stages) - 1)

    # Who may decide

    def deciders(self, plan: Plan) -> Deciders:
        """Whose the call is to decide now."""
        return Deciders(requester=plan.requester, groups=(self._deciding(plan, self._place(plan)),))

    def releasers(self, plan: Plan) -> Deciders:
        """Whose the result is to release: whoever may decide in any stage."""
        groups = (self._deciding(plan, stage) for stage in range(len(plan.approvers.stages)))
        return Deciders(requester=plan.requester, groups=tuple(groups))

    def _deciding(self, plan: Plan, stage: int) -> DecidingGroup:
        return DecidingGroup(
            approvers=plan.approvers.stages[stage],
            called=plan.escalate_to if self.escalated else (),
            passed=tuple((each.giver, each.taker) for each in self.delegations if each.stage == stage),
        )

    def must_belong(self, plan: Plan, actor: Identity) -> bool:
        """Whether this person may decide the call only if they belong to a chat."""
        return bool(self.deciders(plan).chats_to_ask(actor))

    def _called(self, plan: Plan, stage: int) -> tuple[Identity, ...]:
        """Who may decide besides those whom the plan names: this stage was left to them, or nobody had decided."""
        takers = (each.taker for each in self.delegations if each.stage == stage)
        return (*takers, *(plan.escalate_to if self.escalated else ()))

    def _left_by(self, stage: int) -> tuple[Identity, ...]:
        """Who left this stage's decision to somebody else, and did not get it back since."""
        passed = [each for each in self.delegations if each.stage == stage]
        return tuple(
            each.giver
            for n, each in enumerate(passed)
            if not each.giver.is_among(later.taker for later in passed[n + 1 :])
        )

    def can_still_pass(self, plan: Plan) -> bool:
        """Whether enough people are left to approve this stage and those after it, each of whom counts once."""
        people: list[Identity] = []
        needed: list[list[int]] = []
        for stage in range(self.stage, len(plan.approvers.stages)):
            group = plan.approvers.stages[stage]
            if group.kind in (Approvers.Kind.ANYONE, Approvers.Kind.CHAT):
                continue  # nobody can say that too few are left of those
            approved = sum(1 for one in self.counted if one.stage == stage)
            could = [_place_of(person, people) for person in self._still_able(plan, stage)]
            needed += [could] * (group.threshold - approved)
        chosen: dict[int, int] = {}
        return all(_is_filled(approval, needed, chosen, set()) for approval in range(len(needed)))

    def is_needed_later(self, plan: Plan, decision: Decision, actor: Identity) -> bool:
        """Whether too few would be left for a later stage if this person approved now: they count once."""
        if not plan.keeps_later_stages or not self.can_still_pass(plan):
            return False
        return not self.approve(plan, decision, actor).can_still_pass(plan)

    def _still_able(self, plan: Plan, stage: int) -> list[Identity]:
        """Who of those named for a stage, left it or called in may approve it, and has approved nothing yet."""
        deciding = self._deciding(plan, stage)
        counted = [one.actor for one in self.counted]
        return [
            each
            for each in self._named(plan, stage)
            if not each.is_among(counted) and deciding.include(each, plan.requester)
        ]

    def _named(self, plan: Plan, stage: int) -> list[Identity]:
        """Everybody who is named for a stage, or was since: each of them once."""
        group = plan.approvers.stages[stage]
        own = (plan.requester,) if group.kind is Approvers.Kind.REQUESTER else group.people
        named: list[Identity] = []
        for person in (*own, *self._called(plan, stage)):
            if not person.is_among(named):
                named.append(person)
        return named

    # Who has

    def has_approved(self, actor: Identity) -> bool:
        """Whether this person counts already; of two ids that nobody can compare, only one counts."""
        return any(actor.may_be(one.actor) for one in self.counted)

    def has_passed(self, actor: Identity) -> bool:
        """Whether this person approved in a stage that is over: nothing is left to them to hand over."""
        return any(actor.may_be(one.actor) for one in self.counted if one.stage < self.stage)

    def has_rejected(self, actor: Identity) -> bool:
        return actor.is_among(self.rejected_by)

    # What happens

    def approve(self, plan: Plan, decision: Decision, actor: Identity) -> Panel:
        """Count an approval; the last of a stage begins the next, where nobody has rejected yet."""
        one = Counted(
            stage=self.stage,
            event_id=decision.event_id,
            actor=actor,
            is_member=self.must_belong(plan, actor),
            remember=decision.remember,
        )
        rejected_by = tuple(other for other in self.rejected_by if not actor.is_same_person(other))
        panel = self._heard(decision, actor)._with(counted=(*self.counted, one), rejected_by=rejected_by)
        if panel.approved(plan) >= self.group(plan).threshold:
            return panel._with(stage=self.stage + 1, rejected_by=())
        return panel

    def reject(self, plan: Plan, decision: Decision, actor: Identity) -> Panel:
        """Note a rejection. Where it is not enough, and takes back an approval, it counts where that did."""
        return self._heard(decision, actor)._reject(plan, actor)

    def _heard(self, decision: Decision, actor: Identity) -> Panel:
        """Somebody decides, and says whether to be asked again."""
        others = tuple(other for other in self.ask_again if not actor.is_same_person(other))
        return self._with(ask_again=others if decision.persist_decision else (*others, actor))

    def _reject(self, plan: Plan, actor: Identity) -> Panel:
        mine = [one for one in self.counted if actor.is_same_person(one.actor)]
        panel = self._with(counted=tuple(one for one in self.counted if one not in mine))._rejected_by(actor)
        return panel if panel.is_rejected(plan) else self._without(mine)._rejected_by(actor)

    def _rejected_by(self, actor: Identity) -> Panel:
        return self if self.has_rejected(actor) else self._with(rejected_by=(*self.rejected_by, actor))

    def is_rejected(self, plan: Plan) -> bool:
        return len(self.rejected_by) >= self.group(plan).rejections

    def delegate(self, giver: Identity, taker: Identity) -> Panel:
        """Move the right to decide, and take back what the giver had said."""
        panel = self._without([one for one in self.counted if giver.is_same_person(one.actor)])
        return panel._with(
            delegations=(*panel.delegations, Delegation(giver=giver, taker=taker, stage=panel.stage)),
            rejected_by=tuple(other for other in panel.rejected_by if not giver.is_same_person(other)),
        )

    def strike(self, outsiders: Collection[Identity]) -> Panel:
        """Take back the approvals of people who no longer belong to the chat; their stage is open again."""
        return self._without([one for one in self.counted if one.actor.is_among(outsiders)])

    def _without(self, gone: Collection[Counted]) -> Panel:
        """Without these approvals their stage is open again, and whatever came after it is to come again."""
        stage = min([self.stage, *(one.stage for one in gone)])
        counted = tuple(one for one in self.counted if one not in gone and one.stage <= stage)
        panel = self._with(counted=counted)
        return panel._with(stage=stage, rejected_by=()) if stage < self.stage else panel

    def revised(self, former: Plan, plan: Plan) -> Panel:
        """The approvers of an edited plan: nobody has approved that yet."""
        if (plan.approvers, plan.escalate_to) != (former.approvers, former.escalate_to):
            return Panel(reminded=self.reminded)  # whom others called in, those who decide now have not
        return self._with(stage=0, counted=(), rejected_by=())

    def _with(self, **changed: object) -> Panel:
        return self.model_copy(update=changed)

    # What follows

    @property
    def remember(self) -> Remember:
        """How far the decision is remembered: as far as everybody who approved says."""
        everybody = all(one.remember is Remember.TOOL for one in self.counted)
        return Remember.TOOL if self.counted and everybody else Remember.EXACT

    def may_be_remembered(self, *, rejected: bool) -> bool:
        """Whether nobody of those who approved, or rejected, wants to be asked again."""
        deciding = self.rejected_by if rejected else (one.actor for one in self.counted)
        return not any(person.is_among(self.ask_again) for person in deciding)

    def members(self, plan: Plan) -> list[tuple[str, tuple[Identity, ...]]]:
        """Whose approval counts only as long as they belong to their stage's chat, stage by stage."""
        found: dict[int, tuple[Identity, ...]] = {}
        for one in self.counted:
            if one.is_member:
                found[one.stage] = (*found.get(one.stage, ()), one.actor)
        chats = ((plan.approvers.stages[stage].chat_id, actors) for stage, actors in found.items())
        return [(chat, actors) for chat, actors in chats if chat is not None]

    def progress(self, plan: Plan, judged: Iterable[Judged]) -> Progress:
        """How far the approvers have come, as people are shown it."""
        by_event = {each.event_id: each for each in judged}
        return Progress(
            approvers=self._shown_group(plan),
            stage=self._place(plan) + 1,
            stages=len(plan.approvers.stages),
            approvals=tuple(by_event[one.event_id] for one in self.counted if one.event_id in by_event),
            approved=self.approved(plan),
            delegations=self._shown_delegations(plan),
            called=plan.escalate_to if self.escalated else (),
        )

    def _shown_delegations(self, plan: Plan) -> tuple[tuple[Identity, Identity], ...]:
        """Who left the decision to whom, as far as it stands: in the stage whose turn it is, at the end in all."""
        stages = range(len(plan.approvers.stages)) if self.is_complete(plan) else (self._place(plan),)
        gone = {stage: self._left_by(stage) for stage in stages}
        return tuple((each.giver, each.taker) for each in self.delegations if each.giver in gone.get(each.stage, ()))

    def _shown_group(self, plan: Plan) -> Approvers:
        """Whose turn it is: those who can decide, with whoever was called in, and without whoever left it to others."""
        group = self.group(plan)
        if group.kind is not Approvers.Kind.PEOPLE:
            return group  # `Progress.called` names the others
        deciders = self.deciders(plan)
        able = tuple(person for person in self._named(plan, self._place(plan)) if deciders.include(person))
        return group.model_copy(update={"people": able}) if len(able) >= group.threshold else group

    def addresses(self, plan: Plan) -> tuple[Address, ...]:
        """Where the cards of this stage go: the plan's chat, or the private chats of those whose turn it is."""
        if not plan.addresses or any(each.kind is AddressKind.CHAT_ID or each.reply_to for each in plan.addresses):
            return plan.addresses
        group = self._shown_group(plan)
        if group.kind is Approvers.Kind.CHAT and group.chat_id:
            found = [Address(kind=AddressKind.CHAT_ID, id=group.chat_id)]
        else:
            found = [Address.of(person) for person in group.people or (plan.requester,)]
        deciders = self.deciders(plan)
        found += [Address.of(each) for each in self._called(plan, self._place(plan)) if deciders.include(each)]
        return tuple(dict.fromkeys(found))

    def private_addresses(self, plan: Plan) -> tuple[Address, ...]:
        """Where the cards of a result go: to those alone who may release it, each in private.

        Where that is whoever is in a chat, it is that chat.
        """
        found: list[Address] = []
        for stage, group in enumerate(plan.approvers.stages):
            match group.kind:
                case Approvers.Kind.CHAT if group.chat_id:
                    found.append(Address(kind=AddressKind.CHAT_ID, id=group.chat_id))
                case Approvers.Kind.ANYONE:
                    found += plan.addresses
                case _:
                    found += [Address.of(person) for person in self._releasing(plan, stage)]
            found += [Address.of(person) for person in self._called(plan, stage)]
        return tuple(dict.fromkeys(found))

    def _releasing(self, plan: Plan, stage: int) -> tuple[Identity, ...]:
        """Those of a stage who are named, without those who left it to others."""
        group, gone = plan.approvers.stages[stage], self._left_by(stage)
        named = [person for person in group.people or (plan.requester,) if not person.is_among(gone)]
        return tuple(person for person in named if not (group.exclude_requester and person.may_be(plan.requester)))


def _place_of(person: Identity, people: list[Identity]) -> int:
    """Where somebody stands among these people; at their end, if they are none of them."""
    for place, other in enumerate(people):
        if person.is_same_person(other):
            return place
    people.append(person)
    return len(people) - 1


def _is_filled(approval: int, could: list[list[int]], chosen: dict[int, int], tried: set[int]) -> bool:
    """Choose somebody for one of the approvals that are needed; whoever was chosen for another may make room.

    could: who could give each of them. chosen: which of them each person gives.
    """
    for person in could[approval]:
        if person in tried:
            continue
        tried.add(person)
        if person not in chosen or _is_filled(chosen[person], could, chosen, tried):
            chosen[person] = approval
            return True
    return False
