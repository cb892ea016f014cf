"""Addresses that cards lead to: in Temporal's UI, and in Feishu."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from temporalio import activity

from assent import names


def review_url(temporal_ui: str, idempotency_key: str | None) -> str | None:
    """Where Temporal's UI shows the review of a call."""
    if not temporal_ui or idempotency_key is None:
        return None
    namespace = quote(activity.info().workflow_namespace or "default", safe="")
    review = quote(names.review_workflow(idempotency_key), safe="")
    return f"{temporal_ui.rstrip('/')}/namespaces/{namespace}/workflows/{review}"


_APPLINKS = {"open.feishu.cn": "https://applink.feishu.cn", "open.larksuite.com": "https://applink.larksuite.com"}


def chat_url(domain: str, chat_id: str) -> str | None:
    """What opens a chat in Feishu or Lark, or on the page of a simulator; None elsewhere."""
    parts = urlsplit(domain)
    if parts.scheme == "http":  # on this machine
        return f"{domain}/?chat={quote(chat_id, safe='')}"
    client = _APPLINKS.get(parts.hostname or "")
    return f"{client}/client/chat/open?openChatId={quote(chat_id, safe='')}" if client else None
