"""Making a plan of a request: the tool's manifest, the operator's policy and what is remembered, fixed once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from activities.callback_secrets import CallbackSecrets
from activities.policy import PolicyInForce, effective_by, effective_now
from assent.agent_calls import refuse_what_cannot_be_consented_to, subject_of, without_result_review
from assent.arguments import schema
from assent.contracts.address import Address, AddressKind
from assent.contracts.approvers import Approvers
from assent.contracts.decision import Remember
from assent.contracts.files import FileDigest, FilesWanted
from assent.contracts.grants import Grant
from assent.contracts.identity import Identity
from assent.contracts.manifest import Manifest
from assent.contracts.permission import Execution, Fallback, Permission, ResultReview
from assent.contracts.plan import Edit, Plan
from assent.contracts.prepare import Preparation, Resolved, Unknowns, WarningQuestion
from assent.contracts.request import DEFAULT_TTL, Request, WhenPending
from assent.errors import InvalidRequest
from assent.masking import Mask
from assent.payload import (
    alias_keys,
    canonical_json,
    canonical_payload,
    idempotency_key,
    payload_files,
    scope_key,
    scope_of,
    sha256,
)
from assent.persons import Person
from assent.policy.rules import Asking, Effective, objection
from assent.settings import Settings
from assent.sizes import EDIT, text_size, travels
from ledger import Ledger, told_of_twin

MOST_FILES = 20
"""How many files one call may name."""
_RESULT_TTL = timedelta(hours=1)
_MOST_SCHEMA = 16 * 1024
"""How many bytes of a tool's schema a plan carries along."""
_ELSEWHERE = "reply_to: that message is not in the chat that chat_id names; leave one of them out, or correct it"


class Unresolved(Exception):
    """A plan depends on what only Feishu can say."""

    def __init__(self, unknown: Unknowns) -> None:
        super().__init__("Feishu must be asked first")
        self.unknown = unknown


