"""The variants that are measured beside each other: how each starts a flow, decides it and sees its end."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from activities.cards import CardActivities
from activities.feishu.client import Feishu
from assent import Assent, Decision, Identity, Outcome, Permission, Registry, Status, ToolContext, names, tool
from assent.arguments import schema
from assent.contracts.answers import Answer
from assent.contracts.questions import Question, QuestionKind, canonical_questions
from assent.payload import canonical_payload, sha256
from assent.settings import Settings
from assent.temporal.door import TemporalDoor
from assent.tools.definition import Tool
from assent.types import DecisionKind, Execution
from benchmarks.ledgers import NoLedger, Stopwatch, timed, watch
from benchmarks.workflows import QUEUE, TOOLS_QUEUE, TTL, BareWorkflow, PlainWorkflow, ShapeWorkflow
from cards import Wording
from ledger import Ledger
from workers.approvals import approvals_worker, outbound_worker
from workers.setup import set_up
from workers.tools import tool_workers

ME = Identity(open_id="ou_requester", union_id="on_requester")
ARGUMENTS = {"to": "ACME Ltd", "note": "invoice 2026-117"}
QUESTION = Question(prompt="Is invoice 2026-117 the last one?", kind=QuestionKind.CONFIRM)

begun: dict[str, float] = {}
"""When each flow's body began, on this process's clock."""
registry = Registry()


@tool(name="bench.pay", registry=registry)
async def pay(to: str, note: str, ctx: ToolContext, amount: Decimal = Decimal("120.00")) -> dict[str, Any]:
    """Pay an invoice, as far as a benchmark can."""
    begun[ctx.approval_id] = time.monotonic()
    return {"paid": amount, "to": to, "note": note}


pay_unasked = tool(name="bench.pay_unasked", permission=Permission(execution=Execution.AUTO), registry=registry)(
    pay.function
)
pay_once_asked = tool(
    name="bench.pay_once_asked", permission=Permission(execution=Execution.ASK_ONCE), registry=registry
)(pay.function)


@activity.defn(name="work")
async def work(flow: str) -> str:
    begun[flow] = time.monotonic()
    return flow


@activity.defn(name="nothing")
async def nothing(_flow: str) -> None:
    return


class Unhurried(Feishu):
    """A Feishu whose chats take messages as fast as they come: what is measured is ours, not its limits."""

    async def _turn(self, destination: str) -> None:
        return


class Variant(ABC):
    """One kind of flow, in a Temporal namespace of its own, with its workers in this process."""

    def __init__(self, name: str, client: Client, over: str | None = None) -> None:
        self.name = name
        self.client = client
        self.over = over
        """The variant that this one adds something to."""

    @abstractmethod
    async def open(self, stack: AsyncExitStack) -> None:
        """Set up and start the workers."""

    @abstractmethod
    async def start(self) -> str:
        """Start a flow; from now on it waits to be decided."""

    @abstractmethod
    async def decide(self, flow: str) -> None:
        """Signal the decision."""

    @abstractmethod
    async def end(self, flow: str) -> None:
        """Wait for the end, and see that it is the one that was meant."""

    @abstractmethod
    def workflow_id(self, flow: str) -> str: ...


class Plain(Variant):
    """A workflow that is not ours."""

    def __init__(
        self,
        name: str,
        client: Client,
        settings: Settings,
        kind: type[BareWorkflow | ShapeWorkflow | PlainWorkflow],
        over: str | None = None,
    ) -> None:
        super().__init__(name, client, over)
        self._settings = settings
        self._kind = kind

    async def open(self, stack: AsyncExitStack) -> None:
        await set_up(self.client, self._settings)
        await stack.enter_async_context(
            Worker(self.client, task_queue=QUEUE, workflows=[self._kind], activities=[nothing])
        )
        await stack.enter_async_context(Worker(self.client, task_queue=TOOLS_QUEUE, activities=[work]))

    async def start(self) -> str:
        flow = str(uuid.uuid4())
        await self.client.start_workflow(self._kind.run, flow, id=self.workflow_id(flow), task_queue=QUEUE)
        return flow

    async def decide(self, flow: str) -> None:
        if self._kind is not PlainWorkflow:
            await self.client.get_workflow_handle(self.workflow_id(flow)).signal("decide", "approve")

    async def end(self, flow: str) -> None:
        done = await self.client.get_workflow_handle(self.workflow_id(flow), result_type=str).result()
        assert done == flow, done

    def workflow_id(self, flow: str) -> str:
        return f"bench/{flow}"


class Approvals(Variant):
    """Complete approvals, asked for through the client and run by the workers that the service runs."""

    tool: Tool = pay
    """What is asked for."""

    def __init__(self, name: str, client: Client, settings: Settings, over: str, *, kept: bool = True) -> None:
        super().__init__(name, client, over)
        self.stopwatch = Stopwatch()
        self._settings = settings
        self.kept = kept
        self._gate = Assent(TemporalDoor(client))
        manifest = self.tool.manifest
        self._payload_sha256 = sha256(canonical_payload(manifest.name, schema.complete(manifest.parameters, ARGUMENTS)))

    async def open(self, stack: AsyncExitStack) -> None:
        await set_up(self.client, self._settings)
        ledger = await self._ledger(stack)
        cards = self._cards(ledger, stack)
        for worker in (
            approvals_worker(self.client, ledger, self._settings, cards),
            *([outbound_worker(self.client, ledger, self._settings, cards)] if cards else ()),
            *tool_workers(self.client, ledger, registry),
        ):
            await stack.enter_async_context(worker)

    def _cards(self, ledger: Ledger, stack: AsyncExitStack) -> CardActivities | None:
        feishu = Unhurried.of(self._settings)
        if feishu is None:
            return None
        stack.push_async_callback(feishu.close)
        return CardActivities(ledger, feishu, Wording.load(None))

    async def _ledger(self, stack: AsyncExitStack) -> Ledger:
        if not self.kept:
            return NoLedger({self.tool.name: self.tool.manifest})
        ledger = timed(Ledger.open(self._settings.database_url), self.stopwatch)
        watch(ledger, self.stopwatch)
        stack.push_async_callback(ledger.dispose)
        await ledger.publish([self.tool.manifest], datetime.now(UTC))
        return ledger

    async def start(self) -> str:
        return (await self._gate.request(self.tool.name, ARGUMENTS, requester=ME, ttl=TTL)).id

    async def decide(self, flow: str) -> None:
        decision = Decision(
            approval_id=flow,
            kind=DecisionKind.APPROVE,
            payload_sha256=self._payload_sha256,
            actor=ME,
            event_id=str(uuid.uuid4()),
            received_at=datetime.now(UTC),
        )
        await self.client.get_workflow_handle(self.workflow_id(flow)).signal(names.DECIDE, decision)

    async def end(self, flow: str) -> None:
        await self._ended(flow)

    async def _ended(self, flow: str) -> Outcome:
        outcome = await self._gate.approval(flow).outcome()
        assert outcome.status is Status.EXECUTED, outcome
        return outcome

    def workflow_id(self, flow: str) -> str:
        return names.approval_workflow(flow)


class Questions(Approvals):
    """One question that takes a yes or a no, asked through the client and answered by signal."""

    async def start(self) -> str:
        return (await self._gate.ask(QUESTION, requester=ME, ttl=TTL)).id

    async def decide(self, flow: str) -> None:
        answer = Answer(
            question_id=flow,
            questions_sha256=sha256(canonical_questions((QUESTION,))),
            answers={QUESTION.id: True},
            actor=ME,
            event_id=str(uuid.uuid4()),
            received_at=datetime.now(UTC),
        )
        await self.client.get_workflow_handle(self.workflow_id(flow)).signal(names.ANSWER, answer)

    async def end(self, flow: str) -> None:
        outcome = await self._gate.question(flow).answer()
        assert outcome.answers == {QUESTION.id: True}, outcome

    def workflow_id(self, flow: str) -> str:
        return names.question_workflow(flow)


class Unasked(Approvals):
    """Calls of a tool that nobody is asked about."""

    tool = pay_unasked

    async def decide(self, flow: str) -> None:
        return

    async def end(self, flow: str) -> None:
        outcome = await self._ended(flow)
        assert outcome.decided_by is None, outcome
        assert outcome.grant_id is None, outcome


class OnceAsked(Approvals):
    """Calls of a tool whose first was approved by a person before: a grant lets all others through."""

    tool = pay_once_asked

    async def open(self, stack: AsyncExitStack) -> None:
        await super().open(stack)
        first = await self.start()
        await super().decide(first)
        await self._ended(first)

    async def decide(self, flow: str) -> None:
        return

    async def end(self, flow: str) -> None:
        outcome = await self._ended(flow)
        assert outcome.grant_id is not None, outcome
