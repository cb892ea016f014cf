"""Who asks, who may decide, who has, and until when, as rows of a card."""

from __future__ import annotations

from datetime import datetime
from itertools import accumulate

from assent.contracts.approvers import Approvers
from assent.contracts.decision import Judged
from assent.contracts.identity import Identity
from assent.contracts.plan import Plan
from assent.contracts.state import Progress
from assent.payload import short_hash
from assent.safe import markdown as escaped
from assent.safe import one_line, shortened
from cards.elements import Element, Room, div, local_time, markdown, mention, person, row, weight
from cards.safe import fitting, person_id
from cards.wording import Both, Wording

_ID_BYTES = 200
_RULE_BYTES = 300
_MENTION_BYTES = 4500
"""Room for those who may decide: some sixty people."""
_CALLED_BYTES = 800
"""Room that is kept for those who are called in later."""
_MOST_APPROVALS = 6
"""Approvals that a card lists, the latest of them."""
_MOST_DELEGATIONS = 2
_DELEGATIONS = Room(bytes=2600, tags=14)
"""What a card may have to say of who left the decision to whom."""
_APPROVALS = Room(bytes=4200, tags=10)
"""And of who has approved so far, where that takes several."""


_IN_WORDS = (Approvers.Kind.ANYONE, Approvers.Kind.CHAT)
"""Approvers who are not named one by one."""


def named(someone: Identity) -> str:
    """A person as markdown: by name and picture where the id allows it, else by the id itself."""
    identifier = person_id(someone)
    return person(identifier) if identifier else escaped(fitting(str(someone), _ID_BYTES))


def mentioned(someone: Identity) -> str:
    """A person as markdown who is notified, where the id allows it."""
    identifier = person_id(someone)
    return mention(identifier) if identifier else escaped(fitting(str(someone), _ID_BYTES))


def requester_row(plan: Plan, wording: Wording) -> Element:
    """Who asks."""
    return row(wording("card.asked_by"), markdown(named(plan.requester)))


def requester_rows(plan: Plan, wording: Wording) -> list[Element]:
    """Who asks, and through which agent."""
    rows = [requester_row(plan, wording)]
    if plan.asked_by:
        rows.append(row(wording("card.through"), div(shortened(one_line(plan.asked_by), 200))))
    return rows


def rule_of(plan: Plan) -> str:
    """The operator's rule that says who decides, where there is one."""
    if plan.rule is None:
        return ""
    return f"{one_line(fitting(plan.rule.name, _RULE_BYTES))} · {short_hash(plan.rule.policy_sha256)}"


def first(plan: Plan) -> Progress:
    """Where the approvers begin."""
    stages = plan.approvers.stages
    return Progress(approvers=stages[0], stages=len(stages))


def approvers_row(plan: Plan, progress: Progress | None, wording: Wording) -> Element:
    """Who may decide now, mentioned so that they are notified. Never everyone at once."""
    progress = progress or first(plan)
    done = tuple(judged.actor for judged in progress.approvals)
    return _deciders(plan, (progress.approvers,), progress, done, wording)


def reviewers_row(plan: Plan, progress: Progress | None, wording: Wording) -> Element:
    """Who may decide about the result: whoever may decide about the call, in any stage."""
    progress = progress or first(plan)
    return _deciders(plan, (*plan.approvers.stages, progress.approvers), progress, (), wording)


def _deciders(
    plan: Plan,
    groups: tuple[Approvers, ...],
    progress: Progress,
    done: tuple[Identity, ...],
    wording: Wording,
) -> Element:
    """Those of the groups, in words and by name.

    done: those of them who have decided.
    """
    people, room = _people(plan, groups, progress, done), _room_for_mentions(plan)
    mentions = _as_many_as_fit([mentioned(someone) for someone in people], room)
    in_words = dict.fromkeys(_in_words(group, wording) for group in groups)
    values = [div(words) for words in in_words if words is not None]
    if mentions:
        values.append(markdown(" ".join(mentions)))
    if more := len(people) - len(mentions):
        values.append(div(wording("card.more_people", count=str(more)), text_color="grey"))
    if all(group.exclude_requester for group in groups):
        values.append(div(wording("card.not_requester"), text_color="grey"))
    return row(wording("card.may_decide"), *values)


