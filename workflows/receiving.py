"""Taking files that somebody sent to the bot."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from assent.contracts.files import FileMessage
    from assent.names import RECEIVE_FILES
    from assent.steps import ANSWER_FILES, REGISTER_FILES
    from workflows.steps import OUTBOUND, take

_TAKEN_WITHIN = timedelta(days=1)
"""How long the ledger, or Feishu, is asked again before the files are given up."""
_ANSWERED_WITHIN = timedelta(minutes=10)
"""How long an answer is still worth sending."""


@workflow.defn(name=RECEIVE_FILES)
class ReceiveFilesWorkflow:
    """One message, one handle for each of its files, one answer."""

    @workflow.run
    async def run(self, message: FileMessage) -> None:
        try:
            received = await take(REGISTER_FILES, message, OUTBOUND, within=_TAKEN_WITHIN)
            if received.files:
                await take(ANSWER_FILES, received, OUTBOUND, within=_ANSWERED_WITHIN)
        except FailureError as error:
            workflow.logger.warning("message %s was not answered: %s", message.message_id, error)
