"""What becomes of a question: functions from (a question, something that happened, now) to the question as it is then.

`Unopened` and `Opened` are its state before and after it has a plan: frozen values, as those of an approval. Who may
answer, which verdict an answer gets and why, what enters the audit, which cards are due, and what is shown, is decided
here, once.
"""

from assent.core.questions.answering import (
    answer,
    expire,
    look_again,
    offer,
    set_aside,
    stand_by,
    weighed,
    withdraw,
    written,
)
from assent.core.questions.delivering import arrive, ends_at, has_cards, is_due, remind, reminds_at, send, sends_at
from assent.core.questions.judging import after_ending, flaws_in, objection, refusal_entry, wrong_with
from assent.core.questions.opening import end_as_before, open_with, resume
from assent.core.questions.standing import Asked, Ending, Opened, Unopened
from assent.core.questions.views import (
    batch,
    close,
    conclude,
    conclude_as_written,
    event,
    has_news,
    state,
    verdict,
    weighing,
    write,
)

__all__ = [
    "Asked",
    "Ending",
    "Opened",
    "Unopened",
    "after_ending",
    "answer",
    "arrive",
    "batch",
    "close",
    "conclude",
    "conclude_as_written",
    "end_as_before",
    "ends_at",
    "event",
    "expire",
    "flaws_in",
    "has_cards",
    "has_news",
    "is_due",
    "look_again",
    "objection",
    "offer",
    "open_with",
    "refusal_entry",
    "remind",
    "reminds_at",
    "resume",
    "send",
    "sends_at",
    "set_aside",
    "stand_by",
    "state",
    "verdict",
    "weighed",
    "weighing",
    "withdraw",
    "write",
    "written",
    "wrong_with",
]
