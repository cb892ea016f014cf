"""Asking before a plan depends on it: Feishu for people, chats and files, a tool for what to mind."""

from __future__ import annotations

import logging
import tempfile
import uuid
from datetime import timedelta
from typing import BinaryIO

from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from activities.cards import prompt, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuError, FeishuRefused
from assent import names, reasons
from assent.contracts.address import Address, AddressKind
from assent.contracts.files import FileDigest, FilesWanted
from assent.contracts.identity import Identity
from assent.contracts.prepare import Resolved, Unknowns, Warned, WarningQuestion
from assent.errors import FileGone, FileUnavailable
from assent.files import MAX_BYTES, Fetched, fetch
from ledger import Ledger, Pin

UNSAID = (
    "The tool did not say what to mind about this call. Look twice at its arguments. / "
    "工具未能说明这项操作需要注意什么，请仔细核对参数。"
)
_log = logging.getLogger(__name__)
_WARN_WITHIN = timedelta(seconds=10)
_TWO_PEOPLE = "requester: its ids are not all of one person, as Feishu says; name the requester by one of them"
_SHOWN_AS_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
_LARGEST_IMAGE = 10 * 1024 * 1024


class _Missing(Exception):
    """A file that a call names cannot be had, ever."""


class ResolvingActivities:
    """What Feishu knows of people, messages and files, and a tool of a call.

    Of people it is remembered, of files the bytes are kept. feishu: None where there is none, which then is never
    asked.
    """

    def __init__(self, ledger: Ledger, feishu: Feishu | None, *, largest: int = MAX_BYTES) -> None:
        """largest: how many bytes a file may hold."""
        self._ledger = ledger
        self._feishu = feishu
        self._largest = largest

    @activity.defn(name=names.RESOLVE)
    async def resolve(self, unknown: Unknowns) -> Resolved:
        """Say what was asked for, or why Feishu never will; while it cannot answer, this is tried again."""
        resolved = Resolved()
        if self._feishu is not None and (unknown.requester or unknown.message_id or unknown.files):
            with prompt(), told():
                resolved = await self._of_feishu(self._feishu, unknown)
        if unknown.warnings is None or resolved.refused is not None:
            return resolved
        return resolved.model_copy(update={"warnings": await _warnings(unknown.warnings)})

    async def _of_feishu(self, feishu: Feishu, unknown: Unknowns) -> Resolved:
        try:
            requester = await self._person(feishu, unknown.requester) if unknown.requester else None
        except FeishuRefused as refused:
            return Resolved(refused=f"requester: who {unknown.requester} is could not be found out. {refused}")
        if unknown.requester and requester is None:
            return Resolved(refused=_TWO_PEOPLE)
        try:
            chat_id = await feishu.chat_of(unknown.message_id) if unknown.message_id else None
        except FeishuRefused as refused:
            return Resolved(refused=f"reply_to: which chat the message is in could not be found out. {refused}")
        try:
            files = await self._files(feishu, unknown.files, requester) if unknown.files else ()
        except _Missing as missing:
            return Resolved(refused=str(missing))
        return Resolved(requester=requester, chat_id=chat_id, files=files)

    async def _person(self, feishu: Feishu, named: Identity) -> Identity | None:
        """The person, by every id that Feishu tells, which is remembered; None if the ids are of more than one."""
        found = await _asked(feishu, named, Address.of(named))
        if unconfirmed := named.keys - found.keys:
            kind, _, value = min(unconfirmed).partition(":")
            other = await _asked(feishu, named, Address(kind=AddressKind(kind), id=value))
            if other.open_id != found.open_id or len(unconfirmed) > 1:
                return None
            found = found.model_copy(update={kind: value})
        await self._ledger.learn(found)
        return found

    # Files

    async def _files(self, feishu: Feishu, wanted: FilesWanted, requester: Identity | None) -> tuple[FileDigest, ...]:
        """Keep each file's bytes for the approval, once: what an earlier try kept is what the call gets."""
        kept = await self._ledger.files.pins(wanted.approval_id)
        found = []
        for file_id in wanted.file_ids:
            pin = kept.get(file_id) or await self._kept(feishu, wanted, requester or wanted.requester, file_id)
            found.append(FileDigest.model_validate(pin.model_dump()))
        return tuple(found)

    async def _kept(self, feishu: Feishu, wanted: FilesWanted, owner: Identity, file_id: str) -> Pin:
        file = await self._ledger.files.get(owner, file_id)
        if file is None:
            raise _Missing(reasons.NO_SUCH_FILE(file_id=file_id))
        with tempfile.TemporaryFile(prefix="assent-") as data:
            try:
                fetched = await fetch(feishu, file, data, limit=self._largest)
            except FileGone as gone:
                raise _Missing(reasons.FILE_NOT_TO_BE_HAD(file_id=file_id, why=gone.reason)) from None
            except FileUnavailable as error:
                raise _later(file_id, error) from None
            preview = None if file_id in wanted.hidden else await _preview(feishu, fetched, data)
            pin = await self._ledger.files.keep(
                wanted.approval_id, file_id, fetched, data, until=wanted.until, preview=preview
            )
        await self._ledger.files.describe(file_id, fetched)
        return pin


async def _asked(feishu: Feishu, named: Identity, by: Address) -> Identity:
    ids = await feishu.ids(by)
    return Identity(**ids, tenant_key=named.tenant_key)


async def _preview(feishu: Feishu, fetched: Fetched, data: BinaryIO) -> str | None:
    """The image under which a card shows a picture; a card does without where Feishu takes none."""
    if fetched.media_type not in _SHOWN_AS_IMAGES or not 0 < fetched.size <= _LARGEST_IMAGE:
        return None
    data.seek(0)
    try:
        return await feishu.upload_image(fetched.name, data)
    except FeishuError as error:
        activity.logger.warning("a picture is not shown on its card: %s", type(error).__name__)
        return None


def _later(file_id: str, error: FileUnavailable) -> ApplicationError:
    delay = timedelta(seconds=error.retry_after) if error.retry_after else None
    return ApplicationError(
        f"{file_id}: {error.problem}",
        type="FileUnavailable",
        next_retry_delay=delay,
        category=ApplicationErrorCategory.BENIGN,
    )


async def _warnings(question: WarningQuestion) -> tuple[str, ...]:
    """What the tool warns of. Where it does not say, that is the warning: no card waits for a tool."""
    try:
        warned: Warned = await activity.client().execute_workflow(
            names.WARNING,
            question,
            id=names.warning_workflow(uuid.uuid4().hex),
            task_queue=names.APPROVALS_QUEUE,
            result_type=Warned,
            execution_timeout=_WARN_WITHIN,
            static_summary=question.tool,
        )
    except (WorkflowFailureError, RPCError) as error:
        _log.warning("what %s warns of is not known: %s", question.tool, type(error).__name__)
        return (UNSAID,)
    return warned.warnings
