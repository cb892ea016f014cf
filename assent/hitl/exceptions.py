"""What an agent's loop and its channel raise.

HitlControlException (a BaseException)   the waiting ended without an answer; no `except Exception` swallows it
├── HitlCancelled                        the request was cancelled; says why
├── HitlTimedOut                         nobody answered in time
├── HitlDetached                         this process stopped waiting; the request is still open
└── HitlAborted                          the request was given up, and the loop with it

HitlError (an AssentError)
├── HitlConcurrencyError                 the thread has a request that is open, or runs elsewhere
├── HitlStaleAnswer                      the answer is for another request than the open one, or came second
├── HitlNoPendingRequest                 nothing is open that could be answered
└── HitlDurabilityNotGuaranteed          a tool's body asks, and would begin anew if its process died
"""

from __future__ import annotations

from assent.errors import AssentError


class HitlControlException(BaseException):
    """The waiting for a person ended without an answer."""


class HitlCancelled(HitlControlException):
    """The request was cancelled, by its host or by whoever asked."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(f"the request was cancelled: {reason}" if reason else "the request was cancelled")
        self.reason = reason


class HitlTimedOut(HitlControlException):
    """Nobody answered in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nobody answered within {seconds:g} seconds")
        self.seconds = seconds


class HitlDetached(HitlControlException):
    """This process no longer waits; the request stays open, and its time runs on."""

    def __init__(self) -> None:
        super().__init__("this process no longer waits for the answer; the request stays open")


class HitlAborted(HitlControlException):
    """The request was given up, and the loop that waited for it ends."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(f"the request was given up: {reason}" if reason else "the request was given up")
        self.reason = reason


class HitlError(AssentError):
    """The parent of what is wrong with how a channel or an agent was used."""


class HitlConcurrencyError(HitlError):
    """A thread has one open request at most, and runs in one place at a time."""


class HitlStaleAnswer(HitlError):
    """The answer is not for the request that is open, or somebody else's came first; it changed nothing."""


class HitlNoPendingRequest(HitlError):
    """No request is open, so there is nothing to answer, cancel or give up."""

    def __init__(self, why: str = "no request of this thread is open") -> None:
        super().__init__(why)


class HitlDurabilityNotGuaranteed(HitlError):
    """What a tool's body asks cannot survive its process: the body would begin anew."""

    def __init__(self) -> None:
        super().__init__(
            "the body of a tool asks, and would begin anew if its process died while it waits. Let the loop ask "
            "before the tool runs, or say that beginning anew is harmless: allow_inside_custom_tool=True."
        )
