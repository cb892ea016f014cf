"""Approvals through Temporal itself, for those who are trusted with everything."""
