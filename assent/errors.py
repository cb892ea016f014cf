"""Everything Assent raises.

AssentError
├── InvalidRequest (also a ValueError)   the request was refused before anything started
│   └── Unhashable                       an argument cannot be carried exactly; says which one
├── InvalidTool (also a ValueError)      a tool was refused when it was registered
├── ApprovalConflict                     the approval id belongs to another request
├── ConversationBusy                     the conversation has an open request, and the caller asked not to wait
├── ApprovalNotFound                     neither Temporal nor the ledger knows the approval
├── ApprovalInterrupted                  the approval's workflow was ended by hand; only the ledger knows what ran
├── QuestionConflict                     the question id belongs to another question
├── QuestionNotFound                     neither Temporal nor the ledger knows the question
├── QuestionInterrupted                  the question's workflow was ended by hand
├── InteractionRefused                   a line for a running program is not taken; says by which code
├── NotFrozen                            the approval is not frozen: there is nothing to settle
├── RulingRefused                        what was said of a frozen call cannot be taken as it is; it stays frozen
├── QuotaExceeded                        more was asked for than may be; says which quota, and when to ask again
├── LedgerNeeded                         it is read from the ledger, and this client has no reader of it
├── FileGone                             a shared file is not there, and never will be again
│   └── FileTooLarge                     or there is more of it than may be
├── FileUnavailable                      a shared file cannot be fetched now; later it may
├── MissingExtra (also an ImportError)   what was used is installed with an extra; says which one
├── NotAllowed                           the HTTP API does not know the token, or it does not reach that far
└── Unavailable                          Temporal, the workers or the HTTP API did not answer; nothing was lost
"""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_NAME = 100
_LONGEST_PATH = 500
"""How much of a path an error repeats: whoever sent it knows the rest."""


class AssentError(Exception):
    """The parent of all errors that Assent raises."""


class InvalidRequest(AssentError, ValueError):
    """The request was refused before anything started."""


class Unhashable(InvalidRequest):
    """A value has no exact canonical form, so no one could approve exactly it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem

    @classmethod
    def at(cls, place: Sequence[str | int], problem: str) -> Unhashable:
        """The error about what lies at a place: the names and positions that lead to it from the top."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step[:_LONGEST_NAME]}" for step in place)
        path = "$" + "".join(steps)
        return cls(path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…", problem)


class InvalidTool(AssentError, ValueError):
    """A tool cannot be registered as it is declared."""


class ApprovalConflict(AssentError):
    """The approval id was used before, for another request."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            f"approval {approval_id!r} already stands for another request; nothing was started. "
            "Repeat the first request unchanged to attach to it, or choose a new id."
        )
        self.approval_id = approval_id


class ConversationBusy(AssentError):
    """The conversation already has an open request."""

    def __init__(self, thread_id: str, pending: str | None = None) -> None:
        other = f" ({pending})" if pending else ""
        super().__init__(
            f"conversation {thread_id!r} has an open request{other}; nothing was asked. "
            'Wait for it, or ask with when_pending="supersede".'
        )
        self.thread_id = thread_id
        self.pending = pending


class ApprovalNotFound(AssentError):
    """Neither Temporal nor the ledger knows the approval."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"approval {approval_id!r} is not known. Check the id, and where you are connected to.")
        self.approval_id = approval_id


class ApprovalInterrupted(AssentError):
    """The approval's workflow was ended from outside before it could say how it ended."""

    def __init__(self, approval_id: str, how: str) -> None:
        super().__init__(
            f"approval {approval_id!r} was {how} in Temporal before it ended. "
            "Whether its call ran, only the ledger can tell: do not repeat the call before it was checked."
        )
        self.approval_id = approval_id
        self.how = how


class QuestionConflict(AssentError):
    """The question id was used before, for another question."""

    def __init__(self, question_id: str) -> None:
        super().__init__(
            f"question {question_id!r} already stands for another question; nothing was asked. "
            "Ask the first one again unchanged to attach to it, or choose a new id."
        )
        self.question_id = question_id


class QuestionNotFound(AssentError):
    """Neither Temporal nor the ledger knows the question."""

    def __init__(self, question_id: str) -> None:
        super().__init__(f"question {question_id!r} is not known. Check the id, and where you are connected to.")
        self.question_id = question_id


class QuestionInterrupted(AssentError):
    """The question's workflow was ended from outside before anybody answered."""

    def __init__(self, question_id: str, how: str) -> None:
        super().__init__(f"question {question_id!r} was {how} in Temporal before it was answered. Ask it again.")
        self.question_id = question_id
        self.how = how


class InteractionRefused(AssentError):
    """A line for a running program is not taken; the code says why."""

    def __init__(self, code: str, question_id: str) -> None:
        super().__init__(f"interaction {question_id!r}: {code}")
        self.code = code
        self.question_id = question_id


class NotFrozen(AssentError):
    """There is nothing to settle: the approval is not frozen."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(f"approval {approval_id!r} is not frozen; nothing was changed")
        self.approval_id = approval_id


class RulingRefused(AssentError):
    """What was said of a frozen call cannot be taken as it is; it stays frozen."""

    def __init__(self, approval_id: str, code: str, why: str) -> None:
        super().__init__(f"{why}. Approval {approval_id!r} stays frozen.")
        self.approval_id = approval_id
        self.code = code
        self.why = why


class QuotaExceeded(AssentError):
    """More was asked for than this agent, this requester or this chat may have; nothing was asked."""

    def __init__(self, quota: str, limit: int, retry_after: int) -> None:
        super().__init__(
            f"the quota {quota} ({limit}) is used up; nothing was asked. Ask again in {retry_after} seconds."
        )
        self.quota = quota
        self.limit = limit
        self.retry_after = retry_after
        """In how many seconds it is worth asking again."""


class LedgerNeeded(AssentError):
    """What was asked for is read from the ledger, which Temporal does not hold, and this client cannot read it."""

    def __init__(self) -> None:
        super().__init__(
            "this is read from the ledger, and Temporal does not hold it. Connect over the HTTP API, or give a reader: "
            "Assent.connect(reader=…). On the command line, set ASSENT_URL and ASSENT_TOKEN."
        )


class MissingExtra(AssentError, ImportError):
    """What was used needs a package that is installed with an extra."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'assent[{extra}]'")
        self.extra = extra


class NotAllowed(AssentError):
    """The token is not known or does not reach that far, or the person may not do that; nothing was done."""


class Unavailable(AssentError):
    """Temporal or the workers did not answer in time; what was sent durably is not lost."""


class FileGone(AssentError):
    """A shared file cannot be had: it is not there, and never will be again.

    reason: why, in words for whoever asked.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the file is gone: {reason}")
        self.reason = reason


class FileTooLarge(FileGone):
    """There is more of a shared file than may be fetched."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is larger than {limit} bytes")


class FileUnavailable(AssentError):
    """A shared file cannot be fetched now: try again.

    retry_after: how many seconds to wait, where that is known.
    """

    def __init__(self, problem: str, *, retry_after: float | None = None) -> None:
        super().__init__(f"the file cannot be fetched now: {problem}")
        self.problem = problem
        self.retry_after = retry_after