class Planner:
    """Makes plans, and makes them anew where a person changes the arguments."""

    def __init__(self, ledger: Ledger, settings: Settings, policy: PolicyInForce) -> None:
        self._ledger = ledger
        self._settings = settings
        self._secrets = CallbackSecrets(settings)
        self._policy = policy

    async def plan(self, preparation: Preparation) -> Plan:
        """The plan of a request. Raises InvalidRequest where it can never run."""
        request, settings = preparation.request, self._settings
        own, tenant, resolved = request.dispatch, settings.feishu_tenant_key or None, preparation.resolved
        named = request.requester.within(tenant)
        manifest, person = await self._tool_and_person(request, (resolved.requester if resolved else None) or named)
        namespace = own.namespace if own else settings.namespace
        if request.callback_url and not self._secrets.of(request.asked_by):
            raise InvalidRequest("callback_url: this service announces nothing; set ASSENT_CALLBACK_SECRET")
        if resolved is not None and resolved.refused is not None:
            raise InvalidRequest(resolved.refused)
        if request.requester.is_outside(tenant):
            raise InvalidRequest("requester: tenant_key is not the one of this installation; leave it out")
        requester = person.named(named)
        conversation, chat_is_known = _chat(request, resolved)
        arguments = schema.complete(manifest.parameters, request.arguments)
        wanted = _files_wanted(manifest, arguments, request.approval_id, named, preparation.deadline)
        digests = {digest.file_id: digest for digest in resolved.files} if resolved else {}
        payload = canonical_payload(request.tool, arguments, _hashed(wanted, digests, {}))
        if manifest.is_consent_only:
            refuse_what_cannot_be_consented_to(payload)
        payload_sha256 = sha256(payload)
        asking = Asking.of(payload, requester, conversation, chat_is_known=chat_is_known)
        effective = await self._effective(manifest, asking)
        if own is not None:
            effective = _asking(effective)  # somebody has to say who makes the call
        grant = await self._grant(manifest, effective, requester, conversation, payload, preparation.now)
        if grant is not None and grant.scope is Remember.TOOL and not chat_is_known:
            grant, effective = None, effective.model_copy(update={"in_doubt": (*effective.in_doubt, "conversation")})
        if resolved is None:
            unknown = await self._unknowns(
                request, payload, named, person, effective, chat_is_known, has_files=bool(wanted)
            )
            _ask_first(self._with_files(unknown, wanted), _warning_question(manifest, payload, effective, grant))
        if person.is_mixed_up:
            raise InvalidRequest("requester: its ids are known to be of two people; name the requester by one of them")
        scope = scope_of(
            approval_id=request.approval_id, message_id=request.message_id, scope=request.idempotency_scope
        )
        effective = _warned(effective, resolved, Mask(payload, manifest.sensitive))
        asked_at, ttl = preparation.deadline - request.ttl, _ttl(request, manifest, effective)
        return Plan(
            approval_id=request.approval_id,
            request_sha256=request.sha256,
            tool=manifest.name,
            description=manifest.description,
            queue=manifest.queue,
            payload=payload,
            payload_sha256=payload_sha256,
            idempotency_key=idempotency_key(namespace, scope, person.canonical, payload_sha256),
            scope_key=scope_key(namespace, scope, payload_sha256),
            aliases=_aliases(request, namespace, payload_sha256) if own else (),
            manifest_sha256=manifest.shown_sha256,
            requester=requester,
            request_reason=request.reason,
            sensitive=manifest.sensitive,
            retry_safe=manifest.retry_safe,
            attempts=manifest.attempts if manifest.retry_safe else 1,
            has_probe=manifest.has_probe,
            deadline=asked_at + ttl,
            timeout=manifest.timeout,
            asks=manifest.asks,
            start_within=settings.start_within,
            heartbeat_timeout=settings.heartbeat_timeout,
            grace=settings.grace,
            asked_at=preparation.now,
            asked_by=request.asked_by,
            tenant_key=tenant,
            addresses=()
            if own
            else addresses_of(settings, request.requester, effective.approvers, request.chat_id, request.reply_to),
            callback_url=request.callback_url,
            probe_for=manifest.probe_for,
            remind_every=settings.remind_every,
            grant=grant,
            conversation=conversation,
            chat_is_known=chat_is_known,
            remind_at=asked_at + ttl * effective.remind_after if effective.remind_after else None,
            escalate_at=asked_at + ttl * effective.escalate_after if effective.escalate_after else None,
            escalate_to=effective.escalate_to,
            bundle_id=request.bundle_id,
            presentation=manifest.presentation,
            keeps_later_stages=True,
            is_listed_late=grant is None and effective.permission.execution is not Execution.AUTO,
            is_shown_in_turn=True,
            waits_for_no_chat=True,
            is_consent_only=manifest.is_consent_only,
            tool_call_id=request.tool_call_id,
            thread_id=request.thread_id,
            previews=_previews(digests),
            parameters=_carried(manifest.parameters),
            **self._of_the_rule(effective),
        )

    async def edited(
        self, plan: Plan, arguments: dict[str, Any], by: Identity, resolved: Resolved | None = None
    ) -> Plan:
        """The plan with other arguments, by the same rules. Raises InvalidRequest where the tool refuses them."""
        manifest = await self._manifest(plan.tool)
        if manifest.shown_sha256 != plan.manifest_sha256:
            raise InvalidRequest("the tool changed after the call was shown; propose it anew")
        if resolved is not None and resolved.refused is not None:
            raise InvalidRequest(resolved.refused)
        complete = schema.complete(manifest.parameters, arguments)
        wanted = _files_wanted(manifest, complete, plan.approval_id, plan.requester, plan.deadline)
        standing = payload_files(plan.payload)
        digests = {digest.file_id: digest for digest in resolved.files} if resolved else {}
        payload = canonical_payload(plan.tool, complete, _hashed(wanted, digests, standing))
        if manifest.is_consent_only:
            refuse_what_cannot_be_consented_to(payload, before=plan.payload)
        payload_sha256 = sha256(payload)
        if payload_sha256 == plan.payload_sha256:
            raise InvalidRequest("nothing was changed; approve the call as it is")
        first = plan.edit
        proposed = first.proposed_payload if first else plan.payload
        if text_size(payload, proposed) > EDIT:
            raise InvalidRequest(
                f"the proposed and the changed call together hold more than {EDIT} bytes; propose it anew"
            )
        person = await self._ledger.person((resolved.requester if resolved else None) or plan.requester)
        known = _whereabouts(plan, person, resolved)
        effective = await self._effective(manifest, Asking.of(payload, **known))
        if resolved is None:
            new = _without(wanted, standing)
            unknown = await self._unknowns_of_edit(plan, payload, person, effective, has_files=new is not None)
            _ask_first(self._with_files(unknown, new), _warning_question(manifest, payload, effective))
        effective = _warned(effective, resolved, Mask(payload, manifest.sensitive))
        of_the_rule = self._of_the_rule(effective)
        twin = await self._ledger.twin(payload_sha256, self._settings.namespace, plan.requester)
        if effective.permission.execution is Execution.AUTO:  # somebody was asked, and goes on being asked
            of_the_rule["permission"] = _asking(effective).permission
        return plan.model_copy(
            update={
                "payload": payload,
                "payload_sha256": payload_sha256,
                "idempotency_key": plan.idempotency_key.removesuffix(plan.payload_sha256) + payload_sha256,
                "scope_key": plan.scope_key.removesuffix(plan.payload_sha256) + payload_sha256,
                **told_of_twin(twin),
                "former_sha256": tuple({*plan.former_sha256, plan.payload_sha256} - {payload_sha256}),
                "edit": Edit(
                    by=by,
                    proposed_payload=proposed,
                    proposed_payload_sha256=first.proposed_payload_sha256 if first else plan.payload_sha256,
                    payload=payload,
                    payload_sha256=payload_sha256,
                ),
                "escalate_to": effective.escalate_to,
                "previews": {**plan.previews, **_previews(digests)},
                **known,
                **of_the_rule,
            }
        )

    async def objection(self, plan: Plan, approved_by: tuple[Identity, ...]) -> str | None:
        """Why what was planned may no longer be done under the policy in force, if so."""
        manifest = await self._manifest(plan.tool)
        if manifest.shown_sha256 != plan.manifest_sha256:
            return "the tool changed after the call was shown; propose it anew"
        self._policy.forget()  # what was published a moment ago counts
        effective = await effective_now(self._ledger, await self._policy.now(), manifest, plan)
        if manifest.is_consent_only:
            permission = without_result_review(effective.permission)
            effective = effective.model_copy(update={"permission": permission})
        return objection(plan, effective, approved_by)

    # What Feishu must be asked

    async def _unknowns(
        self,
        request: Request,
        payload: str,
        named: Identity,
        person: Person,
        effective: Effective,
        chat_is_known: bool,
        *,
        has_files: bool,
    ) -> Unknowns:
        """What the plan depends on, nobody has proved so far, and Feishu can say."""
        is_scoped = request.message_id is not None or request.idempotency_scope is not None
        has_slot = request.thread_id is not None and request.when_pending is not WhenPending.ALLOW
        is_excluded = any(stage.exclude_requester for stage in effective.approvers.stages)
        in_doubt = frozenset(effective.in_doubt)
        is_one = is_scoped or has_slot or is_excluded
        must_be_proved = (person.standing is None and is_one) or (
            person.is_unproved and (is_one or has_files or await self._asks_who(payload, effective))
        )
        asks_who = must_be_proved or person.is_mixed_up or bool(in_doubt - {"conversation"})
        asks_where = not chat_is_known and (request.is_bound_to_chat or "conversation" in in_doubt)
        return self._asked_of_feishu(named if asks_who else None, request.reply_to if asks_where else None)

    async def _unknowns_of_edit(
        self, plan: Plan, payload: str, person: Person, effective: Effective, *, has_files: bool
    ) -> Unknowns:
        in_doubt = frozenset(effective.in_doubt)
        answered = next((each.reply_to for each in plan.addresses if each.reply_to), None)
        must_be_proved = person.is_unproved and (has_files or await self._asks_who(payload, effective))
        asks_who = must_be_proved or bool(in_doubt - {"conversation"})
        return self._asked_of_feishu(
            plan.requester if asks_who else None, answered if "conversation" in in_doubt else None
        )

    async def _asks_who(self, payload: str, effective: Effective) -> bool:
        """Whether it depends on who asks: what may run, who decides it, or whose remembered decision counts."""
        permission = effective.permission
        stages = effective.approvers.stages
        is_decided = permission.execution is not Execution.AUTO or permission.result is not ResultReview.NEVER
        decides = any(stage.kind is Approvers.Kind.REQUESTER or stage.exclude_requester for stage in stages)
        is_remembered = permission.execution is Execution.ASK_ONCE
        return (
            (is_decided and decides) or is_remembered or (await self._policy.now()).rules.ask_who(subject_of(payload))
        )

    def _with_files(self, unknown: Unknowns, wanted: FilesWanted | None) -> Unknowns:
        """What must be asked, with the files that a call names."""
        if wanted is None:
            return unknown
        if not self._settings.feishu_app_id:
            raise InvalidRequest("files: this service talks to no Feishu, so it cannot fetch what people shared there")
        return unknown.model_copy(update={"files": wanted})

    def _asked_of_feishu(self, requester: Identity | None, message_id: str | None) -> Unknowns:
        if not self._settings.feishu_app_id:
            return Unknowns()
        return Unknowns(requester=requester, message_id=message_id)

    # The parts of a plan

    async def _tool_and_person(self, request: Request, identity: Identity) -> tuple[Manifest, Person]:
        if request.dispatch is not None:
            return request.dispatch.manifest, await self._ledger.person(identity)
        manifest, person = await self._ledger.tool_and_person(request.tool, identity)
        return _published(manifest, request.tool), person

    async def _manifest(self, tool: str) -> Manifest:
        return _published(await self._ledger.manifest(tool), tool)

    async def _effective(self, manifest: Manifest, asking: Asking) -> Effective:
        effective = await effective_by(await self._policy.now(), manifest, asking)
        tenant = self._settings.feishu_tenant_key or None
        approvers = effective.approvers.within(tenant)
        asks_a_chat = any(stage.kind is Approvers.Kind.CHAT for stage in approvers.stages)
        if asks_a_chat and not self._settings.feishu_app_id:
            raise InvalidRequest("the members of a chat decide this, and this service talks to no Feishu")
        if manifest.is_consent_only:
            permission = without_result_review(effective.permission)
            effective = effective.model_copy(update={"permission": permission})
        widened = tuple(person.within(tenant) for person in effective.escalate_to)
        return effective.model_copy(update={"approvers": approvers, "escalate_to": widened})

    def _of_the_rule(self, effective: Effective) -> dict[str, Any]:
        """What the operator's rule, or else the tool, says."""
        return {
            "permission": effective.permission,
            "approvers": effective.approvers,
            "risk": effective.risk,
            "warnings": effective.warnings,
            "denied": effective.denied,
            "rule": effective.rule,
            "override": effective.override,
            "remember_for": effective.remember_for or self._settings.remember_for,
            "result_ttl": effective.result_ttl or _RESULT_TTL,
            "result_fallback": effective.result_fallback or Fallback.WITHHOLD,
        }

    async def _grant(
        self,
        manifest: Manifest,
        effective: Effective,
        requester: Identity,
        conversation: str | None,
        payload: str,
        now: datetime,
    ) -> Grant | None:
        """What was decided about this before, where a first decision is enough."""
        if effective.permission.execution is not Execution.ASK_ONCE:
            return None
        return await self._ledger.grant_for(
            tool=subject_of(payload),
            payload_sha256=sha256(payload),
            conversation=conversation,
            requester=requester,
            manifest_sha256=manifest.shown_sha256,
            risk=effective.risk,
            approvers=effective.approvers,
            now=now,
        )


