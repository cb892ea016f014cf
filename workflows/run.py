"""How far a run is, in the conversation that it belongs to."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent import names
    from assent.contracts.runs import RunNews, RunShowing, RunStart
    from assent.steps import SHOW_RUN
    from workflows.reading import read
    from workflows.steps import OUTBOUND, take

_PACE = timedelta(seconds=2)
"""How long a message stands before it is changed again."""
_SHOWN_WITHIN = timedelta(hours=1)


@workflow.defn(name=names.RUN)
class RunWorkflow:
    """Keeps one message at what a run said last."""

    @workflow.init
    def __init__(self, start: RunStart) -> None:
        self._news = start.news
        self._asked_by = start.asked_by
        self._shown: RunNews | None = None

    @workflow.run
    async def run(self, start: RunStart) -> None:
        while True:
            try:
                await workflow.wait_condition(self._has_news, timeout=start.quiet_for)
            except TimeoutError:
                return  # whoever ran it is gone; its call says what became of it
            news = self._shown = self._news
            assert news is not None, "something was said"
            with contextlib.suppress(FailureError):  # nobody needs an old summary
                await take(SHOW_RUN, RunShowing(start=start, news=news), OUTBOUND, within=_SHOWN_WITHIN)
            if news.has_ended:
                return
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(start.model_copy(update={"news": self._news}))
            await workflow.sleep(_PACE)

    def _has_news(self) -> bool:
        return self._news != self._shown

    @workflow.signal(name=names.PROGRESS, description="What the run says of how far it is.")
    def _on_progress(self, *said: Any) -> None:
        news = read(RunNews, said)
        if news is None or news.told_by not in (None, self._asked_by):
            return
        if self._news is not None and self._news.has_ended:
            return
        summary = news.summary or (self._news.summary if self._news else None)
        self._news = news.model_copy(update={"summary": summary})
