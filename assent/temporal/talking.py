"""Talking to workflows: signals that count once, questions with a deadline, and what the ledger recalls."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from assent import names
from assent.contracts.answers import AnswerVerdict
from assent.contracts.decision import Verdict, VerdictKind
from assent.contracts.recall import Recall, Recalled
from assent.contracts.signals import VerdictQuestion
from assent.errors import Unavailable
from assent.safe import markdown_start
from assent.temporal.connection import NO_SERVER, ended_as, no_answer, unavailable

RECALL_WITHIN = timedelta(seconds=15)
_SUMMARY_BYTES = 380
"""A little less than Temporal takes of a summary."""
_Answer = TypeVar("_Answer", bound=BaseModel)
_Verdict = TypeVar("_Verdict", Verdict, AnswerVerdict)


class NotThere(Exception):
    """Temporal knows no such workflow."""


class Interrupted(Exception):
    """The workflow was ended from outside."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Talking:
    """Talks to workflows through a Temporal client, by their ids."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def signal(self, workflow_id: str, name: str, message: BaseModel, request_id: str, within: timedelta) -> bool:
        """Signal durably and once per request id; False if the workflow has ended or is not known."""
        client = self.client
        payloads = await client.data_converter.encode([message])
        request = SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=ExecutionName(workflow_id=workflow_id),
            signal_name=name,
            request_id=request_id,
            identity=client.identity,
        )
        request.input.payloads.extend(payloads)
        try:
            async with bounded(within):
                await client.workflow_service.signal_workflow_execution(request, retry=True, timeout=within)
        except TimeoutError as error:
            raise no_answer() from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise unavailable(error) from error
        return True

    async def ask(
        self, workflow_id: str, query: str, question: BaseModel | None, answer: type[_Answer], within: timedelta
    ) -> _Answer:
        """Query a workflow. Raises NotThere, Interrupted, or Unavailable."""
        try:
            async with bounded(within):
                found: _Answer = await self.client.get_workflow_handle(workflow_id).query(
                    query,
                    args=[] if question is None else [question],
                    result_type=answer,
                    rpc_timeout=within,
                    reject_condition=QueryRejectCondition.NOT_COMPLETED_CLEANLY,
                )
            return found
        except TimeoutError as error:
            raise no_answer() from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NotThere from error
            raise unavailable(error) from error
        except WorkflowQueryRejectedError as error:
            raise Interrupted(ended_as(error.status)) from error
        except WorkflowQueryFailedError as error:
            raise Unavailable(f"the workflow could not answer: {error}") from error

    async def submit(
        self,
        workflow_id: str,
        name: str,
        message: BaseModel,
        asked: VerdictQuestion,
        verdict: type[_Verdict],
        late: Callable[[timedelta], Awaitable[_Verdict | None]],
        answer_within: timedelta,
    ) -> _Verdict:
        """Hand over what a person said, durably, and learn what became of it.

        late: the verdict where the workflow is not open; None if it just opened.
        """
        clock = asyncio.get_running_loop().time
        give_up = clock() + answer_within.total_seconds()

        def left() -> timedelta:
            return timedelta(seconds=max(give_up - clock(), 0.001))

        while not await self.signal(workflow_id, name, message, asked.event_id, left()):
            if (found := await late(left())) is not None:
                return found
        pause = 0.05
        while clock() < give_up:
            try:
                found = await self.ask(workflow_id, names.VERDICT, asked, verdict, left())
            except (NotThere, Interrupted):
                break
            except Unavailable:  # the server buffers few queries at a time: many clickers take turns
                await asyncio.sleep(0.05)
                continue
            if found.kind is not VerdictKind.RECEIVED:
                return found
            await asyncio.sleep(min(pause, left().total_seconds()))  # it waits for its card, or for an answer
            pause = min(pause * 2, 2)
        return verdict(kind=VerdictKind.RECEIVED)

    async def result(self, workflow: WorkflowHandle[object, _Answer]) -> _Answer:
        """What a workflow ends with, however long that takes and whatever is restarted meanwhile.

        Raises NotThere; WorkflowFailureError where it failed or was ended from outside.
        """
        while True:
            try:
                return await workflow.result()
            except WorkflowFailureError as error:
                if not await self._goes_on(workflow, error):
                    raise
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    raise NotThere from error
                if error.status not in NO_SERVER:
                    raise unavailable(error) from error
            await asyncio.sleep(1)

    async def _goes_on(self, workflow: WorkflowHandle[object, _Answer], error: WorkflowFailureError) -> bool:
        """Whether what was terminated was only a run that an operator reset."""
        if not isinstance(error.cause, TerminatedError):
            return False
        try:
            status = (await workflow.describe()).status
        except RPCError as failure:
            raise unavailable(failure) from failure
        return status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)

    async def recall(self, question: Recall, within: timedelta = RECALL_WITHIN) -> Recalled:
        """Ask the ledger, through a worker that reaches it."""
        try:
            async with bounded(within):
                recalled: Recalled = await self.client.execute_workflow(
                    names.RECALL,
                    question,
                    id=f"recall/{uuid.uuid4()}",
                    task_queue=names.APPROVALS_QUEUE,
                    result_type=Recalled,
                    execution_timeout=within,
                )
            return recalled
        except (WorkflowFailureError, RPCError, TimeoutError) as error:
            raise Unavailable("no approvals worker could ask the ledger; start one and try again") from error


def bounded(within: timedelta) -> asyncio.Timeout:
    """A bound that holds even where Temporal's own deadline does not; that one says more, so it goes first."""
    return asyncio.timeout(within.total_seconds() + 0.1)


def summary(text: str) -> str:
    """A line in Temporal's lists, which show it as Markdown."""
    return markdown_start(text, _SUMMARY_BYTES)
