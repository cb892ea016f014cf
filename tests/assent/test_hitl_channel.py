"""The channel for agent loops: one open request, one answer, and nothing taken that was not offered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from assent.errors import ApprovalConflict, AssentError, InvalidRequest
from assent.hitl import (
    ApproveAnswer,
    HitlAborted,
    HitlAnswerEvent,
    HitlCancelled,
    HitlChannel,
    HitlConcurrencyError,
    HitlControlException,
    HitlDetached,
    HitlDurabilityNotGuaranteed,
    HitlEvent,
    HitlNoPendingRequest,
    HitlRequestEvent,
    HitlStaleAnswer,
    HitlTimedOut,
    LocalChannel,
    Question,
)
from assent.hitl.testing import NoopChannel, ScriptedChannel, ScriptExhausted
from tests.support.agents import opened

COLOUR = {
    "id": "colour",
    "prompt": "Which?",
    "kind": "choice",
    "options": [{"value": "red"}, {"value": "blue"}],
}


@pytest.mark.parametrize("control", [HitlCancelled("no"), HitlTimedOut(3), HitlDetached(), HitlAborted("no")])
def test_no_except_exception_swallows_a_control_exception(control: HitlControlException) -> None:
    assert isinstance(control, HitlControlException)
    assert not isinstance(control, Exception)


@pytest.mark.parametrize(
    "error", [HitlConcurrencyError, HitlStaleAnswer, HitlNoPendingRequest, HitlDurabilityNotGuaranteed]
)
def test_errors_are_errors_of_assent(error: type[Exception]) -> None:
    assert issubclass(error, AssentError)


# One request, one answer


async def test_an_approval_is_answered_by_its_call_id() -> None:
    channel: HitlChannel = LocalChannel("t-1")
    assert isinstance(channel, LocalChannel)
    approving = asyncio.create_task(channel.approve("bash", "call-1", {"cmd": "ls"}, details={"why": "look"}))
    request = await opened(channel)
    assert (request.question_id, request.kind, request.thread_id) == ("call-1", "approve", "t-1")
    assert request.payload == {
        "tool_name": "bash",
        "tool_call_id": "call-1",
        "args": {"cmd": "ls"},
        "details": {"why": "look"},
    }
    await channel.answer("call-1", ApproveAnswer(decision="edit", edited_args={"cmd": "ls -l"}, reason="longer"))
    answer = await approving
    assert (answer.decision, answer.edited_args, answer.reason) == ("edit", {"cmd": "ls -l"}, "longer")
    assert channel.in_flight is None


async def test_what_was_asked_does_not_change_with_the_object_it_was_asked_with() -> None:
    channel, arguments = LocalChannel(), {"cmd": "ls"}
    approving = asyncio.create_task(channel.approve("bash", "call-1", arguments))
    request = await opened(channel)
    arguments["cmd"] = "rm"
    assert request.payload["args"] == {"cmd": "ls"}
    await channel.answer("call-1", "deny")
    assert (await approving).decision == "deny"


async def test_a_second_request_is_refused_while_one_is_open() -> None:
    channel = LocalChannel()
    confirming = asyncio.create_task(channel.confirm("Sure?"))
    request = await opened(channel)
    with pytest.raises(HitlConcurrencyError, match=request.question_id):
        await channel.approve("bash", "call-1", {})
    await channel.answer(request.question_id, True)
    assert await confirming is True


async def test_answers_to_another_request_or_to_none_change_nothing() -> None:
    channel = LocalChannel()
    with pytest.raises(HitlNoPendingRequest):
        await channel.answer("call-1", "approve")
    approving = asyncio.create_task(channel.approve("bash", "call-1", {}))
    await opened(channel)
    with pytest.raises(HitlStaleAnswer):
        await channel.answer("call-0", "approve")
    await channel.answer("call-1", "deny")
    with pytest.raises(HitlNoPendingRequest):
        await channel.answer("call-1", "approve")
    assert (await approving).decision == "deny"


@pytest.mark.parametrize(
    ("ask", "wrong", "right"),
    [
        (lambda c: c.approve("bash", "q", {}), ApproveAnswer(decision="edit"), "approve"),
        (lambda c: c.approve("bash", "q", {}), {"decision": "approve", "edited_args": {}}, "approve"),
        (lambda c: c.approve("bash", "q", {}), "perhaps", "approve"),
        (lambda c: c.approve("bash", "q", {}), {"decision": "edit", "edited_args": {"n": 2**60}}, "approve"),
        (lambda c: c.confirm("Sure?"), "yes", False),
        (lambda c: c.ask([COLOUR]), {"colour": "green"}, {"colour": "red"}),
        (lambda c: c.ask([COLOUR]), {"colour": ["red", "blue"]}, {"colour": "red"}),
        (lambda c: c.ask([COLOUR]), {}, {"colour": "red"}),
        (lambda c: c.ask([COLOUR]), {"colour": "red", "size": "big"}, {"colour": "red"}),
    ],
)
async def test_an_answer_that_was_not_offered_is_refused_and_the_request_stays_open(
    ask: Callable[[LocalChannel], Any], wrong: Any, right: Any
) -> None:
    channel = LocalChannel()
    asking = asyncio.ensure_future(ask(channel))
    request = await opened(channel)
    with pytest.raises(InvalidRequest):
        await channel.answer(request.question_id, wrong)
    await channel.answer(request.question_id, right)
    assert await asking == (ApproveAnswer(decision=right) if request.kind == "approve" else right)


async def test_several_questions_are_answered_together() -> None:
    channel = LocalChannel()
    sizes = {**COLOUR, "id": "sizes", "multi_select": True, "allow_input": True, "required": False}
    name = Question(id="name", prompt="What is it called?", kind="text")
    asking = asyncio.create_task(channel.ask([sizes, name]))
    request = await opened(channel)
    await channel.answer(request.question_id, {"sizes": ["blue", "mine"], "name": "it"})
    assert await asking == {"sizes": ["blue", "mine"], "name": "it"}
    with pytest.raises(InvalidRequest):
        await channel.ask([])


# Endings without an answer


async def test_whoever_waits_is_told_why_it_was_cancelled() -> None:
    channel = LocalChannel()
    approving = asyncio.create_task(channel.approve("bash", "call-1", {}))
    await opened(channel)
    await channel.cancel("call-1", "the tab was closed")
    with pytest.raises(HitlCancelled) as ended:
        await approving
    assert ended.value.reason == "the tab was closed"


async def test_each_call_may_have_a_time_of_its_own() -> None:
    channel = LocalChannel(default_timeout=0.01)
    with pytest.raises(HitlTimedOut) as ended:
        await channel.confirm("Sure?")
    assert ended.value.seconds == 0.01
    confirming = asyncio.create_task(channel.confirm("Sure?", timeout=None))
    request = await opened(channel)
    assert (request.deadline - request.created_at).days == 365
    await channel.answer(request.question_id, True)
    assert await confirming is True


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), True, "1", 400 * 86400])
async def test_a_time_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidRequest):
        await LocalChannel().confirm("Sure?", timeout=timeout)


async def test_time_runs_on_after_a_detach() -> None:
    channel = LocalChannel()
    approving = asyncio.create_task(channel.approve("bash", "call-1", {}, timeout=2))
    request = await opened(channel)
    channel.interrupt(HitlDetached())
    with pytest.raises(HitlDetached):
        await approving
    assert await channel.load_pending() == request
    with pytest.raises(HitlTimedOut):
        await channel.approve("bash", "call-1", {}, timeout=60)
    with pytest.raises(HitlNoPendingRequest):
        await channel.answer("call-1", "approve")


async def test_an_answer_after_a_detach_is_there_for_who_asks_again() -> None:
    channel = LocalChannel()
    approving = asyncio.create_task(channel.approve("bash", "call-1", {"cmd": "ls"}))
    await opened(channel)
    channel.interrupt(HitlDetached())
    with pytest.raises(HitlDetached):
        await approving
    with pytest.raises(HitlConcurrencyError):
        await channel.approve("bash", "call-2", {})
    await channel.answer("call-1", "approve")
    with pytest.raises(ApprovalConflict):
        await channel.approve("bash", "call-1", {"cmd": "rm"})
    assert (await channel.approve("bash", "call-1", {"cmd": "ls"})).decision == "approve"


async def test_a_task_that_is_cancelled_leaves_the_request_open() -> None:
    channel, heard = LocalChannel(), list[HitlEvent]()
    channel.subscribe(heard.append)
    approving = asyncio.create_task(channel.approve("bash", "call-1", {}))
    request = await opened(channel)
    approving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await approving
    assert await channel.load_pending() == request
    assert heard == [HitlRequestEvent(request=request)]


async def test_events_tell_what_was_asked_and_how_it_ended() -> None:
    channel, heard = LocalChannel(), list[HitlEvent]()
    stop = channel.subscribe(heard.append)
    for cancels in (False, True):
        confirming = asyncio.create_task(channel.confirm("Sure?"))
        asked = (await opened(channel)).question_id
        await (channel.cancel(asked) if cancels else channel.answer(asked, False))
        await asyncio.wait({confirming})
        assert confirming.exception() is None or isinstance(confirming.exception(), HitlCancelled)
    with pytest.raises(HitlTimedOut):
        await channel.confirm("Sure?", timeout=0.01)
    stop()
    answers = [each for each in heard if isinstance(each, HitlAnswerEvent)]
    assert [(each.answer, each.cancelled, each.timed_out) for each in answers] == [
        (False, False, False),
        (None, True, False),
        (None, False, True),
    ]
    assert [each.request.question_id for each in heard if isinstance(each, HitlRequestEvent)] == [
        each.question_id for each in answers
    ]


# For tests


async def test_a_scripted_channel_answers_in_order_and_keeps_what_was_asked() -> None:
    channel = ScriptedChannel(
        answers=[
            ApproveAnswer(decision="deny", reason="no"),
            {"colour": "red"},
            lambda request: request.payload["prompt"] == "Sure?",
            HitlTimedOut(5),
        ]
    )
    assert (await channel.approve("bash", "call-1", {})).reason == "no"
    assert await channel.ask([COLOUR]) == {"colour": "red"}
    assert await channel.confirm("Sure?") is True
    with pytest.raises(HitlTimedOut):
        await channel.confirm("Sure?")
    with pytest.raises(ScriptExhausted):
        await channel.confirm("Sure?")
    assert [request.kind for request in channel.history] == ["approve", "ask", "confirm", "confirm", "confirm"]


async def test_a_script_cannot_answer_what_nobody_could() -> None:
    with pytest.raises(InvalidRequest):
        await ScriptedChannel(answers=[{"colour": "green"}]).ask([COLOUR])


async def test_a_noop_channel_agrees_to_everything() -> None:
    channel = NoopChannel()
    assert (await channel.approve("bash", "call-1", {})).decision == "approve"
    assert await channel.confirm("Sure?") is True
    assert await channel.ask([COLOUR, {"id": "name", "prompt": "Name?", "kind": "text"}]) == {
        "colour": "red",
        "name": "",
    }


# Spans


class _Span:
    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: dict[str, Any] = {}

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[_Span]:
    from opentelemetry import trace

    found: list[_Span] = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str, **options: bool) -> Iterator[_Span]:
            assert options == {"record_exception": False, "set_status_on_exception": False}
            found.append(_Span(name))
            yield found[-1]

    monkeypatch.setattr(trace, "get_tracer", lambda name: Tracer())
    return found


async def test_every_wait_is_a_span_with_its_outcome_and_none_of_its_words(spans: list[_Span]) -> None:
    edit = ApproveAnswer(decision="edit", edited_args={"cmd": "secret"})
    script = ["approve", "deny", edit, HitlCancelled("secret"), HitlTimedOut(1), HitlAborted("secret"), HitlDetached()]
    channel = ScriptedChannel(answers=[*script, True, {"colour": "red"}])
    for number in range(len(script)):
        await asyncio.wait({asyncio.ensure_future(channel.approve("bash", f"call-{number}", {"cmd": "secret"}))})
    await channel.confirm("secret")
    await channel.ask([COLOUR])
    outcomes = [span.attributes["hitl.outcome"] for span in spans]
    assert outcomes == [
        *("approved", "denied", "edited", "cancelled", "timed_out", "aborted", "detached"),
        *("answered", "answered"),
    ]
    assert [span.name for span in spans] == ["hitl.approve"] * 7 + ["hitl.confirm", "hitl.ask"]
    assert spans[0].attributes.keys() == {
        *("hitl.tool_name", "hitl.tool_call_id", "hitl.outcome", "hitl.from_resume", "hitl.duration_seconds"),
    }
    assert spans[-1].attributes.keys() == {"hitl.question_id", "hitl.outcome", "hitl.duration_seconds"}
    assert "secret" not in str([span.attributes for span in spans])


async def test_a_span_tells_whether_the_wait_goes_on_after_a_detach(spans: list[_Span]) -> None:
    channel = LocalChannel()
    approving = asyncio.create_task(channel.approve("bash", "call-1", {}))
    await opened(channel)
    approving.cancel()
    await asyncio.wait({approving})
    await channel.answer("call-1", "approve")
    await channel.approve("bash", "call-1", {})
    told = [(span.attributes["hitl.outcome"], span.attributes["hitl.from_resume"]) for span in spans]
    assert told == [("detached", False), ("approved", True)]
