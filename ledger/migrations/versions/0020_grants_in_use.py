"""Which approvals a remembered decision stood in for: their cards say so once it is revoked."""

import sqlalchemy as sa
from alembic import op

revision = '0020'
down_revision = '0019'


def upgrade() -> None:
    op.add_column('approvals', sa.Column('grant_id', sa.Text(), nullable=True))
    some = sa.text('grant_id IS NOT NULL')
    op.create_index('approvals_by_grant', 'approvals', ['grant_id', 'created_at'], sqlite_where=some, postgresql_where=some)
