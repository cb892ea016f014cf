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
├── InteractionRefused                   a line for a running program was refused; the code says why
├── NotFrozen                            the approval is not frozen: there is nothing to settle
├── RulingRefused                        the ruling on a frozen call was refused; the call stays frozen
├── QuotaExceeded                        a quota is used up; says which one, and when to ask again
├── LedgerNeeded                         only the ledger has this, and this client cannot read the ledger
├── FileGone                             a shared file is not there, and never will be again
│   └── FileTooLarge                     or it is larger than allowed
├── FileUnavailable                      a shared file cannot be fetched now, but perhaps later
├── MissingExtra (also an ImportError)   a package is missing that an extra installs; says which extra
├── NotAllowed                           the HTTP API does not know the token, or the token does not allow this
└── Unavailable                          Temporal, the workers or the HTTP API did not answer; nothing was lost
"""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_NAME = 100
_LONGEST_PATH = 500
"""How much of a path an error repeats: the sender knows the rest."""


class AssentError(Exception):
    """The parent of all errors that Assent raises."""


class InvalidRequest(AssentError, ValueError):
    """The request was refused before anything started."""


class Unhashable(InvalidRequest):
    """A value has no exact canonical form, so nobody could approve exactly that value."""

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
        super().__init__(f"approval {approval_id!r} is not known. Check the id, and what you are connected to.")
        self.approval_id = approval_id


class ApprovalInterrupted(AssentError):
    """The approval's workflow was ended from outside before it could say how it ended."""

    def __init__(self, approval_id: str, how: str) -> None:
        super().__init__(
            f"approval {approval_id!r} was {how} in Temporal before it ended. "
            "Only the ledger can tell whether its call ran: do not repeat the call before somebody has checked."
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
        super().__init__(f"question {question_id!r} is not known. Check the id, and what you are connected to.")
        self.question_id = question_id


class QuestionInterrupted(AssentError):
    """The question's workflow was ended from outside before anybody answered."""

    def __init__(self, question_id: str, how: str) -> None:
        super().__init__(f"question {question_id!r} was {how} in Temporal before it was answered. Ask it again.")
        self.question_id = question_id
        self.how = how


class InteractionRefused(AssentError):
    """A line for a running program was refused; the code says why."""

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
    """The ruling on a frozen call was refused; the call stays frozen."""

    def __init__(self, approval_id: str, code: str, why: str) -> None:
        super().__init__(f"{why}. Approval {approval_id!r} stays frozen.")
        self.approval_id = approval_id
        self.code = code
        self.why = why


class QuotaExceeded(AssentError):
    """This agent, this requester or this chat has used up a quota; nobody was asked."""

    def __init__(self, quota: str, limit: int, retry_after: int) -> None:
        super().__init__(
            f"the quota {quota} ({limit}) is used up; nothing was asked. Ask again in {retry_after} seconds."
        )
        self.quota = quota
        self.limit = limit
        self.retry_after = retry_after
        """How many seconds to wait before asking again."""


class LedgerNeeded(AssentError):
    """Only the ledger has what was asked for, not Temporal, and this client cannot read the ledger."""

    def __init__(self) -> None:
        super().__init__(
            "only the ledger has this, not Temporal. Connect over the HTTP API, or pass a reader: "
            "Assent.connect(reader=…). On the command line, set ASSENT_URL and ASSENT_TOKEN."
        )


class MissingExtra(AssentError, ImportError):
    """This needs a package that an extra installs."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'assent[{extra}]'")
        self.extra = extra


class NotAllowed(AssentError):
    """The token is not known or does not allow this, or the person may not do this; nothing was done."""


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
    """A shared file is larger than may be fetched."""

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
