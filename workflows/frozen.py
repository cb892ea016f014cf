"""The open question of a call that may have happened."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from assent import names
    from assent.messages import FrozenCall


_MOST_JOINED = 1000
"""How many approvals a review names; any number may wait for it."""


@workflow.defn(name=names.FROZEN_REVIEW)
class FrozenReviewWorkflow:
    """Stays open until it is known whether the call took effect; approvals of the same key join it."""

    @workflow.init
    def __init__(self, frozen: FrozenCall) -> None:
        self._frozen = frozen

    @workflow.run
    async def run(self, frozen: FrozenCall) -> None:
        workflow.set_current_details(_page(self._frozen))
        await workflow.wait_condition(workflow.info().is_continue_as_new_suggested)
        workflow.continue_as_new(self._frozen)

    @workflow.signal(name=names.JOIN, description="Another approval waits for the same answer.")
    def _on_join(self, *said: Any) -> None:
        try:
            (message,) = said
            joining = FrozenCall.model_validate(message).approval_id
        except (ValidationError, ValueError, TypeError, RecursionError):
            return
        known = {self._frozen.approval_id, *self._frozen.joined}
        if joining not in known and len(known) < _MOST_JOINED:
            self._frozen = self._frozen.model_copy(update={"joined": (*self._frozen.joined, joining)})
            workflow.set_current_details(_page(self._frozen))

    @workflow.query(name=names.STATE, description="What may have happened.")
    def _state(self) -> FrozenCall:
        return self._frozen


def _page(frozen: FrozenCall) -> str:
    return "\n".join(
        [
            f"**{frozen.tool}** was begun, and whether it took effect is not known.",
            "",
            f"- Approval: `{frozen.approval_id}`" + "".join(f", `{other}`" for other in frozen.joined),
            f"- Payload: `{frozen.payload_sha256}`",
            f"- Approved by: {frozen.decided_by}",
            f"- Asked for by: {frozen.requester}",
            f"- Since: {frozen.frozen_at.isoformat(timespec='seconds')}",
            f"- What is known: {(frozen.error or 'nothing').replace(chr(10), ' ')[:500]}",
        ]
    )