def addresses_of(
    settings: Settings, requester: Identity, approvers: Approvers, chat_id: str | None, reply_to: str | None
) -> tuple[Address, ...]:
    """Where the card goes: where the agent says, else to those who may decide, or answer."""
    if not settings.feishu_app_id:
        if chat_id or reply_to:
            raise InvalidRequest("chat_id: this service sends no cards; set ASSENT_FEISHU_APP_ID")
        return ()
    if chat_id:
        return (Address(kind=AddressKind.CHAT_ID, id=chat_id, reply_to=reply_to),)
    if reply_to:
        return (Address.of(requester).model_copy(update={"reply_to": reply_to}),)
    if approvers.chat_id:
        return (Address(kind=AddressKind.CHAT_ID, id=approvers.chat_id),)
    return tuple(Address.of(person) for person in approvers.people) or (Address.of(requester),)


def _files_wanted(
    manifest: Manifest, arguments: dict[str, Any], approval_id: str, requester: Identity, until: datetime
) -> FilesWanted | None:
    """The files that the arguments name; None if they name none."""
    if not schema.takes_files(manifest.parameters):
        return None
    file_ids = schema.file_ids(manifest.parameters, arguments)
    if len(file_ids) > MOST_FILES:
        raise InvalidRequest(f"files: the call names {len(file_ids)} files, the limit is {MOST_FILES}")
    masked = {name: value for name, value in arguments.items() if name in manifest.sensitive}
    return (
        FilesWanted(
            approval_id=approval_id,
            requester=requester,
            file_ids=tuple(file_ids),
            hidden=tuple(schema.file_ids(manifest.parameters, masked)),
            until=until,
        )
        if file_ids
        else None
    )


