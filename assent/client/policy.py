"""What stands beside the operator's policy for a while, for trusted code: overrides of tools' permissions."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Protocol

from assent.client.door import invalid
from assent.contracts.identity import Identity
from assent.contracts.permission import Execution, ResultReview
from assent.contracts.policy import NewOverride, Overridden, Override, OverrideKind
from assent.contracts.values import Surface
from assent.errors import NotAllowed


class OverridingDoor(Protocol):
    """A door through which tools' permissions are overridden: only Temporal's is."""

    async def override(self, wish: NewOverride) -> Overridden: ...

    async def overrides(self) -> tuple[Override, ...]: ...


class PolicyOverrides:
    """`gate.policy`: what holds for a tool for a while, whatever it says of itself."""

    def __init__(self, door: object) -> None:
        self._door = door

    @property
    def _overriding(self) -> OverridingDoor:
        door = self._door
        if not hasattr(door, "override"):
            raise NotAllowed("over HTTP nothing is overridden; connect to Temporal itself: Assent.connect()")
        return door  # type: ignore[return-value]

    async def override(
        self,
        tool: str,
        *,
        execution: Execution | str | None = None,
        result: ResultReview | str | None = None,
        until: datetime | timedelta | None = None,
        actor: Identity | None = None,
        reason: str | None = None,
        surface: Surface = Surface.CLIENT,
    ) -> Override:
        """Override what a tool says of itself; with neither *execution* nor *result*, end the override it has.

        Where the policy's file says something about a call, the stricter of both holds; what is denied stays denied.
        Raises NotAllowed if this asks for less than holds, and *actor* is not an operator.

        until: when it ends by itself, by the ledger's clock; or how long it lasts. Without it, until the next.
        """
        try:
            wish = NewOverride(
                tool=tool,
                execution=Execution(execution) if execution is not None else None,
                result=ResultReview(result) if result is not None else None,
                until=until,
                actor=actor,
                reason=reason,
                surface=surface,
                once=uuid.uuid4().hex,
            )
        except ValueError as error:
            raise invalid(error) from None
        overridden = await self._overriding.override(wish)
        if overridden.kind is OverrideKind.FORBIDDEN or overridden.override is None:
            raise NotAllowed(
                f"less would be asked for {tool!r} than now, and only operators (ASSENT_OPERATORS) loosen; "
                "nothing was changed"
            )
        return overridden.override

    async def overrides(self) -> list[Override]:
        """The overrides that are in force, by the names of their tools."""
        return list(await self._overriding.overrides())
