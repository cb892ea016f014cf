"""What an approval needs of the ledger: prepare, close, audit, settle, recall."""

from __future__ import annotations

from datetime import datetime, timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.cards import CardActivities
from assent import names, schema
from assent.contracts import Address, AddressKind, Approvers, Manifest, Plan, Request
from assent.errors import InvalidRequest
from assent.messages import (
    AuditBatch,
    Closing,
    Conclusion,
    Preparation,
    Prepared,
    Recall,
    Recalled,
    RecallKind,
    Report,
    Settled,
)
from assent.payload import canonical_payload, idempotency_key, sha256
from assent.settings import Settings
from ledger import Ledger

CHUNK_CHARACTERS = 512 * 1024
"""How much of a large result one recall carries."""
PAGE = 20
"""How many tools or audit entries one recall carries: each may hold tens of kilobytes."""
_LEEWAY = timedelta(hours=1)
"""How much longer than its plan allows an approval may count as open in its conversation."""


class ApprovalActivities:
    """The activities of the approvals queue."""

    def __init__(self, ledger: Ledger, settings: Settings, cards: CardActivities | None = None) -> None:
        self._ledger = ledger
        self._settings = settings
        self._cards = cards

    @activity.defn(name=names.PREPARE)
    async def prepare(self, preparation: Preparation) -> Prepared:
        """Fix the plan, once: whatever is shown and run later is what is stored here first."""
        request = preparation.request
        plan, refused = None, None
        try:
            request.sha256  # noqa: B018 - past the client nobody has checked that it can be hashed
        except InvalidRequest as error:
            raise ApplicationError(str(error), type="InvalidRequest", non_retryable=True) from None
        try:
            plan = await self._plan(preparation)
            open_until = plan.deadline + plan.start_within + plan.timeout * plan.attempts + _LEEWAY
        except InvalidRequest as error:
            refused = str(error)
            open_until = preparation.now
        return await self._ledger.register(request, plan, refused, now=preparation.now, open_until=open_until)

    @activity.defn(name=names.CLOSE_CLAIM)
    async def close_claim(self, closing: Closing) -> Report:
        return await self._ledger.close(closing)

    @activity.defn(name=names.WRITE_AUDIT)
    async def write_audit(self, batch: AuditBatch) -> None:
        await self._ledger.append(batch)

    @activity.defn(name=names.SETTLE)
    async def settle(self, conclusion: Conclusion) -> Settled:
        """Put the ending on record, then on the cards; the record stands whatever Feishu does."""
        outcome = await self._ledger.settle(conclusion)
        shown = self._cards is None or await self._cards.finish(outcome.approval_id)
        return Settled(outcome=outcome, cards_due=not shown)

    @activity.defn(name=names.RECALL_RECORD)
    async def recall(self, question: Recall) -> Recalled:
        """Answer from the ledger for a client that has no database."""
        match question.kind:
            case RecallKind.RECORD:
                state = await self._ledger.state(question.approval_id)
                return Recalled(state=state, outcome=await self._ledger.outcome(question.approval_id))
            case RecallKind.VERDICT:
                assert question.decision is not None, "a verdict is asked for a decision"
                return Recalled(verdict=await self._ledger.judge_late(question.decision))
            case RecallKind.CONTENT:
                data = await self._ledger.content(question.approval_id)
                end = question.offset + CHUNK_CHARACTERS
                chunk = data[question.offset : end].decode("ascii") if data is not None else None
                more = data is not None and end < len(data)
                return Recalled(chunk=chunk, next_offset=end if more else None)
            case RecallKind.TOOLS:
                manifests, further = await self._ledger.manifests(question.offset, PAGE)
                return Recalled(manifests=manifests, next_offset=further)
            case RecallKind.SETTLEMENT:
                return Recalled(settlement=await self._ledger.settlement(question.approval_id))
            case RecallKind.AUDIT:
                records, further = await self._ledger.records(question.approval_id, question.offset, PAGE)
                return Recalled(entries=records, next_offset=further)

    async def _plan(self, preparation: Preparation) -> Plan:
        request = preparation.request
        manifest = await self._ledger.manifest(request.tool)
        if manifest is None:
            raise InvalidRequest(f"no worker has published a tool named {request.tool!r}")
        if request.callback_url and not self._settings.callback_secret.get_secret_value():
            raise InvalidRequest("callback_url: this service announces nothing; set ASSENT_CALLBACK_SECRET")
        tenant = self._settings.feishu_tenant_key or None
        requester, approvers = request.requester.within(tenant), manifest.approvers.within(tenant)
        payload = canonical_payload(request.tool, schema.complete(manifest.parameters, request.arguments))
        payload_sha256 = sha256(payload)
        return Plan(
            approval_id=request.approval_id,
            request_sha256=request.sha256,
            tool=manifest.name,
            description=manifest.description,
            queue=manifest.queue,
            payload=payload,
            payload_sha256=payload_sha256,
            idempotency_key=idempotency_key(
                self._settings.namespace,
                payload_sha256,
                approval_id=request.approval_id,
                message_id=request.message_id,
                scope=request.idempotency_scope,
            ),
            manifest_sha256=manifest.shown_sha256,
            requester=requester,
            request_reason=request.reason,
            approvers=approvers,
            risk=manifest.risk,
            sensitive=manifest.sensitive,
            retry_safe=manifest.retry_safe,
            attempts=manifest.attempts if manifest.retry_safe else 1,
            has_probe=manifest.has_probe,
            deadline=_deadline(request, manifest, preparation),
            timeout=manifest.timeout,
            start_within=self._settings.start_within,
            heartbeat_timeout=self._settings.heartbeat_timeout,
            grace=self._settings.grace,
            asked_at=preparation.now,
            asked_by=request.asked_by,
            tenant_key=tenant,
            addresses=self._addresses(request, approvers),
            callback_url=request.callback_url,
            probe_for=manifest.probe_for,
            remind_every=self._settings.remind_every,
            frozen_twin=await self._ledger.twin(payload_sha256, self._settings.namespace),
        )

    def _addresses(self, request: Request, approvers: Approvers) -> tuple[Address, ...]:
        """Where the card goes: where the agent says, else to the private chats of those who may decide."""
        if not self._settings.feishu_app_id:
            if request.chat_id or request.reply_to:
                raise InvalidRequest("chat_id: this service sends no cards; set ASSENT_FEISHU_APP_ID")
            return ()
        if request.chat_id:
            return (Address(kind=AddressKind.CHAT_ID, id=request.chat_id, reply_to=request.reply_to),)
        if request.reply_to:
            return (Address.of(request.requester).model_copy(update={"reply_to": request.reply_to}),)
        return tuple(Address.of(person) for person in approvers.people) or (Address.of(request.requester),)


def _deadline(request: Request, manifest: Manifest, preparation: Preparation) -> datetime:
    if manifest.max_ttl is None or manifest.max_ttl >= request.ttl:
        return preparation.deadline
    return preparation.deadline - request.ttl + manifest.max_ttl
