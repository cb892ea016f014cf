"""The operator's policy file as it is in force, and the rule of it that applied."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from assent.contracts.identity import Identity
from assent.contracts.permission import Execution, Permission, ResultReview
from assent.contracts.values import Frozen, Id, Surface, Text


class Rule(Frozen):
    """The operator's rule that a plan was made by."""

    name: str
    policy_sha256: str
    """The hash of the file that holds it."""


class Policy(Frozen):
    """The operator's policy file, as it is in force."""

    n: int = 0
    """Its number: one that is put in force later has a higher one."""
    text: str
    sha256: str
    since: datetime


_Lasting = Annotated[timedelta, Field(gt=timedelta(0), le=timedelta(days=3650))]


class NewOverride(Frozen):
    """What somebody wants to hold for a tool for a while; neither word: that nothing but the file and the tool does."""

    tool: Id
    execution: Execution | None = None
    result: ResultReview | None = None
    until: AwareDatetime | _Lasting | None = None
    """Until when, or for how long from when it is put in force; None: until another takes its place."""
    actor: Identity | None = None
    """Who wants it."""
    reason: Text | None = None
    surface: Surface = Surface.CLIENT
    once: Id
    """Names the wish: repeated, it is one."""


class Override(Frozen):
    """A word about a tool that stands beside the policy's file for a while."""

    n: int
    """Its number: one that is put in force later has a higher one."""
    tool: str
    execution: Execution | None = None
    result: ResultReview | None = None
    until: datetime | None = None
    """When it ends by itself, by the database's clock."""
    actor: Identity | None = None
    reason: str | None = None
    surface: Surface = Surface.CLIENT
    since: datetime
    once: str
    by_operator: bool = False
    """Whether an operator wants it: only then it may ask for less than the tool, whatever the tool says by then."""

    def over(self, said: Permission) -> Permission:
        """A tool's own word, replaced by this; what is denied stays denied."""
        if not self.by_operator:
            return self.beside(said)
        denies = said.execution is Execution.DENY
        return Permission(
            execution=said.execution if denies else self.execution or said.execution, result=self.result or said.result
        )

    def beside(self, said: Permission) -> Permission:
        """The stricter of this and what the file, or the tool, says."""
        executions, results = (said.execution, self.execution), (said.result, self.result)
        return Permission(
            execution=max((each for each in executions if each), key=lambda each: each.strictness),
            result=max((each for each in results if each), key=lambda each: each.strictness),
        )


class OverrideKind(StrEnum):
    """What became of the wish to override a tool's permission."""

    IN_FORCE = "in_force"
    ENDED = "ended"
    """Nothing but the file and the tool holds from now on."""
    FORBIDDEN = "forbidden"
    """It asks for less than holds now, and who wants it is no operator."""


class Overridden(Frozen):
    """What became of it, and what is in force."""

    kind: OverrideKind
    override: Override | None = None
