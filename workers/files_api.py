"""The HTTP API for files that people shared: which there are, and never what is in them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from assent.api.problems import Code
from assent.api.wire import FileList
from assent.client.door import invalid
from assent.contracts.files import FileSummary
from assent.contracts.identity import Identity
from assent.errors import NotAllowed
from workers.api_context import (
    MOST_LISTED,
    TheAgent,
    TheContext,
    agents_router,
    refuse_acting_for,
    unquoted,
)
from workers.problems import documented, refuse
from workers.tokens import Agent

router = agents_router()


def _requester(
    requester: Annotated[
        str, Query(description="Whose files: open_id:…, union_id:… or user_id:…, or several with commas.")
    ],
) -> Identity:
    try:
        return Identity.parse(requester)
    except ValueError as error:
        raise invalid(error) from None


TheRequester = Annotated[Identity, Depends(_requester)]


@router.get("/files", tags=["files"])
async def files(
    requester: TheRequester,
    context: TheContext,
    agent: TheAgent,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 10,
) -> FileList:
    """The files that a person shared with the bot, the newest first: what they are called, not what is in them."""
    found = await context.reader.files(_allowed(agent, requester), limit)
    return FileList(files=tuple(found))


@router.get("/files/{file_id}", tags=["files"], responses=documented(404))
async def file(file_id: str, requester: TheRequester, context: TheContext, agent: TheAgent) -> FileSummary:
    """One of them. Somebody else's, one that has expired and one that never was are all the same: not there."""
    found = await context.reader.file(_allowed(agent, requester), unquoted(file_id))
    if found is None:
        raise refuse(Code.FILE_NOT_FOUND, "the requester has no such file")
    return found


def _allowed(agent: Agent, requester: Identity) -> Identity:
    """The person whose files they are, if this token may know of them."""
    if not agent.may_list_files:
        raise NotAllowed(f"the token {agent.name!r} may not list files; an operator can let it, with may_list_files.")
    refuse_acting_for(agent, requester, "list files")
    return requester.within(agent.tenant_key or None)
