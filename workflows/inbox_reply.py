"""Answering a person who wrote to the bot what waits for them."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent.contracts.inbox import Enquiry
    from assent.names import INBOX_REPLY
    from assent.steps import REPLY_TO_MESSAGE
    from workflows.steps import OUTBOUND, take

_FOR = timedelta(minutes=10)
"""How long an answer is still worth sending."""


@workflow.defn(name=INBOX_REPLY)
class InboxReplyWorkflow:
    """One message, one answer; one that comes too late is not sent."""

    @workflow.run
    async def run(self, enquiry: Enquiry) -> None:
        try:
            await take(REPLY_TO_MESSAGE, enquiry, OUTBOUND, within=_FOR)
        except FailureError as error:
            workflow.logger.warning("message %s was not answered: %s", enquiry.message_id, error)
