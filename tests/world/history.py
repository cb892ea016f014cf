"""A plan acted out: everyone acts, the oracle watches."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

from temporalio.client import Client as TemporalClient
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from activities.approvals import ApprovalActivities
from activities.planning import Planner
from activities.policy import PolicyInForce
from activities.questions import QuestionActivities
from activities.reviews import ReviewActivities
from activities.tools import ToolActivities
from activities.weighing import WeighingActivities
from assent import Identity, names
from assent.contracts.answers import Answer
from assent.contracts.decision import Decision, DecisionKind
from assent.contracts.questions import Option, Question, QuestionKind, QuestionRequest, canonical_questions
from assent.contracts.request import Request, WhenPending
from assent.contracts.ruling import Ruling, RulingKind
from assent.contracts.signals import Withdrawal
from assent.core import Asked
from assent.core import questions as core_questions
from assent.payload import sha256
from assent.settings import Settings
from assent.types import Surface
from ledger import Ledger
from tests.world import clock, pipes, plans
from tests.world.clock import VirtualLoop
from tests.world.database import open_sqlite
from tests.world.oracle import Oracle
from tests.world.outside import Outside
from tests.world.pipes import Pipe
from tests.world.plans import Blow, Fault, Plan
from tests.world.processes import Process
from tests.world.seen import Client, Elsewhere, pretended
from tests.world.temporal import Run, Temporal
from workers import sweeping

PEOPLE = {
    "me": Identity(open_id="ou_me"),
    "you": Identity(open_id="ou_you"),
    "me by another id": Identity(union_id="on_me"),
}
OPERATOR = Identity(open_id="ou_operator")
WHERE = Question(
    id="where",
    prompt="Where to?",
    kind=QuestionKind.CHOICE,
    options=(Option(value="staging"), Option(value="production")),
)
_SHOWN = sha256(canonical_questions((WHERE,)))
_LONG = 2500.0
"""When all that goes wrong has gone wrong, and everyone is well again."""
_WELL = 4500.0
"""When whatever was begun has ended, so that an operator who looks sees what is true."""
_END = 8000.0
_STEPS = ((0.90, 0.005), (0.97, 0.5), (0.995, 4.0), (1.0, 90.0))
"""How long a step takes at most, in so many of all cases."""
_DENIED = '[[rule]]\nname = "stop"\ntools = ["{}"]\nexecution = "deny"\n'


def acted_out(plan: Plan) -> History:
    """What became of a plan. `violations` says what was wrong, `notes` what happened."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    with pretended(), clock.clocks_of_processes():
        history = History(plan)
        try:
            loop.run_until_complete(history.run())
        except clock.Stuck:
            history.oracle.violations.append("nothing happens any more")
        finally:
            history.is_closed = True
            _leave(loop)
            asyncio.set_event_loop(None)
    return history


def _leave(loop: VirtualLoop) -> None:
    """End whatever still waits; some of it has to be told more than once."""
    loop.conditions.clear()
    for _ in range(100):
        waiting = asyncio.all_tasks(loop)
        if not waiting:
            break
        for task in waiting:
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


