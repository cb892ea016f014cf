"""The service's own tools in an agent's loop: they run in the service, at most once, and not in the loop."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from assent.client.client import Assent
from assent.client.door import ToolDescription
from assent.contracts.identity import Identity
from assent.contracts.outcome import Outcome
from assent.contracts.request import MAX_TTL
from assent.errors import InvalidTool, Unavailable
from assent.hitl.durable import DurableIds
from assent.hitl.messages import LoopCall
from assent.hitl.requests import HitlKind, HitlRequest
from assent.hitl.running import running_tool
from assent.hitl.tools import LoopTool
from assent.names import AGENT_CALL

if TYPE_CHECKING:
    from assent.hitl.agent import Agent


class ServiceTool(LoopTool):
    """A tool that the service runs, with the service's consent and the service's promises."""

    def __init__(self, gate: Assent, described: ToolDescription, requester: Identity, **asked: Any) -> None:
        self.name = described.name
        self.description = described.description
        self.parameters = described.parameters
        self._gate = gate
        self._requester = requester
        self._asked = asked

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """As they are: the service checks them."""
        return arguments

    async def run(self, agent: Agent, call: LoopCall, arguments: dict[str, Any]) -> Any:
        """Ask for the call and wait for its outcome; asked again, in whatever process, it is the same call."""
        body = running_tool.get()
        call_id = body.tool_call_id if body else call.id
        handle = await self._gate.request(
            self.name,
            arguments,
            requester=self._requester,
            approval_id=await DurableIds(self._gate, agent.thread_id, self._requester).of(call_id),
            tool_call_id=call_id,
            thread_id=agent.thread_id,
            **self._asked,
        )
        request = HitlRequest(
            question_id=call_id,
            kind=HitlKind.APPROVE,
            thread_id=agent.thread_id,
            payload={"tool_name": self.name, "tool_call_id": call_id, "args": arguments, "details": None},
            created_at=datetime.now(UTC),
            deadline=await _deadline(handle),
        )
        outcome: Outcome = await agent.wait_outside(request, handle.outcome())
        if outcome.is_error:
            raise NotDone(outcome)
        return outcome.content


class NotDone(Exception):
    """The service did not run a call to its end; its words say what became of it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(str(outcome.content))
        self.outcome = outcome

    def __str__(self) -> str:
        return f"{self.outcome.status}: {self.outcome.content}"


async def service_tools(gate: Assent, *names: str, requester: Identity, **asked: Any) -> list[ServiceTool]:
    """The service's tools for an agent's loop: those named, or all that may be asked for.

    asked: what `gate.request` takes besides, such as `chat_id`.
    """
    known = {tool.name: tool for tool in await gate.tools() if tool.name != AGENT_CALL}
    if missing := [name for name in names if name not in known]:
        raise InvalidTool(f"the service has no tool named {missing[0]!r} that may be asked for")
    return [ServiceTool(gate, known[name], requester, **asked) for name in (names or known)]


async def _deadline(handle: Any) -> datetime:
    try:
        return (await handle.state()).deadline or datetime.now(UTC) + MAX_TTL
    except Unavailable:
        return datetime.now(UTC) + MAX_TTL
