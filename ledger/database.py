"""The ledger as its users see it: one method, one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from assent import agent_calls
from assent.client.reader import WaitingQuestion
from assent.content import Content
from assent.contracts.address import Address
from assent.contracts.answers import Answer, AnswerVerdict, QuestionOutcome
from assent.contracts.approvers import Approvers
from assent.contracts.asking import QuestionConclusion, QuestionPlan, QuestionPrepared, QuestionState
from assent.contracts.audit import AuditBatch, AuditEntry, AuditRecord, ClosingHead
from assent.contracts.conclude import Conclusion
from assent.contracts.decision import Decision, Verdict
from assent.contracts.execute import Closing, Report, ToolCall
from assent.contracts.grants import Grant, Remembering, RevokedKind
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest, Risk
from assent.contracts.outcome import Outcome
from assent.contracts.plan import Plan
from assent.contracts.policy import NewOverride, Overridden, Override, Policy
from assent.contracts.prepare import Prepared
from assent.contracts.questions import QuestionRequest
from assent.contracts.quotas import NO_LIMITS, Exceeded, Limits
from assent.contracts.release import Release
from assent.contracts.request import Request
from assent.contracts.review import Examination, ReviewRecord, SeenAttempt, Telling, Told
from assent.contracts.ruling import Ruled, Settlement
from assent.contracts.runs import (
    ClaimedLine,
    LineClaim,
    LineOffer,
    LineOffered,
    LineQuestion,
    LineReport,
    LineState,
    LineWritten,
    Run,
)
from assent.contracts.state import State
from assent.contracts.values import Surface
from assent.names import AGENT_CALL
from assent.persons import Person
from ledger import (
    approvals,
    attempts,
    audit,
    awaited,
    catalogues,
    claims,
    grants,
    heads,
    memberships,
    messages,
    overrides,
    persons,
    policies,
    questions,
    quotas,
    requesters,
    results,
    review_records,
    reviews,
    revisions,
    runs,
    settlements,
    sinks,
    verifying,
)
from ledger.clock import database_now
from ledger.engine import Connection, Engine, open_engine
from ledger.errors import LedgerError
from ledger.files import LedgerFiles
from ledger.migrate import current_version, upgrade
from ledger.policies import Numbers

_log = logging.getLogger(__name__)

Ended = TypeVar("Ended")


class Ledger:
    """One database, SQLite or PostgreSQL."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_sealing = self._more_ended = False
        self.files = LedgerFiles(engine)
        """What people shared, and what approvals keep of it."""

    @property
    def engine(self) -> Engine:
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
        await self._engine.write(catalogues.publish, manifests, now)

    async def manifest(self, tool: str) -> Manifest | None:
        if tool == AGENT_CALL:
            return agent_calls.MANIFEST
        return await self._engine.read(catalogues.manifest_of, tool)

    async def tool_and_person(self, tool: str, identity: Identity) -> tuple[Manifest | None, Person]:
        """What a request is about, and whom it names, looked up together."""
        if tool == AGENT_CALL:
            return agent_calls.MANIFEST, await self.person(identity)
        return await self._engine.read(catalogues.with_person, tool, identity)

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
        return await self._engine.write(approvals.register, request, plan, refused, now, open_until, namespace, limits)

    async def exceeded(self, request: Request, limits: Limits, now: datetime) -> Exceeded | None:
        """The quota that a request would go beyond, as far as can be said before it has a plan."""
        return await self._engine.write(quotas.exceeded_by, request, limits, now)

    async def prepared(self, request: Request) -> Prepared | None:
        """What was prepared for a request before, if anything was."""
        return await self._engine.write(approvals.stored, request.approval_id, request.sha256)

    async def conclude(self, conclusion: Conclusion, denied: str | None = None) -> Outcome:
        """Record how an approval ended.

        denied: why the policy no longer allows what the agent was to run itself.
        """
        return await self._sealing(self._engine.write(approvals.conclude, conclusion, denied))

    async def plan(self, approval_id: str, payload_sha256: str | None = None) -> Plan | None:
        """The plan that stands; or the newest one with that hash."""
        return await self._engine.read(revisions.plan_of, approval_id, payload_sha256)

    async def revise(self, plan: Plan, event_id: str) -> Plan:
        return await self._engine.write(revisions.revise, plan, event_id)

    async def open_plans(
        self, offset: int, limit: int, namespace: str | None = None
    ) -> tuple[tuple[Plan, ...], int | None]:
        """namespace: the one of Temporal's that their workflows live in; all, if none is named."""
        return await self._engine.read(approvals.waiting, datetime.now(UTC), offset, limit, namespace)

    async def waiting_for(
        self, person: Identity, offset: int, limit: int, namespace: str | None = None
    ) -> tuple[tuple[awaited.Waits, ...], int | None]:
        """What waits for a person, the oldest first, and where the rest begins."""
        return await self._engine.read(awaited.found_by, person, datetime.now(UTC), offset, limit, namespace)

    async def unknown_chats(self, limit: int) -> tuple[str, ...]:
        """Chats whose members something waits for, and of which nobody has asked lately who they are."""
        return await self._engine.read(memberships.unknown, datetime.now(UTC), limit)

    async def keep_members(self, chat_id: str, members: Collection[str]) -> None:
        """Remember who belongs to a chat."""
        await self._engine.write(memberships.keep, chat_id, members, datetime.now(UTC))

    async def open_ones(
        self, namespace: str, *, after: approvals.Open | None = None, limit: int
    ) -> list[approvals.Open]:
        async def found(connection: Connection) -> list[approvals.Open]:
            return await approvals.open_ones(connection, namespace, await database_now(connection), after, limit)

        return await self._engine.read(found)

    async def end_gone(self, approval_id: str, why: str) -> Outcome | None:
        async def end(connection: Connection) -> Outcome | None:
            return await approvals.end_gone(connection, approval_id, why, await database_now(connection))

        return await self._sealing(self._engine.write(end))

    async def state(self, approval_id: str) -> State | None:
        return await self._engine.read(approvals.state_of, approval_id)

    async def outcome(self, approval_id: str) -> Outcome | None:
        return await self._engine.read(approvals.outcome_of, approval_id)

    async def judge_late(self, decision: Decision) -> Verdict:
        return await self._engine.write(approvals.judge_late, decision, datetime.now(UTC))

    # Questions

    async def register_question(
        self,
        request: QuestionRequest,
        plan: QuestionPlan,
        *,
        now: datetime,
        namespace: str | None = None,
        limits: Limits = NO_LIMITS,
    ) -> QuestionPrepared:
        return await self._engine.write(questions.register, request, plan, now, namespace, limits)

    async def prepared_question(self, request: QuestionRequest) -> QuestionPrepared | None:
        """What was prepared for a question before, if anything was."""
        return await self._engine.read(questions.stored, request)

    async def conclude_question(self, conclusion: QuestionConclusion) -> QuestionOutcome:
        return await self._sealing(self._engine.write(questions.conclude, conclusion))

    async def answer_event(self, question_id: str) -> str | None:
        """The event that answered a program's question, where one did."""
        found = await self._engine.read(runs.interaction, question_id)
        return found.event_id if found is not None and found.state is LineState.WRITTEN else None

    async def question(self, question_id: str) -> QuestionState | None:
        return await self._engine.read(questions.state_of, question_id)

    async def question_record(self, question_id: str) -> questions.QuestionRecord | None:
        return await self._engine.read(questions.record_of, question_id)

    async def judge_late_answer(self, answer: Answer) -> AnswerVerdict:
        return await self._engine.write(questions.judge_late, answer, datetime.now(UTC))

    async def open_questions(self, consent: str) -> tuple[str, ...]:
        """What a call's tool has asked, and nobody has answered."""
        return await self._engine.read(questions.open_of_consent, consent)

    async def asked_of(
        self, person: Identity, offset: int, limit: int, namespace: str | None = None
    ) -> tuple[tuple[WaitingQuestion, ...], int | None]:
        """What is asked of a person, the oldest first, and where the rest begins."""
        return await self._engine.read(questions.found_by, person, datetime.now(UTC), offset, limit, namespace)

    async def questions_left_open(
        self, namespace: str, *, after: questions.OpenQuestion | None = None, limit: int
    ) -> list[questions.OpenQuestion]:
        async def found(connection: Connection) -> list[questions.OpenQuestion]:
            return await questions.open_ones(connection, namespace, await database_now(connection), after, limit)

        return await self._engine.read(found)

    async def end_gone_question(self, question_id: str, why: str) -> QuestionOutcome | None:
        async def end(connection: Connection) -> QuestionOutcome | None:
            return await questions.end_gone(connection, question_id, why, await database_now(connection))

        return await self._sealing(self._engine.write(end))

    # Runs of programs

    async def start_run(self, run: Run, consent: str, asked_by: str | None) -> bool:
        return await self._engine.write(runs.start, run, datetime.now(UTC), consent=consent, asked_by=asked_by)

    async def own_run(self, run: Run, asked_by: str | None) -> bool:
        return await self._engine.write(runs.own, run, datetime.now(UTC), asked_by)

    async def end_run(self, run_id: str, exit_code: int | None, output: bytes = b"") -> None:
        await self._engine.write(runs.end, run_id, exit_code, output, datetime.now(UTC))

    async def run_output(self, run_id: str) -> tuple[bytes, int | None] | None:
        return await self._engine.read(runs.output_of, run_id)

    async def offer_line(self, line: LineOffer) -> LineOffered:
        return await self._engine.write(runs.offer, line)

    async def claim_line(self, wish: LineClaim) -> ClaimedLine:
        return await self._engine.write(runs.claim, wish)

    async def confirm_line(self, written: LineWritten) -> LineReport:
        return await self._engine.write(runs.confirm, written)

    async def close_line(self, asked: LineQuestion) -> LineReport:
        return await self._engine.write(runs.close, asked)

    # Messages

    async def intend(
        self, slot: messages.Slot, *, address: Address | None = None, after_end: bool = False
    ) -> messages.Message | None:
        now = datetime.now(UTC)
        return await self._engine.write(messages.intend, slot, now, address=address, after_end=after_end)

    async def sent(self, slot: messages.Slot, message_id: str, chat_id: str | None, shown: messages.Shown) -> None:
        await self._engine.write(messages.sent, slot, message_id, chat_id, shown, datetime.now(UTC))

    async def shared(
        self, slot: messages.Slot, message_id: str, chat_id: str | None, approval_ids: tuple[str, ...]
    ) -> None:
        """A card that several approvals share is there."""
        await self._engine.write(messages.shared, slot, message_id, chat_id, approval_ids, datetime.now(UTC))

    async def bundle(self, bundle_id: str) -> tuple[messages.Message, ...]:
        """The cards that the approvals of a bundle share."""
        found = await self._engine.read(messages.messages_of, bundle_id)
        own = (messages.MessageKind.BUNDLE, 0)
        return tuple(each for each in found if (each.slot.kind, each.slot.generation) == own)

    async def shows(self, slot: messages.Slot, shown: messages.Shown) -> None:
        await self._engine.write(messages.shows, slot, shown)

    async def record(self, approval_id: str, payload_sha256: str | None = None) -> messages.Record | None:
        return await self._engine.read(messages.record_of, approval_id, payload_sha256)

    # Claims

    async def begin(
        self, call: ToolCall, holder: attempts.Holder, *, may_start: bool = True, policy: Numbers | None = None
    ) -> claims.Beginning:
        async def begin(connection: Connection) -> claims.Beginning:
            now = await audit.hold(connection, call.approval_id)
            return await claims.begin(connection, call, holder, now, may_start=may_start, policy=policy)

        return await self._engine.write(begin)

    async def finish(self, call: ToolCall, holder: attempts.Holder, attempt: int, ending: claims.Ending) -> Report:
        async def finish(connection: Connection) -> Report:
            now = await audit.hold(connection, call.approval_id)
            return await claims.finish(connection, call, holder, attempt, ending, now)

        return await self._engine.write(finish)

    async def close(self, closing: Closing) -> Report:
        return await self._engine.write(claims.close, closing)

    async def resolve(self, call: ToolCall, content: Content) -> Report:
        async def resolve(connection: Connection) -> Report:
            return await reviews.resolve(connection, call, content, await database_now(connection))

        return await self._engine.write(resolve)

    async def content(self, approval_id: str) -> bytes | None:
        return await self._engine.read(results.content, approval_id)

    async def result(self, approval_id: str) -> bytes | None:
        return await self._engine.read(results.result, approval_id)

    async def release(self, release: Release) -> Report:
        return await self._engine.write(results.release, release)

    async def body_ended(self, holder: attempts.Holder) -> None:
        await self._engine.write(attempts.ended, holder)

    async def begun(self, consent: str) -> attempts.BegunAttempts:
        """What all attempts to make a consent's call, whoever began them, let be said of it."""
        return await self._engine.read(attempts.begun_of, consent)

    async def twin(self, payload_sha256: str, namespace: str, requester: Identity) -> requesters.Twin | None:
        return await self._engine.read(requesters.twin_of, payload_sha256, namespace, requester)

    async def key_of(self, consent: str) -> str | None:
        return await self._engine.read(requesters.key_of, consent)

    # Persons

    async def person(self, identity: Identity) -> Person:
        return await self._engine.read(persons.person, identity)

    async def learn(self, identity: Identity) -> None:
        """Remember that these ids, which were proved together, are one person's."""
        if not await self._engine.read(persons.is_known, identity):
            await self._engine.write(persons.learn, identity)

    # Grants and the policy

    async def remember(self, remembering: Remembering) -> Grant | None:
        return await self._engine.write(grants.remember, remembering)

    async def grant(self, grant_id: str) -> Grant | None:
        return await self._engine.read(grants.grant_of, grant_id)

    async def stood_in(self, grant_id: str, *, since: datetime, limit: int) -> tuple[str, ...]:
        """The approvals in which nobody was asked because of a grant, the newest first."""
        return await self._engine.read(grants.stood_in, grant_id, since, limit)

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
        return await self._engine.read(grants.grant_for, wanted, now)

    async def revoke(
        self, grant_id: str, actor: Identity, *, may_all: bool, surface: Surface, now: datetime
    ) -> RevokedKind:
        return await self._engine.write(grants.revoke, grant_id, actor, may_all=may_all, surface=surface, now=now)

    async def put_policy(self, text: str, sha256: str, now: datetime) -> None:
        await self._engine.write(policies.put, text, sha256, now)

    async def policy(self) -> Policy | None:
        return await self._engine.read(policies.in_force)

    async def override(self, wish: NewOverride, *, may_loosen: bool) -> Overridden:
        return await self._engine.write(overrides.put, wish, may_loosen=may_loosen)

    async def overrides(self) -> Mapping[str, Override]:
        return await self._engine.read(overrides.in_force)

    # Where the audit goes besides

    async def register_sinks(self, names: Collection[str]) -> None:
        await self._engine.write(sinks.register, names)

    async def hold_sink(self, sink: str, holder: str, lasting: timedelta) -> bool:
        return await self._engine.write(sinks.hold, sink, holder, lasting)

    async def unsent(self, sink: str, after: str, limit: int) -> list[tuple[str, AuditRecord]]:
        return await self._engine.read(sinks.waiting, sink, after, limit)

    async def sink_took(self, sink: str, records: Iterable[tuple[str, int]]) -> None:
        await self._engine.write(sinks.taken, sink, tuple(records))

    # Reviews

    async def attempts_of(self, approval_id: str) -> tuple[SeenAttempt, ...]:
        return await self._engine.read(reviews.attempts_of, approval_id)

    async def chain_sights(self, consent: str) -> tuple[SeenAttempt, ...]:
        return await self._engine.read(reviews.chain_sights, consent)

    async def rule(self, examination: Examination, namespace: str | None = None) -> Ruled:
        return await self._engine.write(reviews.rule, examination, namespace)

    async def review(self, approval_id: str) -> ReviewRecord | None:
        return await self._engine.read(review_records.record_of, approval_id)

    async def settlement(self, approval_id: str) -> Settlement | None:
        return await self._engine.read(settlements.settlement_of, approval_id)

    async def waits(self, approval_id: str, namespace: str | None = None) -> reviews.Wait | None:
        """How the review of an approval's frozen call stands: who waits for it, what was promised, what was told."""
        return await self._engine.read(reviews.wait_of, approval_id, namespace)

    async def tell(self, telling: Telling) -> Told:
        return await self._engine.write(settlements.tell, telling.approval_id, telling.after)

    async def orphans(self, namespace: str, now: datetime | None = None) -> list[reviews.Orphan]:
        async def found(connection: Connection) -> list[reviews.Orphan]:
            return await reviews.orphans(connection, namespace, now or await database_now(connection))

        return await self._engine.read(found)

    async def untold(self, namespace: str, now: datetime | None = None) -> list[reviews.Untold]:
        async def found(connection: Connection) -> list[reviews.Untold]:
            return await reviews.untold(connection, namespace, now or await database_now(connection))

        return await self._engine.read(found)

    # Audit

    async def append(self, batch: AuditBatch) -> None:
        await self._engine.write(approvals.note, batch)

    async def entries(self, approval_id: str) -> list[AuditEntry]:
        """The audit of one approval, in order."""
        return await self._engine.read(audit.entries_of, approval_id)

    async def seal(self) -> None:
        """Seal the audits that wait for it. What fails is made up for by the next ending, or by the sweeper."""
        try:
            while await self._engine.write(audit.seal):
                pass
        except LedgerError as error:
            _log.warning("closed audits wait for their seal: %s", type(error).__name__)

    async def _sealing(self, ending: Coroutine[Any, Any, Ended]) -> Ended:
        """Let an ending be made, and sealed: on SQLite right behind it, so that both go to the disk together."""
        if self._engine.writes_in_order:
            made = asyncio.ensure_future(ending)
            await asyncio.gather(made, self.seal())
            return made.result()
        ended = await ending
        self._more_ended = True
        if not self._is_sealing:
            await self._seal_together()
        return ended

    async def _seal_together(self) -> None:
        """Seal what has ended, and once more what ended meanwhile: the others need not ask. The next does the rest."""
        self._is_sealing = True
        try:
            for _ in range(2):
                if self._more_ended:
                    self._more_ended = False
                    await self.seal()
        finally:
            self._is_sealing = False

    async def verify(self, expected_head: str | None = None, kept: Iterable[ClosingHead] = ()) -> list[str]:
        return await self._engine.snapshot(verifying.verify, expected_head, kept)

    async def closing_head(self, approval_id: str) -> ClosingHead | None:
        return await self._engine.read(heads.closing_head, approval_id)

    async def heads(self) -> list[ClosingHead]:
        return await self._engine.snapshot(heads.all_heads)

    async def head(self) -> tuple[int, str]:
        return await self._engine.read(audit.head_of_seals)
