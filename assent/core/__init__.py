"""The deciding core: functions from (an approval, something that happened, now) to the approval as it is then.

No Temporal, no input or output, no clock. `Unplanned` and `Planned` are the state of an approval before and after it
has a plan: frozen values that can be written down and read again at any moment. Everything that decides is here, once:
who may decide, who has, who is awaited, which verdict a decision gets, what enters the audit, which cards are due, and
what is shown.
"""

from assent.core.approval import Approval, Asked, Ending, Planned, SealedResult, Unplanned
from assent.core.deciding import answer, decide, expire, look_again, strike, supersede, withdraw
from assent.core.delivering import (
    are_on_their_way,
    arrive,
    call_others,
    ends_at,
    has_cards,
    has_changed,
    is_behind,
    is_missing,
    lose_bundle,
    send,
    show,
    take_card,
    wakes_at,
)
from assent.core.executing import (
    batch,
    begin,
    call,
    close,
    conclude,
    concluded,
    frozen_call,
    has_news,
    outcome_of,
    release,
    released,
    report,
    to_remember,
    withheld,
    write,
    write_batch,
)
from assent.core.keeping import set_aside
from assent.core.opening import end_as_before, open_with, refuse, resume, turn_away
from assent.core.views import awaited, awaited_at_first, member, question, questions_before_call, state, verdict

__all__ = [
    "Approval",
    "Asked",
    "Ending",
    "Planned",
    "SealedResult",
    "Unplanned",
    "answer",
    "are_on_their_way",
    "arrive",
    "awaited",
    "awaited_at_first",
    "batch",
    "begin",
    "call",
    "call_others",
    "close",
    "conclude",
    "concluded",
    "decide",
    "end_as_before",
    "ends_at",
    "expire",
    "frozen_call",
    "has_cards",
    "has_changed",
    "has_news",
    "is_behind",
    "is_missing",
    "look_again",
    "lose_bundle",
    "member",
    "open_with",
    "outcome_of",
    "question",
    "questions_before_call",
    "refuse",
    "release",
    "released",
    "report",
    "resume",
    "send",
    "set_aside",
    "show",
    "state",
    "strike",
    "supersede",
    "take_card",
    "to_remember",
    "turn_away",
    "verdict",
    "wakes_at",
    "withdraw",
    "withheld",
    "write",
    "write_batch",
]
