"""What people write to the bot: words are answered with what waits for them, files are taken."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from activities.feishu.resources import resources_of
from assent import names
from assent.contracts.files import FileMessage
from assent.contracts.identity import Identity
from assent.contracts.inbox import Enquiry
from assent.names import INBOX_REPLY, RECEIVE_FILES, inbox_reply_workflow, receive_files_workflow
from assent.temporal.connection import unavailable
from cards import Event
from cards.clicks import part

_log = logging.getLogger(__name__)
_MESSAGE = "im.message.receive_v1"
_HEARD_WITHIN = timedelta(seconds=2)
"""Feishu waits 3 seconds, and tells of it again if it is not answered."""


def enquiry_of(event: Event, tenant_key: str | None) -> Enquiry | None:
    """What a person asks who wrote to the bot in private; None of any other event, also of what groups talk about.

    tenant_key: the tenant its people belong to, if one is configured: people of others are not answered.
    """
    message = _message(event, tenant_key)
    if message is None or message.get("chat_type") != "p2p":
        return None
    try:
        return Enquiry.model_validate({"sender": _sender(event, tenant_key), "message_id": message.get("message_id")})
    except ValidationError:
        return None


def files_of(event: Event, tenant_key: str | None, *, in_groups: bool = False) -> FileMessage | None:
    """The files that a person sends to the bot; None of any other event.

    in_groups: whether it is also looked at what somebody writes in a group. Whether they mean the bot, and which files
    they mean if they reply to some, only Feishu can say.
    """
    message = _message(event, tenant_key)
    if message is None:
        return None
    in_group = message.get("chat_type") != "p2p"
    resources = resources_of(message.get("message_type"), message.get("content"))
    mentioned = _mentioned(message.get("mentions"))
    replies_to = message.get("parent_id") or None
    if in_group and (not in_groups or not mentioned or not (resources or replies_to)):
        return None
    if not in_group and not resources:
        return None
    try:
        return FileMessage.model_validate(
            {
                "sender": _sender(event, tenant_key),
                "message_id": message.get("message_id"),
                "chat_id": message.get("chat_id") or None,
                "resources": resources,
                "in_group": in_group,
                "mentioned": mentioned,
                "replies_to": replies_to if in_group else None,
            }
        )
    except ValidationError:
        return None


def _message(event: Event, tenant_key: str | None) -> dict[str, Any] | None:
    """What a person of this tenant wrote."""
    message, sender = part(event.event, "message"), part(event.event, "sender")
    if event.event_type != _MESSAGE or sender.get("sender_type") != "user":
        return None
    return None if tenant_key and sender.get("tenant_key") != tenant_key else message


def _sender(event: Event, tenant_key: str | None) -> Identity:
    ids = {kind: found or None for kind, found in part(part(event.event, "sender"), "sender_id").items()}
    return Identity.model_validate({**ids, "tenant_key": tenant_key or None})


def _mentioned(mentions: object) -> tuple[str, ...]:
    named = (each for each in (mentions if isinstance(mentions, list) else ()) if isinstance(each, dict))
    found = (part(each, "id").get("open_id") for each in named)
    return tuple(open_id for open_id in found if isinstance(open_id, str) and open_id)[:100]


class PrivateMessages:
    """Takes what people write, durably: an answer that was promised comes, also after a crash."""

    def __init__(self, client: Client, tenant_key: str | None, *, in_groups: bool = False) -> None:
        """in_groups: whether files are also taken from groups."""
        self._client = client
        self._tenant_key = tenant_key
        self._in_groups = in_groups

    async def take(self, event: Event) -> bool:
        """Let a message be answered, once however often it is told of; False if it is none for the bot.

        Raises Unavailable where it could not be recorded: the platform tells of it again.
        """
        if (sent := files_of(event, self._tenant_key, in_groups=self._in_groups)) is not None:
            await self._start(RECEIVE_FILES, sent, receive_files_workflow(sent.message_id), "files for the bot")
            return True
        if (enquiry := enquiry_of(event, self._tenant_key)) is not None:
            await self._start(INBOX_REPLY, enquiry, inbox_reply_workflow(enquiry.message_id), "what awaits me")
            return True
        return False

    async def _start(self, workflow: str, said: Enquiry | FileMessage, workflow_id: str, summary: str) -> None:
        try:
            await self._client.start_workflow(
                workflow,
                said,
                id=workflow_id,
                task_queue=names.APPROVALS_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary=summary,
                rpc_timeout=_HEARD_WITHIN,
            )
        except WorkflowAlreadyStartedError:
            _log.info("message %s was heard before", said.message_id)
        except RPCError as error:
            raise unavailable(error) from error
