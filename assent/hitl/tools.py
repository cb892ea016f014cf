"""What an agent's loop can call: functions of its own, people, and agents within it."""

from __future__ import annotations

import asyncio
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from assent.client.door import invalid
from assent.contracts.questions import Questions
from assent.errors import InvalidRequest, InvalidTool
from assent.hitl.messages import LoopCall
from assent.tools.definition import Tool

if TYPE_CHECKING:
    from assent.hitl.agent import Agent, Model


class LoopTool(ABC):
    """Something that an agent's loop can call."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of its arguments."""
    is_approved_first: bool = False
    """Whether a person is asked before it runs."""
    begins_anew: bool = False
    """Whether its body would begin anew if its process died while it waits for a person."""
    is_repeatable: bool = True
    """Whether it may run again where nobody knows whether it took effect."""

    @property
    def described(self) -> dict[str, Any]:
        """What the model is told of it."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    @abstractmethod
    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, checked. Raises InvalidRequest."""

    @abstractmethod
    async def run(self, agent: Agent, call: LoopCall, arguments: dict[str, Any]) -> Any:
        """Make the call."""


class AgentTool(LoopTool):
    """A function of the agent's own, which its loop runs after a person has approved the call.

    approve: False for what nobody needs to be asked about.
    retry_safe: running it again is harmless; without it, a call whose process died is not repeated.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        approve: bool = True,
        retry_safe: bool = False,
    ) -> None:
        self.function = function
        self.name = str(name or getattr(function, "__name__", ""))
        self.description = description if description is not None else inspect.getdoc(function) or ""
        self.is_approved_first = approve
        self.begins_anew = True
        self.is_repeatable = retry_safe
        self._names, self._model = _arguments_model(function, self.name)
        self.parameters = self._model.model_json_schema()

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The function's arguments, strictly from JSON."""
        try:
            parsed = self._model.model_validate_json(json.dumps(arguments), strict=True)
        except ValidationError as error:
            raise invalid(error) from None
        given = {name: getattr(parsed, f"p{place}") for place, name in enumerate(self._names)}
        return {**given, **(parsed.model_extra or {})}

    async def run(self, agent: Agent, call: LoopCall, arguments: dict[str, Any]) -> Any:
        """Call the function, in a thread if it is none of asyncio's."""
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**arguments)
        value = await asyncio.to_thread(self.function, **arguments)
        return await value if inspect.isawaitable(value) else value


class _AskUser(LoopTool):
    """The model asks a person."""

    name = "ask_user"
    description = "Ask the user for a yes or no, a choice among options, or a text, where you cannot go on without it."

    class _Arguments(BaseModel):
        model_config = ConfigDict(extra="forbid")

        questions: Questions

    parameters = _Arguments.model_json_schema()

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"questions": self._Arguments.model_validate(arguments).questions}
        except ValidationError as error:
            raise invalid(error) from None

    async def run(self, agent: Agent, call: LoopCall, arguments: dict[str, Any]) -> Any:
        if agent.channel is None:
            raise InvalidRequest("nobody can be asked: the agent has no channel")
        return dict(await agent.channel.ask(arguments["questions"]))


ask_user = _AskUser()
"""A tool with which the model asks a person; what it asks survives the process."""


class Subagent(LoopTool):
    """An agent within an agent: it has the outer one's channel, and a thread of its own under the outer one's.

    The model gives it a task and gets its last message. What its tools need consent for is asked for as ever.
    """

    def __init__(
        self,
        name: str,
        description: str,
        model: Model,
        tools: Sequence[LoopTool | Callable[..., Any]] = (),
    ) -> None:
        self.name = name
        self.description = description
        self.parameters = {
            "type": "object",
            "properties": {"task": {"type": "string"}},
            "required": ["task"],
            "additionalProperties": False,
        }
        self._model = model
        self._tools = loop_tools(tools)

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(arguments.get("task"), str) or len(arguments) != 1:
            raise InvalidRequest("task: say what is to be done, and nothing else")
        return arguments

    async def run(self, agent: Agent, call: LoopCall, arguments: dict[str, Any]) -> Any:
        from assent.hitl.agent import Agent

        thread = f"{agent.thread_id}/{call.id}" if agent.thread_id is not None else None
        within = Agent(self._model, self._tools, thread_id=thread, checkpointer=agent.checkpointer)
        return await within.carry_out(arguments["task"])


def loop_tools(tools: Sequence[LoopTool | Callable[..., Any]]) -> tuple[LoopTool, ...]:
    """Tools, where a plain function stands for one that needs a person's consent."""
    found = tuple(_loop_tool(each) for each in tools)
    names = [each.name for each in found]
    if repeated := next((name for name in names if not name or names.count(name) > 1), None):
        raise InvalidTool(f"tool {repeated!r}: each tool of an agent has a name of its own")
    return found


def _loop_tool(tool: LoopTool | Callable[..., Any]) -> LoopTool:
    if isinstance(tool, Tool):
        raise InvalidTool(
            f"tool {tool.name!r} runs in the service, which promises at most once, and not in a loop: "
            "take it from service_tools(gate, …)"
        )
    return tool if isinstance(tool, LoopTool) else AgentTool(tool)


def _arguments_model(function: Callable[..., Any], name: str) -> tuple[list[str], type[BaseModel]]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise InvalidTool(f"tool {name!r}: an annotation cannot be resolved: {error}") from None
    names, fields, extra = list[str](), dict[str, Any](), "forbid"
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidTool(f"tool {name!r}: parameter {parameter} cannot be passed by name")
        default = ... if parameter.default is parameter.empty else parameter.default
        # Numbered and aliased, so that no parameter's name can collide with a model's attribute.
        fields[f"p{len(names)}"] = (
            Annotated[hints.get(parameter.name, Any), Field(alias=parameter.name)],
            default,
        )
        names.append(parameter.name)
    config = ConfigDict(extra=extra, strict=True, arbitrary_types_allowed=True)  # type: ignore[typeddict-item]
    return names, create_model("Arguments", __config__=config, **fields)


def describe_tools(tools: Mapping[str, LoopTool]) -> list[dict[str, Any]]:
    """What the model is told of the tools it has."""
    return [tool.described for tool in tools.values()]
