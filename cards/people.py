"""Who asks, who may decide and until when, as rows of a card."""

from __future__ import annotations

from itertools import accumulate

from assent.contracts import Approvers, Identity, Plan
from cards.elements import Element, div, local_time, markdown, mention, person, row, weight
from cards.safe import markdown as escaped
from cards.safe import one_line, person_id, shortened
from cards.wording import Wording

_MENTION_BYTES = 4500
"""Room for those who may decide: some sixty people."""


def named(someone: Identity) -> str:
    """A person as markdown: by name and picture where the id allows it, else by the id itself."""
    identifier = person_id(someone)
    return person(identifier) if identifier else escaped(str(someone))


def requester_rows(plan: Plan, wording: Wording) -> list[Element]:
    """Who asks, and through which agent."""
    rows = [row(wording("card.asked_by"), markdown(named(plan.requester)))]
    if plan.asked_by:
        rows.append(row(wording("card.through"), div(shortened(one_line(plan.asked_by), 200))))
    return rows


def approvers_row(plan: Plan, wording: Wording) -> list[Element]:
    """Who may decide, mentioned so that they are notified. Never everyone at once."""
    label = wording("card.may_decide")
    match plan.approvers.kind:
        case Approvers.Kind.ANYONE:
            return [row(label, div(wording("card.anyone")))]
        case Approvers.Kind.REQUESTER:
            people: tuple[Identity, ...] = (plan.requester,)
        case Approvers.Kind.PEOPLE:
            people = plan.approvers.people
    mentions = _as_many_as_fit([mentioned(someone) for someone in people])
    rows = [row(label, markdown(" ".join(mentions)))]
    if more := len(people) - len(mentions):
        rows.append(div(wording("card.more_people", count=str(more)), text_color="grey"))
    return rows


def _as_many_as_fit(mentions: list[str]) -> list[str]:
    weights = accumulate(weight(mention) + 1 for mention in mentions)
    return [mention for mention, so_far in zip(mentions, weights, strict=True) if so_far <= _MENTION_BYTES]


def deadline_row(plan: Plan, wording: Wording) -> Element:
    """Until when, in the reader's time."""
    return row(wording("card.deadline"), markdown(local_time(plan.deadline)))


def mentioned(someone: Identity) -> str:
    """A person as markdown who is notified, where the id allows it."""
    identifier = person_id(someone)
    return mention(identifier) if identifier else escaped(str(someone))