def _in_words(group: Approvers, wording: Wording) -> Both | None:
    """Those who are not named one by one."""
    if group.kind is Approvers.Kind.ANYONE:
        return wording("card.anyone")
    if group.kind is Approvers.Kind.CHAT:
        return wording("card.members", chat=one_line(fitting(group.chat_id or "", _ID_BYTES)))
    return None


def _people(
    plan: Plan,
    groups: tuple[Approvers, ...],
    progress: Progress,
    done: tuple[Identity, ...],
) -> list[Identity]:
    """Those who are named one by one: the groups' own, and whoever was asked since, but for those who passed it on."""
    people: list[Identity] = []
    own = [person for group in groups for person in _named_in(group, plan)]
    for someone in (*own, *(taker for _, taker in progress.delegations), *progress.called):
        if not any(someone.is_same_person(other) for other in people):
            people.append(someone)
    gone = [*(giver for giver, _ in progress.delegations), *done]
    left = [someone for someone in people if not someone.is_among(gone)]
    return left if left or any(group.kind in _IN_WORDS for group in groups) else people


def _named_in(group: Approvers, plan: Plan) -> tuple[Identity, ...]:
    return (plan.requester,) if group.kind is Approvers.Kind.REQUESTER else group.people


def _room_for_mentions(plan: Plan) -> int:
    """What the largest of the plan's groups takes, and some more."""
    groups = [(*_named_in(stage, plan), *plan.escalate_to) for stage in plan.approvers.stages]
    largest = max(sum(weight(mentioned(someone)) + 1 for someone in group) for group in groups)
    return min(_MENTION_BYTES, largest + _CALLED_BYTES)


def mentions(people: tuple[Identity, ...], room: int) -> list[Element]:
    """A line that notifies these people, as many as there is room for; none where there is nobody."""
    shown = _as_many_as_fit([mentioned(someone) for someone in people], room)
    return [markdown(" ".join(shown))] if shown else []


def _as_many_as_fit(mentions: list[str], room: int) -> list[str]:
    weights = accumulate(weight(mention) + 1 for mention in mentions)
    return [mention for mention, so_far in zip(mentions, weights, strict=True) if so_far <= room]


def progress_rows(plan: Plan, progress: Progress | None, wording: Wording) -> list[Element]:
    """How many have approved of how many that must, who they are, and who left it to whom."""
    progress = progress or first(plan)
    needed = progress.approvers.threshold
    if needed == 1 and progress.stages == 1 and not progress.approvals and not progress.delegations:
        return _rejections(plan, wording)
    count = wording("card.progress", approved=str(progress.approved), needed=str(needed))
    if progress.stages > 1:
        count = count + wording("card.stage", stage=str(progress.stage), stages=str(progress.stages))
    rows = [row(wording("card.approvals"), div(count), *_approvals(progress.approvals, wording))]
    if delegations := progress.delegations[-_MOST_DELEGATIONS:]:
        passed = (markdown(f"{named(giver)} → {named(taker)}") for giver, taker in delegations)
        rows.append(row(wording("card.delegated"), *passed))
    return [*rows, *_rejections(plan, wording)]


def _rejections(plan: Plan, wording: Wording) -> list[Element]:
    most = plan.approvers.rejections
    return [div(wording("card.rejections", count=str(most)), text_color="grey")] if most > 1 else []


def _approvals(approvals: tuple[Judged, ...], wording: Wording) -> list[Element]:
    """One line for each approval, the latest of them."""
    hidden = max(0, len(approvals) - _MOST_APPROVALS)
    lines = [markdown(f"{named(each.actor)} · {local_time(each.received_at)}") for each in approvals[hidden:]]
    return [div(wording("card.earlier_approvals", count=str(hidden)), text_color="grey"), *lines] if hidden else lines


def room_for_progress(plan: Plan) -> Room:
    """What a card that nobody has decided on yet may have to say later of those who do."""
    now = sum(weight(mentioned(someone)) + 1 for someone in _people(plan, plan.approvers.stages[:1], first(plan), ()))
    called = max(0, _room_for_mentions(plan) - now)
    several = len(plan.approvers.stages) > 1 or plan.approvers.threshold > 1
    rooms = [_DELEGATIONS, *([_APPROVALS] if several else [])]
    return Room(called + sum(room.bytes for room in rooms), sum(room.tags for room in rooms))


def deadline_row(deadline: datetime, wording: Wording) -> Element:
    """Until when, in the reader's time."""
    return row(wording("card.deadline"), markdown(local_time(deadline)))
