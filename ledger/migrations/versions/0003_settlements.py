"""What became of frozen calls."""

import sqlalchemy as sa
from alembic import op

revision = '0003'
down_revision = '0002'


def upgrade() -> None:
    op.add_column('claims', sa.Column('body_ended', sa.Integer(), server_default='0', nullable=False))
    op.create_index('claims_unknown_payload', 'claims', ['payload_sha256'], unique=False, sqlite_where=sa.text("state = 'unknown'"), postgresql_where=sa.text("state = 'unknown'"))
    op.create_index('claims_started', 'claims', ['began_at'], unique=False, sqlite_where=sa.text("state = 'started'"), postgresql_where=sa.text("state = 'started'"))
    op.create_table('settlements',
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('settlement', sa.Text(), nullable=False),
    sa.Column('settled_at', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('approval_id')
    )
