"""A tool module that cannot be imported."""

from assent import tool


@tool(name="broken")
def broken(unannotated) -> None:  # type: ignore[no-untyped-def]
    """Refused when it is registered."""
