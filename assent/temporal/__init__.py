"""Approvals through Temporal itself, for those who are trusted with everything."""

from assent.extras import needs

with needs("temporal", "a connection to Temporal"):
    import temporalio  # noqa: F401 - all modules in here do
