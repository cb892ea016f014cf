"""Alembic's entry: migrates the connection that `ledger.migrate` hands over."""

from alembic import context

from ledger.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
