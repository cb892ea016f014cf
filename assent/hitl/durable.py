"""The names under which what an agent asks is known to the service: the same in every process."""

from __future__ import annotations

from assent.client.client import Assent
from assent.contracts.identity import Identity
from assent.payload import canonical_json, sha256


class DurableIds:
    """Ids made of who asks, for whom, in which thread, and the id of the call."""

    def __init__(self, gate: Assent, thread_id: str | None, requester: Identity) -> None:
        self._gate = gate
        self._thread_id = thread_id
        self._requester = requester
        self._principal: str | None = None

    async def of(self, call_id: str) -> str:
        """The id of the approval, or the question, of a call."""
        if self._principal is None:
            self._principal = await self._gate.principal()
        person = [self._requester.tenant_key or "", *sorted(self._requester.keys)]
        return f"hitl-{sha256(canonical_json([self._principal, person, self._thread_id, call_id]))[:40]}"
