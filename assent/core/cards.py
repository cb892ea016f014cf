"""The cards of one approval: which are there, which are on their way, and which are due."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from assent import sizes
from assent.contracts.values import Frozen

FRESH_FOR = timedelta(days=13)
"""Feishu stops a card's buttons after fourteen days: before that it is sent anew."""


NOTHING = -1
"""The news of cards that have to be told again how it stands."""


class Cards(Frozen):
    """The cards of one kind, one for each address. Those that are sent together are a generation."""

    generation: int = 0
    sent_at: datetime | None = None
    """When the newest of them were there."""
    message_ids: tuple[str, ...] = ()
    """Their messages; of very many, those that were sent last."""
    on_their_way: int = 0
    slow: tuple[int, ...] = ()
    """The places of those on their way that were not taken at once: nobody waits for them."""
    overtaken: int = 0
    """How many of former generations are still on their way."""
    places: int = 0
    """How many the newest generation has."""
    refusals: tuple[str, ...] = ()
    """Why some of them can never be delivered."""
    renewal: int = 0
    """Which renewal they show,"""
    news: int = 0
    """and which news."""
    held_until: datetime | None = None
    """Until when they are held back, because one that is shared with others may come."""
    was_interrupted: bool = False
    """Whether a former run left them half sent."""
    is_doubted: bool = False
    """Whether older ones may say again what they said before newer ones took their place."""

    @property
    def is_missing(self) -> bool:
        """Whether none could be delivered so far."""
        return bool(self.generation) and not self.message_ids

    @property
    def are_expected(self) -> bool:
        """Whether some are on their way, be it that newer ones have taken their place."""
        return bool(self.on_their_way or self.overtaken)

    @property
    def are_awaited(self) -> bool:
        """Whether those that are on their way are to be there in a moment."""
        return self.on_their_way > len(self.slow)

    def is_held(self, now: datetime, renewal: int) -> bool:
        return self.held_until is not None and now < self.held_until and self.renewal == renewal

    def due_at(self, now: datetime, renewal: int) -> datetime:
        """When the next generation is to be sent."""
        if self.are_awaited:
            return now + FRESH_FOR
        if self.held_until is not None and self.is_held(now, renewal):
            return self.held_until
        if self.was_interrupted or self.sent_at is None or self.renewal != renewal:
            return now
        return self.sent_at + FRESH_FOR

    def lag(self, now: datetime, renewal: int, news: int) -> bool:
        """Whether those that are there do not show what they should."""
        released = self.held_until is not None and not self.is_held(now, renewal)
        return not self.are_awaited and (released or self.is_doubted or self.renewal != renewal or self.news != news)

    def sending(self, places: int, renewal: int, news: int, *, looks_back: bool = True) -> Cards:
        """The next generation goes out; one that a former run left half sent, and still is right, goes out again.

        looks_back: whether it is known that those of them that are there go on saying what they said.
        """
        is_same = self.was_interrupted and self.renewal == renewal
        return self.model_copy(
            update={
                "generation": self.generation if is_same else self.generation + 1,
                "was_interrupted": False,
                "held_until": None,
                "on_their_way": places,
                "slow": (),
                "overtaken": self.overtaken + self.on_their_way,
                "places": places,
                "refusals": (),
                "renewal": renewal,
                "news": self.news if is_same and looks_back else news,
            }
        )

    def slowed(self, place: int, now: datetime) -> Cards:
        """One of them was not taken at once."""
        slow = self.model_copy(update={"slow": (*self.slow, place)})
        return slow if slow.are_awaited else slow.model_copy(update={"sent_at": now})

    def caught_up(self, place: int) -> Cards:
        """One that was not taken at once is there, or never will be."""
        return self.model_copy(update={"slow": tuple(each for each in self.slow if each != place)})

    def arrived(
        self, message_id: str | None, refused: str | None, now: datetime, *, leaves_older: bool = False
    ) -> Cards:
        """One of them is there, or never will be."""
        left = max(self.on_their_way - 1, 0)
        return self.model_copy(
            update={
                "on_their_way": left,
                "message_ids": newest((*self.message_ids, message_id)) if message_id else self.message_ids,
                "refusals": (*self.refusals, refused) if refused else self.refusals,
                "sent_at": now if left == len(self.slow) else self.sent_at,
                "news": NOTHING if leaves_older else self.news,
            }
        )

    def arrived_late(self, message_id: str | None) -> Cards:
        """One whose place newer ones have taken is there, and may say what it said; or it never will be."""
        left = self.model_copy(update={"overtaken": max(self.overtaken - 1, 0)})
        if message_id is None:
            return left
        return left.model_copy(update={"message_ids": newest((message_id, *self.message_ids)), "is_doubted": True})

    @property
    def refused(self) -> str | None:
        """Why none of them can be delivered, if that is so."""
        all_refused = bool(self.places) and len(self.refusals) == self.places
        return self.refusals[0] if all_refused and not self.message_ids else None

    def resumed(self) -> Cards:
        """As a new run finds them: nobody waits any more for those that were on their way."""
        if not self.on_their_way:
            return self.model_copy(update={"overtaken": 0})
        return self.model_copy(update={"on_their_way": 0, "slow": (), "overtaken": 0, "was_interrupted": True})


def newest(message_ids: Iterable[str]) -> tuple[str, ...]:
    """Each once; of very many, those that came last."""
    kept: list[str] = []
    room = sizes.CARDS
    for message_id in reversed(dict.fromkeys(message_ids)):
        room -= sizes.text_size(message_id) + 1
        if room < 0:
            break
        kept.append(message_id)
    return tuple(reversed(kept))
