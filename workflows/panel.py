"""Who may decide a call now, who has, and who is still needed. No I/O and no waiting."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent.contracts.address import Address, AddressKind
    from assent.contracts.approvers import Approvers
    from assent.contracts.carried import Bench, Counted
    from assent.contracts.decision import Decision, Judged, Remember
    from assent.contracts.identity import Identity
    from assent.contracts.plan import Plan
    from assent.contracts.state import Progress


class Panel:
    """The approvers of one plan, stage by stage."""

    def __init__(self, plan: Plan, bench: Bench | None = None) -> None:
        bench = bench or Bench()
        self._plan = plan
        self._stages = plan.approvers.stages
        self.stage = bench.stage
        self.counted = list(bench.counted)
        self._rejected_by = list(bench.rejected_by)
        self._delegations = list(bench.delegations)
        self._delegated_in = [*bench.delegated_in, *(0 for _ in bench.delegations[len(bench.delegated_in) :])]
        self.reminded, self.escalated = bench.reminded, bench.escalated

    @property
    def bench(self) -> Bench:
        """What a new run needs to know."""
        return Bench(
            stage=self.stage,
            counted=tuple(self.counted),
            rejected_by=tuple(self._rejected_by),
            delegations=tuple(self._delegations),
            delegated_in=tuple(self._delegated_in),
            reminded=self.reminded,
            escalated=self.escalated,
        )

    @property
    def group(self) -> Approvers:
        """Whose turn it is; once all have approved, who came last."""
        return self._stages[min(self.stage, len(self._stages) - 1)]

    @property
    def passed_on(self) -> int:
        """How often it was left to somebody else."""
        return len(self._delegations)

    @property
    def is_complete(self) -> bool:
        return self.stage >= len(self._stages)

    @property
    def approved(self) -> int:
        """How many approvals count in this stage."""
        stage = min(self.stage, len(self._stages) - 1)
        return sum(1 for one in self.counted if one.stage == stage)

    @property
    def _standing(self) -> list[tuple[Identity, Identity]]:
        """Who left this stage's decision to whom: nobody hands over more than the turn that is theirs."""
        stage = min(self.stage, len(self._stages) - 1)
        return [pair for pair, given in zip(self._delegations, self._delegated_in, strict=True) if given == stage]

    def may_decide(self, actor: Identity) -> bool:
        """Whether it is this person's to decide, as far as can be said without asking a chat who belongs to it."""
        if self.group.exclude_requester and actor.may_be(self._plan.requester):
            return False
        if any(actor.is_same_person(giver) for giver, _ in self._standing):
            return False
        return self._vouched_for(actor) or self.group.include(actor, self._plan.requester)

    def may_review(self, actor: Identity) -> bool:
        """Whether this person may decide about the result: whoever may decide in any stage."""
        if any(actor.is_same_person(giver) for giver, _ in self._delegations):
            return False
        excluded = all(stage.exclude_requester for stage in self._stages) and actor.may_be(self._plan.requester)
        included = any(stage.include(actor, self._plan.requester) for stage in self._stages)
        vouched = any(actor.is_same_person(taker) for _, taker in self._delegations) or self._vouched_for(actor)
        return not excluded and (vouched or included)

    def must_be_member(self, actor: Identity) -> bool:
        """Whether this person may decide only if they belong to the group's chat."""
        return self.group.kind is Approvers.Kind.CHAT and not self._vouched_for(actor)

    def chats_to_ask(self, actor: Identity) -> Approvers | None:
        """The chat that this person must belong to in order to decide about the result."""
        people = (stage for stage in self._stages if stage.kind is not Approvers.Kind.CHAT)
        if self._vouched_for(actor) or any(stage.include(actor, self._plan.requester) for stage in people):
            return None
        return next((stage for stage in self._stages if stage.kind is Approvers.Kind.CHAT), None)

    def _vouched_for(self, actor: Identity) -> bool:
        """Whether somebody left the decision to this person, or they were called in when nobody decided."""
        called = (*(taker for _, taker in self._standing), *(self._plan.escalate_to if self.escalated else ()))
        return any(actor.is_same_person(person) for person in called)

    def has_approved(self, actor: Identity) -> bool:
        """Whether this person counts already; of two ids that nobody can compare, only one counts."""
        return any(actor.may_be(one.actor) for one in self.counted)

    def has_passed(self, actor: Identity) -> bool:
        """Whether this person approved in a stage that is over: nothing is left to them to hand over."""
        return any(actor.may_be(one.actor) for one in self.counted if one.stage < self.stage)

    def approve(self, decision: Decision, actor: Identity) -> None:
        """Count an approval; the last of a stage begins the next, where nobody has rejected yet."""
        self._rejected_by = [other for other in self._rejected_by if not actor.is_same_person(other)]
        self.counted.append(
            Counted(
                stage=self.stage,
                event_id=decision.event_id,
                actor=actor,
                is_member=self.must_be_member(actor),
                remember=decision.remember,
            )
        )
        if self.approved >= self.group.threshold:
            self.stage += 1
            self._rejected_by = []

    def reject(self, actor: Identity) -> bool:
        """Note a rejection; tells whether it is enough to reject the call."""
        self._take_back([one for one in self.counted if actor.is_same_person(one.actor)])
        if not any(actor.is_same_person(other) for other in self._rejected_by):
            self._rejected_by.append(actor)
        return len(self._rejected_by) >= self.group.rejections

    def has_rejected(self, actor: Identity) -> bool:
        return any(actor.is_same_person(other) for other in self._rejected_by)

    def delegate(self, giver: Identity, taker: Identity) -> None:
        self._take_back([one for one in self.counted if giver.is_same_person(one.actor)])
        kept = [
            (pair, given)
            for pair, given in zip(self._delegations, self._delegated_in, strict=True)
            if given != self.stage or not taker.is_same_person(pair[0])
        ]
        self._delegations = [*(pair for pair, _ in kept), (giver, taker)]
        self._delegated_in = [*(given for _, given in kept), self.stage]

    def strike(self, outsiders: Collection[Identity]) -> None:
        """Take back the approvals of people who no longer belong to the chat; their stage is open again."""
        self._take_back([one for one in self.counted if any(one.actor.is_same_person(person) for person in outsiders)])

    def _take_back(self, gone: Collection[Counted]) -> None:
        """Without these approvals their stage is open again, and whatever came after it is to come again."""
        stage = min([self.stage, *(one.stage for one in gone)])
        self.counted = [one for one in self.counted if one not in gone and one.stage <= stage]
        if stage < self.stage:
            self.stage, self._rejected_by = stage, []

    def revised(self, plan: Plan) -> Panel:
        """The approvers of an edited plan: nobody has approved that yet."""
        kept = self.bench.model_copy(update={"stage": 0, "counted": (), "rejected_by": ()})
        if (plan.approvers, plan.escalate_to) != (self._plan.approvers, self._plan.escalate_to):
            kept = Bench(reminded=self.reminded)  # whom others called in, those who decide now have not
        return Panel(plan, kept)

    @property
    def remember(self) -> Remember:
        """How far the decision is remembered: as far as everybody who approved says."""
        everybody = all(one.remember is Remember.TOOL for one in self.counted)
        return Remember.TOOL if self.counted and everybody else Remember.EXACT

    def members(self) -> dict[int, tuple[Identity, ...]]:
        """Whose approval counts only as long as they belong to their stage's chat."""
        found: dict[int, tuple[Identity, ...]] = {}
        for one in self.counted:
            if one.is_member:
                found[one.stage] = (*found.get(one.stage, ()), one.actor)
        return found

    def stage_group(self, stage: int) -> Approvers:
        return self._stages[stage]

    def progress(self, judged: Mapping[str, Judged]) -> Progress:
        return Progress(
            approvers=self._shown_group(),
            stage=min(self.stage, len(self._stages) - 1) + 1,
            stages=len(self._stages),
            approvals=tuple(judged[one.event_id] for one in self.counted if one.event_id in judged),
            approved=self.approved,
            delegations=tuple(self._delegations if self.is_complete else self._standing),
            called=self._plan.escalate_to if self.escalated else (),
        )

    def _shown_group(self) -> Approvers:
        """Whose turn it is, with those who were called in and without those who left it to others."""
        group = self.group
        called = [*(taker for _, taker in self._standing), *(self._plan.escalate_to if self.escalated else ())]
        if group.kind is not Approvers.Kind.PEOPLE:
            return group  # `Progress.called` names the others
        people = [*group.people]
        people += [person for person in called if not any(person.is_same_person(other) for other in people)]
        gone = [giver for giver, _ in self._standing]
        left = [person for person in people if not any(person.is_same_person(other) for other in gone)]
        return group.model_copy(update={"people": tuple(left)}) if len(left) >= group.threshold else group

    def addresses(self) -> tuple[Address, ...]:
        """Where the cards of this stage go: the plan's chat, or the private chats of those whose turn it is."""
        plan = self._plan
        if not plan.addresses or any(each.kind is AddressKind.CHAT_ID or each.reply_to for each in plan.addresses):
            return plan.addresses
        group, called = self._shown_group(), [taker for _, taker in self._standing]
        called += plan.escalate_to if self.escalated else ()
        if group.kind is Approvers.Kind.CHAT and group.chat_id:
            found = [Address(kind=AddressKind.CHAT_ID, id=group.chat_id)]
        else:
            found = [Address.of(person) for person in group.people or (plan.requester,)]
        found += [Address.of(person) for person in called]
        return tuple(dict.fromkeys(found))
