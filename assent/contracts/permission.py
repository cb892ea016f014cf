"""Whether a person is asked before a call runs, and before its result is handed over."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import ConfigDict, model_validator

from assent.contracts.status import Status
from assent.contracts.values import Frozen


class Execution(StrEnum):
    """Whether a person is asked before a call runs."""

    AUTO = "auto"
    ASK_ONCE = "ask-once"
    ASK_ALWAYS = "ask-always"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        return list(Execution).index(self)


class ResultReview(StrEnum):
    """Whether a person is asked before the agent gets a result."""

    NEVER = "never"
    ON_ERROR = "on-error"
    ALWAYS = "always"

    @property
    def strictness(self) -> int:
        return list(ResultReview).index(self)

    def covers(self, status: Status) -> bool:
        """Whether the result of a call that ended so is looked at first."""
        return self is ResultReview.ALWAYS or (
            self is ResultReview.ON_ERROR and status in (Status.FAILED, Status.FROZEN)
        )


IN_CAMEL_CASE = {
    "executionPolicy": "execution",
    "resultApprovalPolicy": "result",
    "requireExecutionApproval": "require_execution_approval",
    "requireResultApproval": "require_result_approval",
}
"""What others call the same."""
_LEVELS = {"public": Execution.AUTO, "moderate": Execution.ASK_ONCE, "sensitive": Execution.ASK_ALWAYS}


class Permission(Frozen):
    """Whether a person is asked before a tool runs, and before its result is handed over.

    The older words are understood too: `level` (public, moderate, sensitive), `require_execution_approval` and
    `require_result_approval`; and those of others: `executionPolicy`, `resultApprovalPolicy`,
    `requireExecutionApproval`, `requireResultApproval`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    execution: Execution = Execution.ASK_ALWAYS
    result: ResultReview = ResultReview.NEVER

    @model_validator(mode="before")
    @classmethod
    def _older_words(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = {"level": given}
        if not isinstance(given, dict):
            return given
        words = {IN_CAMEL_CASE.get(word, word): said for word, said in given.items()}
        if len(words) < len(given):
            raise ValueError("the same is said twice, in two words; say it once")
        level = words.pop("level", None)
        asks, reviews = (words.pop(f"require_{what}_approval", None) for what in ("execution", "result"))
        if level is not None and level not in _LEVELS:
            raise ValueError(f"{level!r} is no level; say public, moderate or sensitive")
        if level is not None:
            words.setdefault("execution", _LEVELS[level])
        if asks is False:
            words["execution"] = Execution.AUTO
        if reviews is True:
            words["result"] = ResultReview.ALWAYS
        return words


class Fallback(StrEnum):
    """What becomes of a result that nobody decided about in time."""

    RELEASE = "release"
    WITHHOLD = "withhold"
