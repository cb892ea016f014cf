"""People who share files with the bot of a service, and what the platform does with the files meanwhile."""

from __future__ import annotations

import hashlib
from typing import Any

from assent import Identity
from assent.names import receive_files_workflow
from cards import Event
from tests.support.feishu_service import REQUESTER, FeishuService
from tests.support.web import TENANT
from workers.private_messages import PrivateMessages

MIB = 1024 * 1024
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cfc00000030101001827c5b50000000049454e44ae426082"
)


def seen(name: str, data: bytes) -> str:
    """What the tools for tests write down of a file."""
    return f"{name} {len(data)} {hashlib.sha256(data).hexdigest()}"


class Sharing:
    """Sends files to a service's bot as people do."""

    def __init__(self, feishu: FeishuService) -> None:
        self._feishu = feishu
        self._keys: dict[str, str] = {}

    async def send(self, data: bytes, name: str = "q3.pdf", who: Identity = REQUESTER, **more: Any) -> dict[str, Any]:
        """The message, and the event that tells of it."""
        chat = self._feishu.chat
        sent = (
            await chat.http.post("/api/files", params={"open_id": who.open_id, "name": name, **more}, content=data)
        ).raise_for_status()
        message: dict[str, Any] = sent.json()
        delivered = (await chat.http.get("/api/deliveries", params={"limit": 1})).json()["deliveries"]
        return {**message, "event": delivered[0]["event"] if message["delivered"] else None}

    async def take(self, event: dict[str, Any], *, in_groups: bool = False) -> None:
        """Let the service hear of a message, and wait until it has dealt with it."""
        header = event["header"]
        told = Event(event_id=header["event_id"], event_type=header["event_type"], event=event["event"])
        assert await PrivateMessages(self._feishu.service.client, TENANT, in_groups=in_groups).take(told)
        await self.dealt_with(event["event"]["message"]["message_id"])

    async def dealt_with(self, message_id: str) -> None:
        await self._feishu.service.client.get_workflow_handle(receive_files_workflow(message_id)).result()

    async def share(self, data: bytes, name: str = "q3.pdf", who: Identity = REQUESTER) -> str:
        """A file that its sender can use; its id."""
        message = await self.send(data, name, who)
        await self.take(message["event"])
        file = (await self._feishu.service.ledger.files.recent(who.within(TENANT), limit=1))[0]
        self._keys[file.file_id] = file.file_key
        return file.file_id

    async def swap(self, file_id: str, data: bytes) -> None:
        """Let the platform hand out something else under the same key."""
        (await self._feishu.chat.http.put(f"/api/files/{self._keys[file_id]}", content=data)).raise_for_status()

    async def delete(self, file_id: str) -> None:
        """Let the platform no longer have it."""
        (await self._feishu.chat.http.delete(f"/api/files/{self._keys[file_id]}")).raise_for_status()
