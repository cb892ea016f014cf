"""The files that a person shared, as agents may know of them."""

from __future__ import annotations

from assent.client.door import Door
from assent.contracts.files import FileSummary
from assent.contracts.identity import Identity


class Files:
    """What a person shared with the bot: the summaries alone. The bytes are for tools."""

    def __init__(self, door: Door) -> None:
        self._door = door

    async def recent(self, requester: Identity, limit: int = 10) -> list[FileSummary]:
        """A person's files that can be used now, the newest first."""
        return await self._door.files(requester, limit)

    async def get(self, requester: Identity, file_id: str) -> FileSummary | None:
        """One of them; None if there is none, it has expired or is somebody else's."""
        return await self._door.file(requester, file_id)