def _without(wanted: FilesWanted | None, standing: Collection[str]) -> FilesWanted | None:
    """The files that nobody has fetched yet."""
    if wanted is None:
        return None
    new = tuple(file_id for file_id in wanted.file_ids if file_id not in standing)
    return wanted.model_copy(update={"file_ids": new}) if new else None


def _hashed(
    wanted: FilesWanted | None, digests: Mapping[str, FileDigest], standing: Mapping[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What the payload says of the files that a call names: as they were kept first."""
    file_ids = wanted.file_ids if wanted else ()
    found = {file_id: digests[file_id].in_payload() for file_id in file_ids if file_id in digests}
    return {**found, **{file_id: standing[file_id] for file_id in file_ids if file_id in standing}}


def _previews(digests: Mapping[str, FileDigest]) -> dict[str, str]:
    return {digest.file_id: digest.preview for digest in digests.values() if digest.preview}


def _asking(effective: Effective) -> Effective:
    """The same, with somebody being asked each time, unless nothing may run."""
    if effective.permission.execution is Execution.DENY:
        return effective
    asks = Permission(execution=Execution.ASK_ALWAYS, result=effective.permission.result)
    return effective.model_copy(update={"permission": asks})


def _published(manifest: Manifest | None, tool: str) -> Manifest:
    if manifest is None:
        raise InvalidRequest(f"no worker has published a tool named {tool!r}")
    return manifest


def _carried(parameters: dict[str, Any]) -> dict[str, Any] | None:
    """A tool's schema, if it is small enough for a plan."""
    data = canonical_json(parameters)
    return parameters if len(data) <= _MOST_SCHEMA and travels(data) else None


def _ask_first(unknown: Unknowns, question: WarningQuestion | None) -> None:
    """Raises Unresolved where somebody must be asked before there can be a plan."""
    unknown = unknown.model_copy(update={"warnings": question})
    if unknown != Unknowns():
        raise Unresolved(unknown)


def _warning_question(
    manifest: Manifest, payload: str, effective: Effective, grant: Grant | None = None
) -> WarningQuestion | None:
    """What the tool is asked about a call that a person decides."""
    is_decided = effective.permission.execution is not Execution.AUTO and effective.denied is None and grant is None
    if not manifest.warns or not is_decided:
        return None
    return WarningQuestion(
        tool=manifest.name, queue=manifest.queue, manifest_sha256=manifest.shown_sha256, payload=payload
    )


def _warned(effective: Effective, resolved: Resolved | None, mask: Mask) -> Effective:
    """With what the tool warns of before what the operator does; neither tells what is nobody's to see."""
    said = tuple(mask.text(each) for each in (resolved.warnings or () if resolved else ()))
    return effective.model_copy(update={"warnings": (*said, *effective.warnings)})


def _chat(request: Request, resolved: Resolved | None) -> tuple[str | None, bool]:
    """The chat that a request is made in, and whether that is so: a message that is answered lies where it lies."""
    if request.reply_to is None:
        return request.chat_id, True
    if request.is_bound_to_chat and request.chat_id is None:
        raise InvalidRequest("reply_to: this token may ask in certain chats alone; say in chat_id which one it is")
    if resolved is None or resolved.chat_id is None:
        return request.chat_id, False
    if request.chat_id not in (None, resolved.chat_id):
        raise InvalidRequest(_ELSEWHERE)
    return resolved.chat_id, True


def _whereabouts(plan: Plan, person: Person, resolved: Resolved | None) -> dict[str, Any]:
    """Who asked for a plan's call and where, as far as that is known by now."""
    is_told = resolved is not None and resolved.chat_id is not None
    if resolved is not None and is_told and plan.conversation not in (None, resolved.chat_id):
        raise InvalidRequest(_ELSEWHERE)
    return {
        "requester": person.named(plan.requester),
        "conversation": resolved.chat_id if resolved is not None and is_told else plan.conversation,
        "chat_is_known": plan.chat_is_known or is_told,
    }


def _aliases(request: Request, namespace: str, payload_sha256: str) -> tuple[str, ...]:
    said = {"key": request.idempotency_scope, "message_id": request.message_id, "event_id": request.event_id}
    return alias_keys(namespace, payload_sha256, **said)


def _ttl(request: Request, manifest: Manifest, effective: Effective) -> timedelta:
    """How long it may wait: the agent may shorten what the rule or the tool says."""
    if effective.ttl is not None:
        return effective.ttl if request.ttl == DEFAULT_TTL else min(request.ttl, effective.ttl)
    return min(request.ttl, manifest.max_ttl) if manifest.max_ttl else request.ttl
