"""Who is who, and for whom each call was begun."""

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'

_ACTIVE = sa.text("state IN ('started', 'executed', 'unknown')")


def upgrade() -> None:
    op.create_table('person_ids',
    sa.Column('tenant_key', sa.Text(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('person', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('tenant_key', 'key')
    )
    op.create_index('person_ids_of_person', 'person_ids', ['tenant_key', 'person'], unique=False)
    op.add_column('claims', sa.Column('scope_key', sa.Text(), nullable=True))
    op.add_column('claims', sa.Column('requester', sa.Text(), nullable=True))
    op.create_index('claims_active_in_scope', 'claims', ['scope_key'], unique=False, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE)
    # Until now a key had no requester in it: it was what is the scope's key from here on.
    requester = "json_extract(plan, '$.requester')" if op.get_bind().dialect.name == 'sqlite' else "plan::json ->> 'requester'"
    op.execute(
        f"UPDATE claims SET scope_key = idempotency_key, requester = "
        f"(SELECT {requester} FROM approvals WHERE approvals.approval_id = claims.approval_id) "
        f"WHERE state IN ('started', 'executed', 'unknown')"
    )
