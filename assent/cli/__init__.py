"""The command line."""

from assent.extras import needs

with needs("cli", "the command line"):
    import click  # noqa: F401 - its modules do
    import rich  # noqa: F401
    import temporalio  # noqa: F401
