"""What people write to the bot in private: any words are answered with what waits for them."""

from __future__ import annotations

import logging
from datetime import timedelta

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from assent import names
from assent.contracts.identity import Identity
from assent.contracts.inbox import Enquiry
from assent.names import INBOX_REPLY, inbox_reply_workflow
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
    message, sender = part(event.event, "message"), part(event.event, "sender")
    if event.event_type != _MESSAGE or message.get("chat_type") != "p2p" or sender.get("sender_type") != "user":
        return None
    if tenant_key and sender.get("tenant_key") != tenant_key:
        return None
    ids = {kind: found or None for kind, found in part(sender, "sender_id").items()}
    try:
        person = Identity.model_validate({**ids, "tenant_key": tenant_key or None})
        return Enquiry.model_validate({"sender": person, "message_id": message.get("message_id")})
    except ValidationError:
        return None


class PrivateMessages:
    """Takes what people write, durably: an answer that was promised comes, also after a crash."""

    def __init__(self, client: Client, tenant_key: str | None) -> None:
        self._client = client
        self._tenant_key = tenant_key

    async def take(self, event: Event) -> bool:
        """Let a private message be answered, once however often it is told of; False if it is none.

        Raises Unavailable where it could not be recorded: the platform tells of it again.
        """
        enquiry = enquiry_of(event, self._tenant_key)
        if enquiry is None:
            return False
        try:
            await self._client.start_workflow(
                INBOX_REPLY,
                enquiry,
                id=inbox_reply_workflow(enquiry.message_id),
                task_queue=names.APPROVALS_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                static_summary="what awaits me",
                rpc_timeout=_HEARD_WITHIN,
            )
        except WorkflowAlreadyStartedError:
            _log.info("message %s was heard before", enquiry.message_id)
        except RPCError as error:
            raise unavailable(error) from error
        return True
