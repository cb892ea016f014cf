"""The operator's policy."""
