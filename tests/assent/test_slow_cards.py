"""Some chats take a card at once, some later, some never, some after newer cards followed: nothing waits for them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from assent import Approvers, Identity, core
from assent.contracts.address import Address
from assent.contracts.deliver import Delivered, Delivery
from assent.core import Planned, Unplanned
from assent.core.deciding import renew, tell
from tests.support import policies

PEOPLE = tuple(Identity(open_id=f"ou_{name}") for name in ("ann", "ben", "cat"))


def asked(now: datetime) -> Planned:
    plan = policies.plan(
        deadline=now + timedelta(hours=9),
        asked_at=now,
        approvers=Approvers(kind=Approvers.Kind.PEOPLE, people=PEOPLE, threshold=2),
        addresses=tuple(Address.of(person) for person in PEOPLE),
        is_shown_in_turn=True,
        waits_for_no_chat=True,
    )
    return core.open_with(Unplanned(request=policies.request(plan)), plan, now)


class Chats:
    """What becomes of cards, at random."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = datetime.now(UTC)
        self.approval = asked(self.now)
        self.awaited: list[Delivery] = []
        self.slow: list[Delivery] = []
        self.sent: set[tuple[int, int]] = set()
        self.there: set[str] = set()

    def act(self) -> None:
        self.now += timedelta(seconds=self.chance.random() * 10)
        act = self.chance.choice(
            ["renew", "tell", "arrives", "arrives", "is slow", "is slow", "comes late", "is shown"]
        )
        if act == "renew":
            self.approval = renew(self.approval)
        elif act == "tell":
            self.approval = tell(self.approval)
        elif act == "is shown":
            self.approval = core.shown(self.approval, self.approval.news)
        elif act == "arrives" and self.awaited:
            self.land(self.one_of(self.awaited))
        elif act == "is slow" and self.awaited:
            delivery = self.one_of(self.awaited)
            self.approval = core.pass_by(self.approval, delivery, self.now)
            self.slow.append(delivery)
        elif act == "comes late" and self.slow:
            self.land(self.one_of(self.slow))
        self.send()

    def one_of(self, deliveries: list[Delivery]) -> Delivery:
        return deliveries.pop(self.chance.randrange(len(deliveries)))

    def land(self, delivery: Delivery) -> None:
        message_id = f"om_{delivery.generation}_{delivery.place}"
        refused = self.chance.random() < 0.1
        delivered = Delivered(refused="it is not allowed") if refused else Delivered(message_id=message_id)
        self.approval = core.land(self.approval, delivery, delivered, self.now)
        self.there |= set() if refused else {message_id}

    def send(self) -> None:
        is_behind = self.approval.cards.renewal != self.approval.renewal or not self.approval.cards.generation
        may_wait = bool(self.awaited)
        self.approval, sent = core.send(self.approval, self.now)
        assert bool(sent) == (is_behind and not may_wait), "newer cards wait for those that are just going out alone"
        for delivery in sent:
            assert (delivery.generation, delivery.place) not in self.sent
            self.sent.add((delivery.generation, delivery.place))
        self.awaited += sent
        assert core.wakes_at(self.approval, self.now) > self.now, "it would wake for nothing"
        assert core.are_awaited(self.approval) == bool(self.awaited)
        if self.approval.ending is None:
            assert self.approval.expects_cards == bool(self.awaited or self.slow)
        assert self.there <= self.approval.messages


@pytest.mark.parametrize("seed", range(200))
def test_whatever_becomes_of_cards_newer_ones_follow_and_all_that_are_there_are_known(seed: int) -> None:
    chats = Chats(seed)
    chats.send()
    for _ in range(chats.chance.randint(1, 60)):
        chats.act()
        if chats.approval.ending is not None:
            assert not chats.there, "of which all were refused"
            return
    for delivery in [*chats.awaited, *chats.slow]:
        chats.land(delivery)
    assert chats.there <= chats.approval.messages
    assert not chats.approval.expects_cards
    cards = chats.approval.cards
    assert (cards.on_their_way, cards.slow, cards.overtaken) == (0, (), 0)


def test_a_card_that_comes_late_is_told_what_happened_since_it_was_drawn() -> None:
    chats = Chats(0)
    chats.send()
    first, *others = chats.awaited
    for delivery in others:
        chats.approval = core.land(chats.approval, delivery, Delivered(message_id=f"om_{delivery.place}"), chats.now)
    chats.approval = core.pass_by(chats.approval, first, chats.now)
    assert core.show(chats.approval, chats.now) is None
    drawn = first.model_copy(update={"progress": None})
    late = core.land(chats.approval, drawn, Delivered(message_id="om_late"), chats.now)
    assert core.show(late, chats.now) is not None
    assert core.show(core.land(chats.approval, first, Delivered(message_id="om_late"), chats.now), chats.now) is None


def test_a_card_that_comes_after_newer_ones_is_followed() -> None:
    chats = Chats(0)
    chats.send()
    older = chats.awaited.pop()
    chats.approval = core.pass_by(chats.approval, older, chats.now)
    for delivery in chats.awaited:
        chats.land(delivery)
    chats.awaited, chats.slow = [], [older]
    chats.approval = renew(chats.approval)
    chats.send()
    for delivery in chats.awaited:
        chats.approval = core.land(chats.approval, delivery, Delivered(message_id=f"om_{delivery.place}"), chats.now)
    chats.approval = core.shown(chats.approval, chats.approval.news)
    assert core.show(chats.approval, chats.now) is None
    chats.approval = core.land(chats.approval, older, Delivered(message_id="om_older"), chats.now)
    revision = core.show(chats.approval, chats.now)
    assert revision is not None
    assert revision.doubts_older


def test_what_comes_late_while_something_is_shown_is_shown_again() -> None:
    chats = Chats(0)
    chats.send()
    older = chats.awaited.pop()
    chats.approval = core.pass_by(chats.approval, older, chats.now)
    chats.approval = renew(chats.approval)
    for delivery in chats.awaited:
        chats.approval = core.land(chats.approval, delivery, Delivered(message_id=f"om_{delivery.place}"), chats.now)
    chats.awaited = []
    chats.send()
    for delivery in chats.awaited:
        chats.approval = core.land(chats.approval, delivery, Delivered(message_id=f"om_2{delivery.place}"), chats.now)
    being_shown = chats.approval.news
    chats.approval = core.land(chats.approval, older, Delivered(message_id="om_older"), chats.now)
    assert core.show(core.shown(chats.approval, being_shown), chats.now) is not None
