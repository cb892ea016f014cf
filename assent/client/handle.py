"""One approval, seen by its client: wait for it, look at it, decide it, withdraw it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from assent.client.door import Door, check_decision, check_ruling, invalid
from assent.client.texts import with_sentence
from assent.contracts.audit import AuditRecord
from assent.contracts.decision import Decision, DecisionKind, Remember, Stage, Verdict
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.ruling import Ruled, Ruling, RulingKind, Settlement
from assent.contracts.signals import Withdrawal
from assent.contracts.state import State
from assent.contracts.status import Status
from assent.contracts.values import Surface
from assent.payload import canonical_payload

_ANSWER_WITHIN = timedelta(seconds=8)
"""How long a decision waits to learn what became of it."""


class ApprovalHandle:
    """One approval: wait for it, look at it, decide it, withdraw it."""

    def __init__(self, door: Door, approval_id: str, texts: Mapping[Status, str]) -> None:
        self.id = approval_id
        self._door = door
        self._texts = texts

    async def outcome(self) -> Outcome:
        """Wait until the approval has ended, through restarts of the server and of the workers."""
        return with_sentence(await self._door.outcome(self.id), self._texts)

    async def state(self) -> State:
        """The approval's current state. If it was just asked for, this waits a moment until it is prepared."""
        return await self._door.state(self.id)

    async def decide(
        self,
        kind: DecisionKind | str,
        *,
        actor: Identity,
        payload_sha256: str | None,
        reason: str | None = None,
        event_id: str | None = None,
        stage: Stage | str = Stage.CALL,
        arguments: dict[str, Any] | None = None,
        delegate_to: Identity | None = None,
        remember: Remember | str | None = None,
        persist_decision: bool = True,
        surface: Surface = Surface.CLIENT,
    ) -> Verdict:
        """Decide on exactly the payload with that hash: approve, reject, edit or delegate.

        Repeating an event id decides nothing twice.

        stage: `result` to decide whether the agent gets the result; the hash is then `state.result_sha256`.
        arguments: for an edit, all arguments that the call is to run with.
        delegate_to: who is to decide instead.
        remember: how far the decision is to be remembered, where the tool asks once: `exact`, or `tool` for all calls
            of the tool in the conversation that a click came from; what came from none is `exact`.
        persist_decision: False to be asked again next time; of several who decide, one who says so is enough.
        """
        if arguments is not None:
            canonical_payload("", arguments)  # says what cannot be hashed, as of a request
        try:
            decision = Decision(
                approval_id=self.id,
                kind=DecisionKind(kind),
                payload_sha256=payload_sha256,
                actor=actor,
                event_id=event_id if event_id is not None else str(uuid.uuid4()),
                delivery_id=uuid.uuid4().hex,
                stage=Stage(stage),
                reason=reason,
                received_at=datetime.now(UTC),
                surface=surface,
                arguments=arguments,
                delegate_to=delegate_to,
                remember=Remember(remember) if remember is not None else None,
                persist_decision=persist_decision,
            )
        except ValueError as error:
            raise invalid(error) from None
        check_decision(decision)
        return await self.submit(decision)

    async def submit(self, decision: Decision, *, answer_within: timedelta = _ANSWER_WITHIN) -> Verdict:
        """Hand a decision over durably, then learn what became of it, all within the time given.

        `received` means that it is recorded and its verdict not known yet. `Unavailable` means that nobody confirmed
        that it is recorded: submit it again, under the same event id it counts once.
        """
        return await self._door.submit(self.id, decision, answer_within=answer_within)

    async def result(self, *, actor: Identity) -> Any:
        """The result that waits to be released, for *actor* who decides about it; None if none waits."""
        found = await self._door.result(self.id, actor=actor)
        return json.loads(found) if found is not None else None

    async def cancel(
        self, reason: str | None = None, *, actor: Identity | None = None, surface: Surface = Surface.CLIENT
    ) -> None:
        """Withdraw the request. Does nothing once somebody has decided, or if there is no such approval."""
        try:
            withdrawal = Withdrawal(reason=reason, actor=actor, surface=surface)
        except ValueError as error:
            raise invalid(error) from None
        await self._door.withdraw(self.id, withdrawal)

    async def content(self) -> Any:
        """The whole result, however large; waits for it like `outcome()`. For a frozen call, the settled result.

        A result that a person withheld is not here either: a sentence says so.
        """
        outcome = await self.outcome()
        if outcome.withheld:
            return outcome.content
        found = (await self._door.settled(self.id) if outcome.status is Status.FROZEN else None) or outcome
        return json.loads(await self._door.content(self.id)) if found.truncated else found.content

    async def settle(
        self,
        kind: RulingKind | str,
        *,
        operator: Identity,
        reason: str,
        content: Any = None,
        payload_hash: str | None = None,
        ruling_id: str | None = None,
        surface: Surface = Surface.CLIENT,
    ) -> Ruled:
        """Say what became of this approval's frozen call: executed, not_executed, or retry.

        content: the result, where it was executed.
        payload_hash: for a retry, the first twelve characters of the payload's hash.
        """
        try:
            ruling = Ruling(
                kind=RulingKind(kind),
                operator=operator,
                reason=reason,
                content=content,
                payload_hash=payload_hash,
                ruling_id=ruling_id if ruling_id is not None else str(uuid.uuid4()),
                surface=surface,
            )
        except ValueError as error:
            raise invalid(error) from None
        return await self.rule(ruling)

    async def rule(self, ruling: Ruling) -> Ruled:
        """Hand over a ruling that was made before. Repeating it under its id settles nothing twice."""
        check_ruling(ruling)
        return await self._door.settle(self.id, ruling)

    async def settlement(self) -> Settlement:
        """Wait until this approval's frozen call is settled: by an operator, or by the tool's own probe."""
        return await self._door.settlement(self.id)

    async def audit(self) -> list[AuditRecord]:
        """What the audit says of this approval, each line chained to the one before."""
        return await self._door.audit(self.id)