class History:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(f"{plan.seed}/steps")
        self.notes: list[str] = []
        self.engine, looking = open_sqlite()
        self.ledger = Ledger(self.engine)
        self.oracle = Oracle(self, looking)
        self.outside = Outside(self, plans.KINDS[plan.tool], plan.scripts, plan.looks)
        self.temporal = Temporal(self)
        self.client = cast("TemporalClient", Client(self))
        self.settings = Settings(
            database_url="sqlite+aiosqlite://",
            heartbeat_timeout=timedelta(seconds=plans.HEARTBEAT),
            start_within=timedelta(seconds=plans.START_WITHIN),
            grace=timedelta(seconds=1),
            operators=(OPERATOR,),
        )
        self.approvals: list[str] = []
        self.asked_for: list[str] = []
        self.terminated: set[str] = set()
        self.is_denied = False
        self._spawned: set[asyncio.Task[Any]] = set()
        self._registry = self.outside.registry()
        self._tools: list[Process] = []
        self._is_over = self.is_closed = False
        self._writing = asyncio.Lock()

    @property
    def violations(self) -> list[str]:
        return self.oracle.violations

    # Chance and time

    def latency(self) -> float:
        if self.plan.calm or self._is_over:
            return 0.001
        drawn = self.random.random()
        return self.random.random() * next(longest for share, longest in _STEPS if drawn <= share)

    def chance(self, of: float) -> bool:
        return not self.plan.calm and not self._is_over and self.random.random() < of

    def note(self, what: str) -> None:
        self.notes.append(f"{asyncio.get_running_loop().time():10.3f}  {what}")

    def spawn(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        task.add_done_callback(self._complain)

    def _complain(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.oracle.wrong(f"an actor broke: {type(error).__name__}: {error}")

    async def transaction(self, method: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """One step of the ledger; nobody sees it half done."""
        async with self._writing:
            return await method(*args, **more)

    # The story

    async def run(self) -> None:
        for number, wrong_by in enumerate(self.plan.wrong_clocks):
            self._tools.append(self._tools_worker(f"tools {number}", wrong_by))
        self.temporal.processes[names.TOOLS_QUEUE] = self._tools
        self.temporal.processes[names.APPROVALS_QUEUE] = [self._approvals_worker()]
        self.temporal.processes[names.OUTBOUND_QUEUE] = self.temporal.processes[names.APPROVALS_QUEUE]
        await self.transaction(
            self.ledger.publish, [tool.manifest for tool in self._registry.tools.values()], clock.now()
        )
        self.approvals += [f"a{number}" for number in range(len(self.plan.asked))]
        for number, asked in enumerate(self.plan.asked):
            self.spawn(self._ask(number, asked))
        for number, ran in enumerate(self.plan.runs):
            self.spawn(Pipe(self, f"run{number}", ran, PEOPLE["me"], WHERE).live())
        for number, questioned in enumerate(self.plan.questions):
            self.spawn(self._question(f"q{number}", questioned))
        for fault in self.plan.faults:
            self.spawn(self._strike(fault))
        self.spawn(self._operate())
        self.spawn(self._keep_sweeping(40.0 if self.plan.sweeps else _LONG))
        await asyncio.sleep(_LONG)
        self.note("nothing goes wrong any more")
        await self._put_policy("")
        self._is_over = True
        await asyncio.sleep(_END - _LONG)
        await self.oracle.at_the_end()

    def _request(self, number: int, asked: plans.Asked) -> Request:
        return Request(
            approval_id=self.approvals[number],
            tool=self.plan.tool,
            arguments={"x": 1},
            requester=PEOPLE[asked.requester],
            thread_id=asked.thread,
            when_pending=WhenPending(asked.when_pending),
            idempotency_scope=asked.scope if asked.scope == "same" else f"{asked.scope}-{number}",
            ttl=timedelta(seconds=plans.TTL),
        )

    async def _ask(self, number: int, asked: plans.Asked) -> None:
        await asyncio.sleep(asked.at)
        request = self._request(number, asked)
        workflow_id = names.approval_workflow(request.approval_id)
        self.asked_for.append(request.approval_id)
        self.temporal.start(names.APPROVAL, Asked(request=request), workflow_id)
        await asyncio.sleep(asked.decided_after)
        await self._decide(request.approval_id, asked.decision)

    async def _question(self, question_id: str, asked: plans.Questioned) -> None:
        await asyncio.sleep(asked.at)
        ttl = timedelta(seconds=asked.ttl)
        request = QuestionRequest(question_id=question_id, questions=(WHERE,), requester=PEOPLE["me"], ttl=ttl)
        workflow_id = names.question_workflow(question_id)
        self.oracle.questions.ask(question_id, asked, clock.now() + ttl)
        self.temporal.start(names.QUESTION, core_questions.Asked(request=request), workflow_id)
        self.meddle_with(question_id, asked)

    def meddle_with(self, question_id: str, asked: plans.Questioned | plans.Needed) -> None:
        """Answer what was just asked, withdraw it, and do to its workflow what an operator may."""
        workflow_id = names.question_workflow(question_id)
        for place, said in enumerate(asked.answers):
            self.spawn(self._answer(question_id, said, f"answer-{place}"))
        if asked.cancelled_after is not None:
            self.spawn(self._after(asked.cancelled_after, self._withdraw, workflow_id))
        if asked.reset_after is not None:
            keeps = {"keep_signals": asked.is_said_again}
            self.spawn(self._after(asked.reset_after, self.temporal.reset, workflow_id, **keeps))
        if asked.terminated_after is not None:
            self.spawn(self._after(asked.terminated_after, self.temporal.terminate, workflow_id))

    async def _after(self, seconds: float, do: Callable[..., Any], *what: Any, **more: Any) -> None:
        await asyncio.sleep(seconds)
        do(*what, **more)

    def _withdraw(self, workflow_id: str) -> None:
        self.temporal.signal(workflow_id, names.CANCEL, Withdrawal(reason="not needed"))

    async def _answer(self, question_id: str, said: plans.Answered, event_id: str) -> None:
        """What a person says, perhaps several times; it is received when it was sent first."""
        await asyncio.sleep(said.after)
        answer = Answer(
            question_id=question_id if said.flaw != "another run" else f"another-{question_id}",
            questions_sha256=_SHOWN if said.flaw != "wrong hash" else sha256("something else"),
            answers={"where": said.says if said.flaw != "no option" else "the moon"},
            actor=PEOPLE["you" if said.flaw == "outsider" else "me"],
            event_id=event_id,
            received_at=clock.now(),
            proof="feishu-token" if said.flaw == "unsigned" else "feishu-signature",
        )
        workflow_id = names.question_workflow(question_id)
        for time in range(said.times):
            opened = self.temporal.runs[workflow_id].instance._open
            is_shown = time == 0 and opened is not None and opened.ending is None
            if self.temporal.signal(workflow_id, names.ANSWER, answer):
                self.note(f"{question_id} is told {said.says} ({said.flaw or 'which can count'})")
                self.oracle.questions.hear(question_id, said, answer, is_shown=is_shown)
            await asyncio.sleep(self.latency())

    async def _decide(self, approval_id: str, kind: str, event: str = "first") -> None:
        """What a person does, as soon as there is something to see."""
        workflow_id = names.approval_workflow(approval_id)
        if kind == "cancel":
            self.temporal.signal(workflow_id, names.CANCEL, Withdrawal(reason="not needed"))
        if kind not in ("approve", "reject"):
            return
        plan = None
        while plan is None:
            run = self.temporal.runs.get(workflow_id)
            if run is None or not run.is_open:
                return
            plan = await self.transaction(self.ledger.plan, approval_id)
            await asyncio.sleep(1)
        decision = Decision(
            approval_id=approval_id,
            kind=DecisionKind(kind),
            payload_sha256=plan.payload_sha256,
            actor=PEOPLE[self.plan.asked[self.approvals.index(approval_id)].requester],
            event_id=f"{event}-{approval_id}",
            received_at=clock.now(),
        )
        self.note(f"{kind} {approval_id}")
        self.temporal.signal(workflow_id, names.DECIDE, decision)

    # Processes

    def _tools_worker(self, name: str, wrong_by: float) -> Process:
        process = Process(self, name, wrong_by)
        own = ToolActivities(process.ledger, self._registry)
        process.serve(own)
        process.own = own
        return process

    def _approvals_worker(self) -> Process:
        process = Process(self, "approvals")
        ledger, settings = process.ledger, self.settings
        planner = Planner(ledger, settings, PolicyInForce(ledger))
        own, reviews = ApprovalActivities(ledger, settings, planner), ReviewActivities(ledger, settings)
        weighing = WeighingActivities(ledger, planner, None)
        for each in (own, weighing, reviews, QuestionActivities(ledger, settings, None)):
            process.serve(each)
        pipes.served_by(self, process)
        return process

    async def _strike(self, fault: Fault) -> None:
        await asyncio.sleep(fault.at)
        self.note(f"FAULT {fault}")
        loop, place = asyncio.get_running_loop(), fault.whom % len(self._tools)
        worker, until = self._tools[place], loop.time() + fault.lasts
        approval_id = self.approvals[fault.whom % len(self.approvals)]
        workflow_id = names.approval_workflow(approval_id)
        match fault.blow:
            case Blow.KILL:
                worker.is_dead = True
                await asyncio.sleep(fault.lasts)
                self._tools[place] = self._tools_worker(worker.name, worker.wrong_by)
            case Blow.STOP:
                worker.stopped_until = until
            case Blow.SILENCE:
                worker.silent_until = until
            case Blow.CUT:
                worker.cut_until = until
            case Blow.DRAIN:
                await self._drain(place, worker)
            case Blow.APPROVALS:
                self.temporal.processes[names.APPROVALS_QUEUE][0].is_dead = True
                self.temporal.processes[names.APPROVALS_QUEUE][0] = self._approvals_worker()
            case Blow.TERMINATE:
                if self.temporal.terminate(workflow_id) is not None:
                    self.terminated.add(approval_id)
            case Blow.TERMINATE_REVIEW:
                for review in self._reviews:
                    self.temporal.terminate(review.id)
            case Blow.RESET:
                self.temporal.reset(workflow_id, keep_signals=True)
            case Blow.RESET_UNSAID:
                if self.temporal.reset(workflow_id, keep_signals=False):
                    await self._decide(approval_id, self.random.choice(("approve", "reject", "cancel")), "again")
            case Blow.RESET_REJECTED:
                if self.temporal.reset(workflow_id, keep_signals=False):
                    await self._decide(approval_id, "reject", "again")
            case Blow.CUT_APPROVALS:
                self.temporal.processes[names.APPROVALS_QUEUE][0].cut_until = until
                await asyncio.sleep(fault.lasts)
                self.note("the approvals worker reaches the ledger again")
            case Blow.PURGE:
                if self.temporal.purge(workflow_id):
                    number = self.approvals.index(approval_id)
                    request = self._request(number, self.plan.asked[number])
                    self.temporal.start(names.APPROVAL, Asked(request=request), workflow_id)
            case Blow.DENY:
                await self._put_policy(_DENIED.format(self.plan.tool))
            case Blow.ALLOW:
                await self._put_policy("")
            case Blow.CHANGE:
                await self._put_policy(_DENIED.format(f"another-{self.random.random()}"))

    async def _drain(self, place: int, worker: Process) -> None:
        """SIGTERM: it takes nothing new, sees through what it has, and leaves."""
        if worker.is_leaving or worker.is_dead:
            return
        worker.is_leaving = True
        self._tools.append(self._tools_worker(f"{worker.name}'", worker.wrong_by))
        loop = asyncio.get_running_loop()
        leave_by = loop.time() + plans.KINDS[self.plan.tool].timeout + 30
        assert isinstance(loop, VirtualLoop)
        with suppress(TimeoutError):
            await asyncio.wait_for(loop.until(lambda: not worker.at_work), leave_by - loop.time())
        await worker.own.drain(leave_by - loop.time())
        worker.is_dead = True
        self.note(f"{worker.name} has left")

    async def _put_policy(self, text: str) -> None:
        await self.transaction(self.ledger.put_policy, text, sha256(text), clock.now())
        self.is_denied = f'"{self.plan.tool}"' in text
        self.note(f"the policy {'denies' if self.is_denied else 'allows'} the tool")

    # Operators and the sweeper

    async def _operate(self) -> None:
        """Say of whatever is open what the plan has; and in the end, of all that is left, what is true."""
        said, loop = list(self.plan.said), asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        while True:
            await loop.until(lambda: bool(self._reviews))
            if said:
                await asyncio.sleep(said[0].after)
                for review in self._reviews[:1]:
                    await self._rule(review.id, said.pop(0).kind)
            elif loop.time() < _WELL:
                await asyncio.sleep(_WELL - loop.time())
            for review in self._reviews if loop.time() >= _WELL else ():
                await self._rule(review.id, "truth")
            await asyncio.sleep(5)

    @property
    def _reviews(self) -> list[Run]:
        return [run for run in self.temporal.runs.values() if run.kind == names.FROZEN_REVIEW and run.is_open]

    async def _rule(self, review: str, kind: str) -> None:
        run = self.temporal.runs.get(review)
        if run is None or not run.is_open:
            return
        frozen = run.instance._frozen
        if kind == "truth":
            kind = "executed" if self.outside.happened(frozen.call.idempotency_key) else "not_executed"
        ruling = Ruling(
            kind=RulingKind(kind),
            operator=OPERATOR,
            reason=f"I say {kind}",
            payload_hash=frozen.call.payload_sha256[:12],
            ruling_id=f"r{len(self.oracle.rulings)}",
            surface=Surface.CLIENT,
        )
        self.oracle.rulings[str(ruling.ruling_id)] = ruling
        said_at, by_hand = clock.now(), ruling
        if len(self.oracle.rulings) % 2:  # as an operator types it in Temporal's page: the update's id is its own
            by_hand = ruling.model_copy(update={"ruling_id": None})
        with suppress(ApplicationError, RPCError, TimeoutError):
            updating = self.temporal.update(review, names.SETTLE_REVIEW, by_hand, ruling.ruling_id)
            ruled = await asyncio.wait_for(updating, 300)
            self.oracle.ruled(frozen.call, ruling, ruled, said_at)

    async def _keep_sweeping(self, first: float) -> None:
        here, elsewhere = Process(self, "sweeper"), Process(self, "the sweeper of another namespace")
        stranger = cast("TemporalClient", Elsewhere(self))
        await asyncio.sleep(first)
        for turn in itertools.count():
            if turn % 4 == 0:
                with suppress(Exception):
                    await self._sweep(stranger, elsewhere)
            with suppress(Exception):
                await self._sweep(self.client, here)
            await asyncio.sleep(600 if not self._is_over else 1500)

    async def _sweep(self, client: TemporalClient, process: Process) -> None:
        await sweeping.sweep(client, process.ledger)
        await sweeping.end_gone(client, process.ledger)
        await sweeping.end_gone_questions(client, process.ledger)
        await process.ledger.seal()
        self.note(f"{process.name} has swept")
