"""What an approval is measured against: the least that Temporal itself needs for a decision and a call."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import SearchAttributeKey

QUEUE = "bench-workflows"
TOOLS_QUEUE = "bench-tools"
TTL = timedelta(minutes=15)

_LIMIT = timedelta(minutes=1)
_STATUS = SearchAttributeKey.for_keyword("AssentStatus")


@workflow.defn(name="Bare")
class BareWorkflow:
    """Start, wait for a signal or the deadline, one activity, done."""

    def __init__(self) -> None:
        self._decided = False

    @workflow.run
    async def run(self, flow: str) -> str:
        await workflow.wait_condition(lambda: self._decided, timeout=TTL)
        done: str = await workflow.execute_activity(
            "work", flow, result_type=str, task_queue=TOOLS_QUEUE, start_to_close_timeout=_LIMIT
        )
        return done

    @workflow.signal(name="decide")
    def _on_decide(self, _decision: str) -> None:
        self._decided = True

    @workflow.query(name="decided")
    def _is_decided(self) -> bool:
        return self._decided


@workflow.defn(name="Plain")
class PlainWorkflow:
    """Start, one activity, done: the least that Temporal itself needs for a call that nobody is asked about."""

    @workflow.run
    async def run(self, flow: str) -> str:
        done: str = await workflow.execute_activity(
            "work", flow, result_type=str, task_queue=TOOLS_QUEUE, start_to_close_timeout=_LIMIT
        )
        return done


@workflow.defn(name="Shape")
class ShapeWorkflow:
    """The bare workflow with every history event that an approval has, and none of its work."""

    def __init__(self) -> None:
        self._decided = False

    @workflow.run
    async def run(self, flow: str) -> str:
        await self._nothing(flow)
        self._show("pending")
        await workflow.wait_condition(lambda: self._decided, timeout=TTL)
        self._show("executing")
        done: str = await workflow.execute_activity(
            "work", flow, result_type=str, task_queue=TOOLS_QUEUE, start_to_close_timeout=_LIMIT
        )
        await self._nothing(flow)
        self._show("executed")
        return done

    @workflow.signal(name="decide")
    def _on_decide(self, _decision: str) -> None:
        self._decided = True

    async def _nothing(self, flow: str) -> None:
        await workflow.execute_local_activity("nothing", flow, start_to_close_timeout=_LIMIT)

    def _show(self, status: str) -> None:
        workflow.upsert_search_attributes([_STATUS.value_set(status)])
