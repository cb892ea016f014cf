"""A result that a person looks at before the agent gets it."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.audit import AuditEntry, AuditEvent
    from assent.contracts.carried import Reviewing, Shelf
    from assent.contracts.decision import DecisionKind
    from assent.contracts.deliver import CardKind
    from assent.contracts.execute import Report
    from assent.contracts.outcome import Outcome
    from assent.contracts.permission import Fallback
    from assent.contracts.release import UNDECIDED, Release
    from assent.contracts.values import Surface
    from assent.judgement import audit_entry, concluded
    from workflows import steps
    from workflows.docket import Docket
    from workflows.post import Post
    from workflows.waiting import Waiting


_SEALED = {
    **dict.fromkeys(("content", "authorize_url", "reason", "content_sha256", "content_bytes")),
    "truncated": False,
    "withheld": True,
}
"""What an outcome says of a result that is withheld: a short one could be guessed by its hash."""


class ResultDesk:
    """Shows a sealed result to those who may decide, and hands it over or not. The execution stays what it was."""

    def __init__(
        self, docket: Docket, call_cards: Post, continue_as_new: Callable[[], None], describe: Callable[[], None]
    ) -> None:
        self._docket = docket
        self._call_cards = call_cards
        self._continue_as_new = continue_as_new
        self._describe = describe
        self._reviewing: Reviewing | None = None
        self._post = Post(docket, Shelf(), CardKind.RESULT)

    @property
    def carried(self) -> Reviewing:
        """What a new run needs to know."""
        assert self._reviewing is not None
        return self._reviewing.model_copy(update={"cards": self._post.shelf})

    async def release(self, reviewing: Reviewing) -> Outcome:
        """Wait for a decision about the result; the outcome with it, or without."""
        docket, plan = self._docket, self._docket.plan
        assert plan is not None
        self._reviewing = reviewing
        is_new = docket.result_sha256 is None
        docket.review_result(reviewing.content_sha256, reviewing.deadline)
        self._post = Post(docket, reviewing.cards, CardKind.RESULT)
        if is_new:
            await self._call_cards.show_reviewing(plan, docket.accepted)
        waiting = Waiting(docket, self._post, self._continue_as_new, self._describe)
        await waiting.until(lambda: docket.result_decision is not None, lambda: reviewing.deadline + plan.grace)
        self._post.stop()
        decision = docket.result_decision
        released = decision.kind is DecisionKind.APPROVE if decision else plan.result_fallback is Fallback.RELEASE
        if decision is None and docket.weighing is not None:
            released = False  # somebody has decided, and Feishu cannot say whether it was theirs to decide
        reason = decision.reason if decision else UNDECIDED
        entry = self._entry(released, reviewing, None if decision else reason)
        question = Release(
            approval_id=plan.approval_id,
            consent=plan.approval_id,
            content_sha256=reviewing.content_sha256,
            released=released,
            reason=reason,
            entries=(*docket.next_entries, entry),
        )
        report = await steps.durable(names.RELEASE, question, Report)
        docket.written(question.entries)
        if not report.sealed:
            return concluded(reviewing.outcome, report).model_copy(update={"status": reviewing.outcome.status})
        return withheld(reviewing.outcome, reason)

    def _entry(self, released: bool, reviewing: Reviewing, reason: str | None) -> AuditEntry:
        event = AuditEvent.RELEASE if released else AuditEvent.WITHHOLD
        decision = self._docket.result_decision
        if decision is None:
            return AuditEntry(
                event=event,
                at=workflow.now(),
                once=str(event),
                surface=Surface.POLICY,
                reason=reason,
                content_sha256=reviewing.content_sha256,
            )
        entry = audit_entry(event, decision, workflow.now())
        return entry.model_copy(update={"payload_sha256": None, "content_sha256": reviewing.content_sha256})


def withheld(outcome: Outcome, reason: str | None) -> Outcome:
    """The outcome without its result."""
    return outcome.model_copy(update={**_SEALED, "withheld_reason": reason})
