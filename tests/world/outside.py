"""What tools change: the truth, which nobody in the service can see but through them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from assent import ProbeAnswer, ProbeResult, ToolContext, ToolOutcome, ToolResult
from assent.tools.definition import Registry, tool
from tests.world.plans import End, Kind, Look, Script
from tests.world.processes import begun, present

if TYPE_CHECKING:
    from tests.world.history import History


@dataclass(frozen=True)
class Execution:
    """One time that a body ran."""

    number: int
    key: str
    approval_id: str
    consent: str
    began_at: float
    """The true time at which the ledger let it run."""


@dataclass(frozen=True)
class Effect:
    execution: Execution
    at: float


class Outside:
    """The system that tools change."""

    def __init__(self, history: History, kind: Kind, scripts: tuple[Script, ...], looks: tuple[Look, ...]) -> None:
        self._history, self._kind = history, kind
        self._scripts, self._looks = list(scripts), list(looks)
        self.effects: list[Effect] = []
        self.executions: list[Execution] = []

    def happened(self, key: str) -> bool:
        return any(effect.execution.key == key for effect in self.effects)

    def registry(self) -> Registry:
        """The tool, and its probe, as a worker offers them."""
        offered, kind = Registry(), self._kind

        async def body(x: int, ctx: ToolContext) -> Any:
            """Change something."""
            return await self._body(ctx)

        async def probe(ctx: ToolContext, x: int) -> Any:
            return await self._probe(ctx)

        tool(
            name=kind.name,
            retry_safe=kind.retry_safe,
            attempts=2,
            timeout=timedelta(seconds=kind.timeout),
            probe=probe if kind.has_probe else None,
            in_flight=timedelta(seconds=kind.in_flight) if kind.in_flight is not None else None,
            registry=offered,
        )(body)
        return offered

    async def _body(self, ctx: ToolContext) -> Any:
        allowed = begun.get()
        assert allowed is not None, "nothing runs without a right to"
        script = self._scripts.pop(0) if self._scripts else Script(0.5, 0.2)
        execution = Execution(len(self.executions), ctx.idempotency_key, ctx.approval_id, *allowed)
        self.executions.append(execution)
        self._history.note(f"body {execution.number} of {execution.consent} begins: {script}")
        working = asyncio.ensure_future(self._watched(execution, script))
        if self._kind.stoppable:
            return await working
        while not working.done():  # a thread: it cannot be stopped, only outwaited
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                if self._history.is_closed:
                    raise
            except Exception:
                break
        return working.result()

    async def _watched(self, execution: Execution, script: Script) -> Any:
        said = "is stopped"
        try:
            value = await self._work(execution, script)
            said = "says that it failed" if isinstance(value, ToolResult) else "says that it is done"
            return value
        except ConnectionError:
            said = "raises"
            raise
        finally:
            if not self._history.is_closed:
                self._history.note(f"body {execution.number} of {execution.consent} {said}")

    async def _work(self, execution: Execution, script: Script) -> Any:
        process = present.get()
        assert process is not None
        took_effect = on_its_way = False
        if script.effect_at is not None and script.effect_at <= script.lasts:
            await process.sleep(script.effect_at)
            took_effect = self._take_effect(execution)
            await process.sleep(script.lasts - script.effect_at)
        else:
            await process.sleep(script.lasts)
            if script.effect_at is not None:
                on_its_way = True
                self._history.spawn(self._arrive(execution, script.effect_at - script.lasts))
        if script.end is End.NEVER:
            await process.sleep(10**7)
        if script.end is End.RAISES or (on_its_way and script.end is End.TRUTH):
            raise ConnectionError("the line is dead")
        knows_better = self._kind.retry_safe and script.end is not End.FAILS
        if took_effect or (knows_better and self.happened(execution.key)):
            return {"done": execution.key, "more": "x" * script.weighs}
        return ToolResult(ToolOutcome.FAILED, "refused")

    async def _arrive(self, execution: Execution, after: float) -> None:
        await asyncio.sleep(after)
        self._take_effect(execution)

    def _take_effect(self, execution: Execution) -> bool:
        """Whether it changes anything: not what comes too late by its own account, nor the same key twice."""
        moment = asyncio.get_running_loop().time()
        if self._kind.in_flight is not None and moment > execution.began_at + self._kind.in_flight:
            return False
        if self._kind.retry_safe and self.happened(execution.key):
            return True
        self.effects.append(Effect(execution, moment))
        self._history.note(f"EFFECT of body {execution.number}")
        self._history.oracle.took_effect(execution)
        return True

    async def _probe(self, ctx: ToolContext) -> Any:
        process = present.get()
        assert process is not None
        look = self._looks.pop(0) if self._looks else Look()
        await process.sleep(look.looks_after)
        seen = self.happened(ctx.idempotency_key)
        sees = f"{process.name}, {process.wrong_by:+.0f} s, sees {'the effect' if seen else 'nothing'}"
        self._history.note(f"a probe of {sees}: {look}")
        await process.sleep(look.answers_after)
        self._history.note(f"a probe of {process.name} answers what it saw: {look.answer}")
        if look.answer == "raises":
            raise ConnectionError("the probe is dead")
        if look.answer == "unknown":
            return ProbeAnswer.UNKNOWN
        return ProbeResult(ProbeAnswer.EXECUTED, "found") if seen else ProbeAnswer.NOT_EXECUTED
