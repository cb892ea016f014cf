"""The arguments of a call: as JSON Schema, and as fields that a person fills in."""
