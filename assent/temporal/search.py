"""What Temporal finds workflows by."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from assent import names

STATUS = SearchAttributeKey.for_keyword(names.STATUS_ATTRIBUTE)
TOOL = SearchAttributeKey.for_keyword(names.TOOL_ATTRIBUTE)
REQUESTER = SearchAttributeKey.for_keyword(names.REQUESTER_ATTRIBUTE)
THREAD = SearchAttributeKey.for_keyword(names.THREAD_ATTRIBUTE)
RISK = SearchAttributeKey.for_keyword(names.RISK_ATTRIBUTE)
_PLAIN = re.compile(r"[A-Za-z0-9_:.-]{1,200}")

SEARCH_ATTRIBUTES = (STATUS, TOOL, REQUESTER, THREAD, RISK)


def attributes(values: Mapping[SearchAttributeKey[str], str]) -> TypedSearchAttributes:
    """Search attributes, each short enough for every visibility store."""
    return TypedSearchAttributes([SearchAttributePair(key, _short(value)) for key, value in values.items()])


def review_attributes(tool: str, requester: str, risk: str) -> TypedSearchAttributes:
    """What a frozen review is found by."""
    return attributes({STATUS: "frozen", TOOL: tool, REQUESTER: requester, RISK: risk})


def in_thread(thread_id: str | None) -> str:
    """What narrows a query to one conversation, where that is named plainly; what it finds is to be compared still."""
    return f' AND {THREAD.name} = "{thread_id}"' if thread_id and _PLAIN.fullmatch(thread_id) else ""


def is_in_thread(found: str | None, thread_id: str | None) -> bool:
    return thread_id is None or found == _short(thread_id)


def of_requesters(requesters: Collection[str]) -> str:
    """What narrows a query to these people, where they are named plainly."""
    if not requesters or not all(map(_PLAIN.fullmatch, requesters)):
        return ""
    wanted = ", ".join(f'"{each}"' for each in sorted(requesters))
    return f" AND {REQUESTER.name} IN ({wanted})"


def _short(text: str) -> str:
    return text if len(text.encode()) <= 255 else text.encode()[:252].decode(errors="ignore") + "…"
