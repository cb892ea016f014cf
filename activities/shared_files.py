"""Taking what people share with the bot: a handle for each file, and a small card in return."""

from __future__ import annotations

from datetime import UTC, datetime

from temporalio import activity

from activities.cards import later, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuRefused, FeishuUnavailable
from activities.feishu.resources import resources_of
from assent import names
from assent.contracts.address import Address
from assent.contracts.files import FileMessage, ReceivedFile, ReceivedFiles, SharedResource
from assent.files import SharedFile
from assent.payload import sha256
from assent.settings import Settings
from cards import Wording
from cards.shared_files import received_card
from ledger import Ledger


class SharedFileActivities:
    """What the bot does with files that people send to it. It fetches no bytes: nobody may ever need them."""

    def __init__(self, ledger: Ledger, feishu: Feishu, wording: Wording, settings: Settings) -> None:
        self._ledger = ledger
        self._feishu = feishu
        self._wording = wording
        self._settings = settings

    @activity.defn(name=names.REGISTER_FILES)
    async def register_files(self, message: FileMessage) -> ReceivedFiles:
        """Give each file of a message a handle, the same however often it is told of."""
        sender = message.sender.within(self._settings.feishu_tenant_key or None)
        message_id, resources = message.message_id, message.resources
        if message.in_group:
            try:
                with told():
                    message_id, resources = await self._meant(message)
            except FeishuRefused as refused:
                activity.logger.warning("the files of message %s are not taken: %s", message.message_id, refused)
                resources = ()
        if resources and len(sender.keys) > 1:
            await self._ledger.learn(sender)
        files = [
            await self._ledger.files.register(
                sender,
                resource,
                message={"message_id": message_id, "chat_id": message.chat_id},
                ttl_seconds=self._settings.files_ttl.total_seconds(),
            )
            for resource in resources
        ]
        return ReceivedFiles(sender=sender, message_id=message.message_id, files=tuple(map(_received, files)))

    @activity.defn(name=names.ANSWER_FILES)
    async def answer_files(self, received: ReceivedFiles) -> None:
        """Tell the sender what was taken and until when: once, as far as Feishu remembers what it sent."""
        to = Address.of(received.sender).model_copy(update={"reply_to": received.message_id})
        uuid = sha256(names.receive_files_workflow(received.message_id))[:40]
        try:
            await self._feishu.send(to, "interactive", received_card(received.files, self._wording), uuid=uuid)
        except FeishuRefused as refused:
            activity.logger.warning("message %s cannot be answered: %s", received.message_id, refused)
        except FeishuUnavailable as error:
            raise later(error) from error

    async def _meant(self, message: FileMessage) -> tuple[str, tuple[SharedResource, ...]]:
        """Which message's files somebody means who mentions the bot in a group; those of none where they do not."""
        if await self._feishu.own_open_id() not in message.mentioned:
            return message.message_id, ()
        if message.resources or message.replies_to is None:
            return message.message_id, message.resources
        answered = await self._feishu.message(message.replies_to)
        is_here = answered.chat_id == message.chat_id
        return message.replies_to, resources_of(answered.msg_type, answered.content) if is_here else ()


def _received(file: SharedFile) -> ReceivedFile:
    expires_at = datetime.fromtimestamp(file.expires_at, UTC) if file.expires_at else None
    return ReceivedFile(name=file.name, kind=file.kind, expires_at=expires_at)
