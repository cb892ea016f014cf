"""The ledger as its users see it: one method, one transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from assent.content import Content
from assent.contracts.address import Address
from assent.contracts.approvers import Approvers
from assent.contracts.audit import AuditBatch, AuditEntry, ClosingHead
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import Decision, Verdict
from assent.contracts.execute import Closing, Report, ToolCall
from assent.contracts.grants import Grant, Remembering, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.policy import Policy
from assent.contracts.prepare import Prepared
from assent.contracts.quotas import NO_LIMITS, Limits
from assent.contracts.release import Release
from assent.contracts.request import Request
from assent.contracts.review import Examination, ReviewRecord, Sight, Telling, Told
from assent.contracts.ruling import Ruled, Settlement
from assent.contracts.state import State
from assent.contracts.values import Surface
from assent.persons import Person
from ledger import (
    approvals,
    attempts,
    audit,
    catalogues,
    claims,
    grants,
    heads,
    messages,
    persons,
    policies,
    requesters,
    results,
    review_records,
    reviews,
    revisions,
    settlements,
    verifying,
)
from ledger.clock import database_now
from ledger.engine import open_engine, reading, snapshot, writing
from ledger.migrate import current_version, upgrade
from ledger.schema import audit as audit_table

_log = logging.getLogger(__name__)


class Ledger:
    """One database, SQLite or PostgreSQL."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @property
    def engine(self) -> AsyncEngine:
        return self._engine

    @classmethod
    def open(cls, url: str) -> Ledger:
        return cls(open_engine(url))

    async def dispose(self) -> None:
        await self._engine.dispose()

    async def upgrade(self) -> None:
        """Bring the schema to this version's."""
        await upgrade(self._engine)

    async def version(self) -> str | None:
        """The schema's version, None if there is no schema yet."""
        return await current_version(self._engine)

    # Catalogue

    async def publish(self, manifests: Iterable[Manifest], now: datetime) -> None:
        """Let the approvals know of these tools; what was said of them before is replaced."""
        async with writing(self._engine) as connection:
            await catalogues.publish(connection, manifests, now)

    async def manifest(self, tool: str) -> Manifest | None:
        async with reading(self._engine) as connection:
            return await catalogues.manifest_of(connection, tool)

    # Approvals

    async def register(
        self,
        request: Request,
        plan: Plan | None,
        refused: str | None,
        *,
        now: datetime,
        open_until: datetime,
        namespace: str | None = None,
        limits: Limits = NO_LIMITS,
    ) -> Prepared:
        """namespace: the one of Temporal's that the approval's workflow lives in."""
        async with writing(self._engine) as connection:
            return await approvals.register(connection, request, plan, refused, now, open_until, namespace, limits)

    async def prepared(self, request: Request) -> Prepared | None:
        """What was prepared for a request before, if anything was."""
        async with writing(self._engine) as connection:
            return await approvals.stored(connection, request.approval_id, request.sha256)

    async def settle(self, conclusion: Conclusion) -> Outcome:
        async with writing(self._engine) as connection:
            outcome = await approvals.settle(connection, conclusion)
        await self.seal()
        return outcome

    async def plan(self, approval_id: str, payload_sha256: str | None = None) -> Plan | None:
        """The plan that stands; or the newest one with that hash."""
        async with reading(self._engine) as connection:
            return await revisions.plan_of(connection, approval_id, payload_sha256)

    async def revise(self, plan: Plan, event_id: str) -> Plan:
        async with writing(self._engine) as connection:
            return await revisions.revise(connection, plan, event_id)

    async def open_plans(
        self, offset: int, limit: int, namespace: str | None = None
    ) -> tuple[tuple[Plan, ...], int | None]:
        """namespace: the one of Temporal's that their workflows live in; all, if none is named."""
        async with reading(self._engine) as connection:
            return await approvals.waiting(connection, datetime.now(UTC), offset, limit, namespace)

    async def open_ones(
        self, namespace: str, *, after: approvals.Open | None = None, limit: int
    ) -> list[approvals.Open]:
        async with reading(self._engine) as connection:
            return await approvals.open_ones(connection, namespace, await database_now(connection), after, limit)

    async def end_gone(self, approval_id: str, why: str) -> Outcome | None:
        async with writing(self._engine) as connection:
            ended = await approvals.end_gone(connection, approval_id, why, await database_now(connection))
        await self.seal()
        return ended

    async def state(self, approval_id: str) -> State | None:
        async with reading(self._engine) as connection:
            return await approvals.state_of(connection, approval_id)

    async def outcome(self, approval_id: str) -> Outcome | None:
        async with reading(self._engine) as connection:
            return await approvals.outcome_of(connection, approval_id)

    async def judge_late(self, decision: Decision) -> Verdict:
        async with writing(self._engine) as connection:
            return await approvals.judge_late(connection, decision, datetime.now(UTC))

    # Messages

    async def intend(
        self, slot: messages.Slot, *, address: Address | None = None, after_end: bool = False
    ) -> messages.Message | None:
        async with writing(self._engine) as connection:
            now = datetime.now(UTC)
            return await messages.intend(connection, slot, now, address=address, after_end=after_end)

    async def sent(self, slot: messages.Slot, message_id: str, chat_id: str | None, shown: messages.Shown) -> None:
        async with writing(self._engine) as connection:
            await messages.sent(connection, slot, message_id, chat_id, shown, datetime.now(UTC))

    async def shared(
        self, slot: messages.Slot, message_id: str, chat_id: str | None, approval_ids: tuple[str, ...]
    ) -> None:
        """A card that several approvals share is there."""
        async with writing(self._engine) as connection:
            await messages.shared(connection, slot, message_id, chat_id, approval_ids, datetime.now(UTC))

    async def bundle(self, bundle_id: str) -> tuple[messages.Message, ...]:
        """The cards that the approvals of a bundle share."""
        async with reading(self._engine) as connection:
            found = await messages.messages_of(connection, bundle_id)
        own = (messages.MessageKind.BUNDLE, 0)
        return tuple(each for each in found if (each.slot.kind, each.slot.generation) == own)

    async def shows(self, slot: messages.Slot, shown: messages.Shown) -> None:
        async with writing(self._engine) as connection:
            await messages.shows(connection, slot, shown)

    async def record(self, approval_id: str, payload_sha256: str | None = None) -> messages.Record | None:
        async with reading(self._engine) as connection:
            return await messages.record_of(connection, approval_id, payload_sha256)

    # Claims

    async def begin(
        self, call: ToolCall, holder: attempts.Holder, *, may_start: bool = True, policy: int | None = None
    ) -> claims.Beginning:
        async with writing(self._engine) as connection:
            now = await database_now(connection)
            return await claims.begin(connection, call, holder, now, may_start=may_start, policy=policy)

    async def finish(self, call: ToolCall, holder: attempts.Holder, attempt: int, ending: claims.Ending) -> Report:
        async with writing(self._engine) as connection:
            return await claims.finish(connection, call, holder, attempt, ending, await database_now(connection))

    async def close(self, closing: Closing) -> Report:
        async with writing(self._engine) as connection:
            return await claims.close(connection, closing)

    async def resolve(self, call: ToolCall, content: Content) -> Report:
        async with writing(self._engine) as connection:
            return await reviews.resolve(connection, call, content, await database_now(connection))

    async def content(self, approval_id: str) -> bytes | None:
        async with reading(self._engine) as connection:
            return await results.content(connection, approval_id)

    async def result(self, approval_id: str) -> bytes | None:
        async with reading(self._engine) as connection:
            return await results.result(connection, approval_id)

    async def release(self, release: Release) -> Report:
        async with writing(self._engine) as connection:
            return await results.release(connection, release)

    async def body_ended(self, holder: attempts.Holder) -> None:
        async with writing(self._engine) as connection:
            await attempts.ended(connection, holder)

    async def standing(self, consent: str) -> attempts.Standing:
        """What all attempts to make a consent's call, whoever began them, let be said of it."""
        async with reading(self._engine) as connection:
            return await attempts.standing_of(connection, consent)

    async def twin(self, payload_sha256: str, namespace: str, requester: Identity) -> requesters.Twin | None:
        async with reading(self._engine) as connection:
            return await requesters.twin_of(connection, payload_sha256, namespace, requester)

    async def key_of(self, consent: str) -> str | None:
        async with reading(self._engine) as connection:
            return await requesters.key_of(connection, consent)

    # Persons

    async def person(self, identity: Identity) -> Person:
        async with reading(self._engine) as connection:
            return await persons.person(connection, identity)

    async def learn(self, identity: Identity) -> None:
        """Remember that these ids, which were proved together, are one person's."""
        async with reading(self._engine) as connection:
            if await persons.is_known(connection, identity):
                return
        async with writing(self._engine) as connection:
            await persons.learn(connection, identity)

    # Grants and the policy

    async def remember(self, remembering: Remembering) -> Grant | None:
        async with writing(self._engine) as connection:
            return await grants.remember(connection, remembering)

    async def grant_for(
        self,
        *,
        tool: str,
        payload_sha256: str,
        conversation: str | None,
        requester: Identity,
        manifest_sha256: str,
        risk: Risk,
        approvers: Approvers,
        now: datetime,
    ) -> Grant | None:
        wanted = grants.Wanted(
            tool=tool,
            payload_sha256=payload_sha256,
            conversation=conversation,
            requester=requester,
            manifest_sha256=manifest_sha256,
            risk=risk,
            approvers=approvers,
        )
        async with reading(self._engine) as connection:
            return await grants.grant_for(connection, wanted, now)

    async def revoke(
        self, grant_id: str, actor: Identity, *, may_all: bool, surface: Surface, now: datetime
    ) -> RevokedKind:
        async with writing(self._engine) as connection:
            return await grants.revoke(connection, grant_id, actor, may_all=may_all, surface=surface, now=now)

    async def put_policy(self, text: str, sha256: str, now: datetime) -> None:
        async with writing(self._engine) as connection:
            await policies.put(connection, text, sha256, now)

    async def policy(self) -> Policy | None:
        async with reading(self._engine) as connection:
            return await policies.in_force(connection)

    # Reviews

    async def sights(self, approval_id: str) -> tuple[Sight, ...]:
        async with reading(self._engine) as connection:
            return await reviews.sights(connection, approval_id)

    async def chain_sights(self, consent: str) -> tuple[Sight, ...]:
        async with reading(self._engine) as connection:
            return await reviews.chain_sights(connection, consent)

    async def rule(self, examination: Examination, namespace: str | None = None) -> Ruled:
        async with writing(self._engine) as connection:
            return await reviews.rule(connection, examination, namespace)

    async def review(self, approval_id: str) -> ReviewRecord | None:
        async with reading(self._engine) as connection:
            return await review_records.record_of(connection, approval_id)

    async def settlement(self, approval_id: str) -> Settlement | None:
        async with reading(self._engine) as connection:
            return await settlements.settlement_of(connection, approval_id)

    async def waits(self, approval_id: str, namespace: str | None = None) -> reviews.Wait | None:
        """How the review of an approval's frozen call stands: who waits for it, what was promised, what was told."""
        async with reading(self._engine) as connection:
            return await reviews.wait_of(connection, approval_id, namespace)

    async def tell(self, telling: Telling) -> Told:
        async with writing(self._engine) as connection:
            return await settlements.tell(connection, telling.approval_id, telling.after)

    async def orphans(self, namespace: str, now: datetime | None = None) -> list[reviews.Orphan]:
        async with reading(self._engine) as connection:
            return await reviews.orphans(connection, namespace, now or await database_now(connection))

    async def untold(self, namespace: str, now: datetime | None = None) -> list[reviews.Untold]:
        async with reading(self._engine) as connection:
            return await reviews.untold(connection, namespace, now or await database_now(connection))

    # Audit

    async def append(self, batch: AuditBatch) -> None:
        async with writing(self._engine) as connection:
            await audit.append(connection, batch.approval_id, batch.entries)

    async def entries(self, approval_id: str) -> list[AuditEntry]:
        """The audit of one approval, in order."""
        async with reading(self._engine) as connection:
            bodies = await connection.execute(
                select(audit_table.c.body).where(audit_table.c.approval_id == approval_id).order_by(audit_table.c.seq)
            )
            return [AuditEntry.model_validate_json(body) for body in bodies.scalars()]

    async def seal(self) -> None:
        """Seal the audits that wait for it. What fails is made up for by the next ending, or by the sweeper."""
        try:
            more = True
            while more:
                async with writing(self._engine) as connection:
                    more = await audit.seal(connection)
        except (SQLAlchemyError, OSError) as error:
            _log.warning("closed audits wait for their seal: %s", type(error).__name__)

    async def verify(self, expected_head: str | None = None, kept: Iterable[ClosingHead] = ()) -> list[str]:
        async with snapshot(self._engine) as connection:
            return await verifying.verify(connection, expected_head, kept)

    async def closing_head(self, approval_id: str) -> ClosingHead | None:
        async with reading(self._engine) as connection:
            return await heads.closing_head(connection, approval_id)

    async def heads(self) -> list[ClosingHead]:
        async with snapshot(self._engine) as connection:
            return await heads.all_heads(connection)

    async def head(self) -> tuple[int, str]:
        async with reading(self._engine) as connection:
            return await audit.head_of_seals(connection)
