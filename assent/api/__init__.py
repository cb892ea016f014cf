"""The HTTP API, as both its ends know it."""
