"""Bringing the cards of an approval that has ended to what became true since: a remembered decision was revoked."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.deliver import Revision
    from assent.steps import SHOW
    from workflows.steps import OUTBOUND, take

_CHANGEABLE = timedelta(days=14)
"""How long Feishu lets a card be changed."""


@workflow.defn(name=names.REDRAWING)
class RedrawingWorkflow:
    """Tries until the cards are as they should be; what was revoked is revoked already."""

    @workflow.run
    async def run(self, revision: Revision) -> None:
        await take(SHOW, revision, OUTBOUND, within=_CHANGEABLE)
