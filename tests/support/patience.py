"""How long the tests wait for what has to come: as long as a busy machine may need, not as long as people would.

The product gives up after seconds, says so, and may be asked again. The test processes share two cores with whatever
else runs there: an answer that comes late is no fault. What a limit does once it has passed is tested with short ones.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.worker._workflow import _WorkflowWorker

from assent.api import door as remote
from assent.client import handle, question
from assent.errors import Unavailable
from assent.temporal import door as temporal_door
from assent.temporal import questions as temporal_questions
from assent.temporal import reviews as temporal_reviews
from assent.temporal import talking
from workers import api_context as desk
from workers import approvals_api, interactions, private_messages, questions_api
from workflows import bundle

PATIENCE = timedelta(minutes=2)
"""How long a verdict is waited for where there has to be one."""

_WORKFLOWS_MAY_TAKE = 20
"""Seconds in which a workflow must yield. Ten test processes share two cores: a thread may wait two for its turn."""

_TOO_BUSY = ("before a worker could process it", "query buffer is full")
"""What Temporal says of a question that nobody had time for."""


def be_patient() -> None:
    """In this process; those that it starts keep the limits that they have in production."""
    door, over_http = temporal_door.TemporalDoor, remote.HttpDoor
    door.state.__defaults__ = talking.Talking.recall.__defaults__ = (PATIENCE,)
    temporal_questions.TemporalQuestions.state.__defaults__ = (PATIENCE,)
    temporal_questions.TemporalQuestions._open_state.__defaults__ = (PATIENCE,)
    handle.ApprovalHandle.submit.__kwdefaults__ = {"answer_within": PATIENCE}
    question.QuestionHandle.submit.__kwdefaults__ = {"answer_within": PATIENCE}
    over_http._insist.__kwdefaults__ = {"patience": PATIENCE.total_seconds()}
    for module, limit in (
        (temporal_door, "_OPEN_WITHIN"),
        (temporal_reviews, "_RULED_WITHIN"),
        (questions_api, "STATE_WITHIN"),
        (questions_api, "_ANSWER_WITHIN"),
        (questions_api, "_TAKEN_WITHIN"),
        (desk, "STATE_WITHIN"),
        (approvals_api, "STATE_WITHIN"),
        (approvals_api, "_ANSWER_WITHIN"),
        (approvals_api, "_TAKEN_WITHIN"),
        (interactions, "_ON_RECORD_WITHIN"),
        (private_messages, "_HEARD_WITHIN"),
        (bundle, "GATHERING"),
        (bundle, "SOON"),
    ):
        assert isinstance(getattr(module, limit), timedelta), limit
        setattr(module, limit, PATIENCE)
    approvals_api._SETTLED_WITHIN = PATIENCE.total_seconds()
    _ask_again()
    _let_workflows_take_their_time()


def _ask_again() -> None:
    """Ten test processes ask one server, which gives up on a question after ten seconds, and keeps few in store."""
    asked = talking.Talking.ask

    async def again(self: talking.Talking, *given: Any, **more: Any) -> Any:
        for _ in range(5):
            try:
                return await asked(self, *given, **more)
            except Unavailable as error:
                if not any(reason in str(error.__cause__) for reason in _TOO_BUSY):
                    raise
        return await asked(self, *given, **more)

    talking.Talking.ask = again  # type: ignore[method-assign]


def _let_workflows_take_their_time() -> None:
    made = _WorkflowWorker.__init__

    def patient(self: _WorkflowWorker, **given: Any) -> None:
        made(self, **given)
        assert self._deadlock_timeout_seconds == 2, "Temporal's SDK changed: look here again"
        self._deadlock_timeout_seconds = _WORKFLOWS_MAY_TAKE

    _WorkflowWorker.__init__ = patient  # type: ignore[method-assign]
