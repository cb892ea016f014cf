"""A run of one's own over HTTP: what its program asks, the lines that answer, and how far it is."""

from __future__ import annotations

from assent.api.questions import Insist
from assent.api.reading import read
from assent.api.run_wire import Interaction, Line, NewClaim, NewProgress, NewWritten, RunInteraction
from assent.api.wire import path_segment

_WAIT = 20
_PATIENCE = 60.0


class HttpRuns:
    """Runs through the HTTP API."""

    def __init__(self, insist: Insist) -> None:
        self._insist = insist

    async def ask(self, run_id: str, asked: RunInteraction) -> Interaction:
        body = asked.model_dump(mode="json", exclude_none=True)
        path = f"/v1/runs/{run_id}/interactions"
        return read(await self._insist("POST", path, body, patience=_PATIENCE), Interaction)

    async def look(self, run_id: str, request_id: str) -> Interaction:
        """How it stands, as soon as there is something new."""
        path = f"{_path(run_id, request_id)}?wait={_WAIT}"
        return read(await self._insist("GET", path, patience=_WAIT + _PATIENCE), Interaction)

    async def claim(self, run_id: str, request_id: str, token: str) -> str | None:
        """The line that is to be written, once; None where there is none."""
        path, body = f"{_path(run_id, request_id)}/claim", NewClaim(token=token).model_dump()
        return read(await self._insist("POST", path, body), Line).stdin_text

    async def written(self, run_id: str, request_id: str, token: str, written_bytes: int) -> None:
        body = NewWritten(token=token, written_bytes=written_bytes).model_dump()
        await self._insist("POST", f"{_path(run_id, request_id)}/written", body, patience=_PATIENCE)

    async def tell(self, run_id: str, news: NewProgress) -> None:
        await self._insist("POST", f"/v1/runs/{run_id}/progress", news.model_dump(mode="json", exclude_none=True))


def _path(run_id: str, request_id: str) -> str:
    return f"/v1/runs/{run_id}/interactions/{path_segment(request_id)}"
