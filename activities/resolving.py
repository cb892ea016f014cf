"""Asking Feishu before a plan depends on it: who somebody is, which chat a message is in, what a file holds."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from typing import BinaryIO

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.cards import prompt, told
from activities.feishu.client import Feishu
from activities.feishu.errors import FeishuError, FeishuRefused
from assent import names, reasons
from assent.contracts.address import Address, AddressKind
from assent.contracts.files import FileDigest, FilesWanted
from assent.contracts.identity import Identity
from assent.contracts.prepare import Resolved, Unknowns
from assent.errors import FileGone, FileUnavailable
from assent.files import MAX_BYTES, Fetched, fetch
from ledger import Ledger, Pin

_TWO_PEOPLE = "requester: its ids are not all of one person, as Feishu says; name the requester by one of them"
_SHOWN_AS_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
_LARGEST_IMAGE = 10 * 1024 * 1024


class _Missing(Exception):
    """A file that a call names cannot be had, ever."""


class ResolvingActivities:
    """What Feishu knows of people, messages and files; of people it is remembered, of files the bytes are kept."""

    def __init__(self, ledger: Ledger, feishu: Feishu, *, largest: int = MAX_BYTES) -> None:
        """largest: how many bytes a file may hold."""
        self._ledger = ledger
        self._feishu = feishu
        self._largest = largest

    @activity.defn(name=names.RESOLVE)
    async def resolve(self, unknown: Unknowns) -> Resolved:
        """Say what was asked for, or why Feishu never will; while it cannot answer, this is tried again."""
        with prompt(), told():
            try:
                requester = await self._person(unknown.requester) if unknown.requester else None
            except FeishuRefused as refused:
                return Resolved(refused=f"requester: who {unknown.requester} is could not be found out. {refused}")
            if unknown.requester and requester is None:
                return Resolved(refused=_TWO_PEOPLE)
            try:
                chat_id = await self._feishu.chat_of(unknown.message_id) if unknown.message_id else None
            except FeishuRefused as refused:
                return Resolved(refused=f"reply_to: which chat the message is in could not be found out. {refused}")
            try:
                files = await self._files(unknown.files, requester) if unknown.files else ()
            except _Missing as missing:
                return Resolved(refused=str(missing))
        return Resolved(requester=requester, chat_id=chat_id, files=files)

    async def _person(self, named: Identity) -> Identity | None:
        """The person, by every id that Feishu tells, which is remembered; None if the ids are of more than one."""
        found = await self._asked(named, Address.of(named))
        if unconfirmed := named.keys - found.keys:
            kind, _, value = min(unconfirmed).partition(":")
            other = await self._asked(named, Address(kind=AddressKind(kind), id=value))
            if other.open_id != found.open_id or len(unconfirmed) > 1:
                return None
            found = found.model_copy(update={kind: value})
        await self._ledger.learn(found)
        return found

    async def _asked(self, named: Identity, by: Address) -> Identity:
        ids = await self._feishu.ids(by)
        return Identity(**ids, tenant_key=named.tenant_key)

    # Files

    async def _files(self, wanted: FilesWanted, requester: Identity | None) -> tuple[FileDigest, ...]:
        """Keep each file's bytes for the approval, once: what an earlier try kept is what the call gets."""
        kept = await self._ledger.files.pins(wanted.approval_id)
        found = []
        for file_id in wanted.file_ids:
            pin = kept.get(file_id) or await self._kept(wanted, requester or wanted.requester, file_id)
            found.append(FileDigest.model_validate(pin.model_dump()))
        return tuple(found)

    async def _kept(self, wanted: FilesWanted, owner: Identity, file_id: str) -> Pin:
        file = await self._ledger.files.get(owner, file_id)
        if file is None:
            raise _Missing(reasons.NO_SUCH_FILE(file_id=file_id))
        with tempfile.TemporaryFile(prefix="assent-") as data:
            try:
                fetched = await fetch(self._feishu, file, data, limit=self._largest)
            except FileGone as gone:
                raise _Missing(reasons.FILE_NOT_TO_BE_HAD(file_id=file_id, why=gone.reason)) from None
            except FileUnavailable as error:
                raise _later(file_id, error) from None
            preview = None if file_id in wanted.hidden else await self._preview(fetched, data)
            pin = await self._ledger.files.keep(
                wanted.approval_id, file_id, fetched, data, until=wanted.until, preview=preview
            )
        await self._ledger.files.describe(file_id, fetched)
        return pin

    async def _preview(self, fetched: Fetched, data: BinaryIO) -> str | None:
        """The image under which a card shows a picture; a card does without where Feishu takes none."""
        if fetched.media_type not in _SHOWN_AS_IMAGES or not 0 < fetched.size <= _LARGEST_IMAGE:
            return None
        data.seek(0)
        try:
            return await self._feishu.upload_image(fetched.name, data)
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
