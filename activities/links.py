"""Addresses in Temporal's UI."""

from __future__ import annotations

from urllib.parse import quote

from temporalio import activity

from assent import names


def review_url(temporal_ui: str, idempotency_key: str | None) -> str | None:
    """Where Temporal's UI shows the review of a call."""
    if not temporal_ui or idempotency_key is None:
        return None
    namespace = quote(activity.info().workflow_namespace or "default", safe="")
    review = quote(names.review_workflow(idempotency_key), safe="")
    return f"{temporal_ui.rstrip('/')}/namespaces/{namespace}/workflows/{review}"
