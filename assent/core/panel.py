"""Who may decide a call now, who has, and who is still needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from assent.contracts.address import Address, AddressKind
from assent.contracts.approvers import Approvers, Deciders
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
        group = self.group(plan)
        return Deciders(
            requester=plan.requester,
            groups=(group,),
            called=self.called(plan),
            left_by=tuple(each.giver for each in self._standing(plan)),
            exclude_requester=group.exclude_requester,
        )

    def releasers(self, plan: Plan) -> Deciders:
        """Whose the result is to release: whoever may decide in any stage."""
        stages = plan.approvers.stages
        return Deciders(
            requester=plan.requester,
            groups=stages,
            called=(*(each.taker for each in self.delegations), *self.called(plan)),
            left_by=tuple(each.giver for each in self.delegations),
            exclude_requester=all(stage.exclude_requester for stage in stages),
        )

    def must_belong(self, plan: Plan, actor: Identity) -> bool:
        """Whether this person may decide the call only if they belong to a chat."""
        return self.deciders(plan).chat_to_ask(actor) is not None

    def called(self, plan: Plan) -> tuple[Identity, ...]:
        """Who may decide besides those whom the plan names: this stage was left to them, or nobody had decided."""
        return (*(each.taker for each in self._standing(plan)), *(plan.escalate_to if self.escalated else ()))

    def _standing(self, plan: Plan) -> list[Delegation]:
        """The delegations of the stage whose turn it is."""
        return [each for each in self.delegations if each.stage == self._place(plan)]

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
        panel = self._with(counted=(*self.counted, one), rejected_by=rejected_by)
        if panel.approved(plan) >= self.group(plan).threshold:
            return panel._with(stage=self.stage + 1, rejected_by=())
        return panel

    def reject(self, actor: Identity) -> Panel:
        """Note a rejection, which takes back what this person had approved."""
        panel = self._without([one for one in self.counted if actor.is_same_person(one.actor)])
        return panel if panel.has_rejected(actor) else panel._with(rejected_by=(*panel.rejected_by, actor))

    def is_rejected(self, plan: Plan) -> bool:
        return len(self.rejected_by) >= self.group(plan).rejections

    def delegate(self, giver: Identity, taker: Identity) -> Panel:
        """Move the right to decide; who gets it back keeps no note of having given it away."""
        panel = self._without([one for one in self.counted if giver.is_same_person(one.actor)])
        kept = (each for each in panel.delegations if each.stage != panel.stage or not taker.is_same_person(each.giver))
        return panel._with(
            delegations=(*kept, Delegation(giver=giver, taker=taker, stage=panel.stage)),
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

    def members(self, plan: Plan) -> list[tuple[Approvers, tuple[Identity, ...]]]:
        """Whose approval counts only as long as they belong to their stage's chat, stage by stage."""
        found: dict[int, tuple[Identity, ...]] = {}
        for one in self.counted:
            if one.is_member:
                found[one.stage] = (*found.get(one.stage, ()), one.actor)
        return [(plan.approvers.stages[stage], actors) for stage, actors in found.items()]

    def progress(self, plan: Plan, judged: Iterable[Judged]) -> Progress:
        """How far the approvers have come, as people are shown it."""
        by_event = {each.event_id: each for each in judged}
        shown = self.delegations if self.is_complete(plan) else self._standing(plan)
        return Progress(
            approvers=self._shown_group(plan),
            stage=self._place(plan) + 1,
            stages=len(plan.approvers.stages),
            approvals=tuple(by_event[one.event_id] for one in self.counted if one.event_id in by_event),
            approved=self.approved(plan),
            delegations=tuple((each.giver, each.taker) for each in shown),
            called=plan.escalate_to if self.escalated else (),
        )

    def _shown_group(self, plan: Plan) -> Approvers:
        """Whose turn it is, with those who were called in and without those who left it to others."""
        group = self.group(plan)
        if group.kind is not Approvers.Kind.PEOPLE:
            return group  # `Progress.called` names the others
        people = [*group.people]
        for person in self.called(plan):
            if not person.is_among(people):
                people.append(person)
        gone = [each.giver for each in self._standing(plan)]
        left = tuple(person for person in people if not person.is_among(gone))
        return group.model_copy(update={"people": left}) if len(left) >= group.threshold else group

    def addresses(self, plan: Plan) -> tuple[Address, ...]:
        """Where the cards of this stage go: the plan's chat, or the private chats of those whose turn it is."""
        if not plan.addresses or any(each.kind is AddressKind.CHAT_ID or each.reply_to for each in plan.addresses):
            return plan.addresses
        group = self._shown_group(plan)
        if group.kind is Approvers.Kind.CHAT and group.chat_id:
            found = [Address(kind=AddressKind.CHAT_ID, id=group.chat_id)]
        else:
            found = [Address.of(person) for person in group.people or (plan.requester,)]
        found += [Address.of(person) for person in self.called(plan)]
        return tuple(dict.fromkeys(found))
