"""What Temporal finds workflows by."""

from __future__ import annotations

from collections.abc import Mapping

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from assent import names

STATUS = SearchAttributeKey.for_keyword(names.STATUS_ATTRIBUTE)
TOOL = SearchAttributeKey.for_keyword(names.TOOL_ATTRIBUTE)
REQUESTER = SearchAttributeKey.for_keyword(names.REQUESTER_ATTRIBUTE)
THREAD = SearchAttributeKey.for_keyword(names.THREAD_ATTRIBUTE)
RISK = SearchAttributeKey.for_keyword(names.RISK_ATTRIBUTE)
SEARCH_ATTRIBUTES = (STATUS, TOOL, REQUESTER, THREAD, RISK)


def attributes(values: Mapping[SearchAttributeKey[str], str]) -> TypedSearchAttributes:
    """Search attributes, each short enough for every visibility store."""
    return TypedSearchAttributes([SearchAttributePair(key, _short(value)) for key, value in values.items()])


def review_attributes(tool: str, requester: str, risk: str) -> TypedSearchAttributes:
    """What a frozen review is found by."""
    return attributes({STATUS: "frozen", TOOL: tool, REQUESTER: requester, RISK: risk})


def _short(text: str) -> str:
    return text if len(text.encode()) <= 255 else text.encode()[:252].decode(errors="ignore") + "…"
