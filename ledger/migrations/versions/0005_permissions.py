"""Edits, remembered decisions, sealed results and the operator's policy."""

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'


def upgrade() -> None:
    op.add_column('approvals', sa.Column('revision', sa.Integer(), server_default='0', nullable=False))
    op.create_index('approvals_open', 'approvals', ['created_at'], unique=False, sqlite_where=sa.text('status IS NULL'), postgresql_where=sa.text('status IS NULL'))
    op.create_table('revisions',
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('revision', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('event_id', sa.Text(), nullable=False),
    sa.Column('payload_sha256', sa.Text(), nullable=False),
    sa.Column('plan', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('approval_id', 'revision')
    )
    op.create_index('revisions_event', 'revisions', ['approval_id', 'event_id'], unique=True)
    op.add_column('decisions', sa.Column('place', sa.Integer(), server_default='0', nullable=False))
    op.add_column('claims', sa.Column('sealed', sa.Integer(), server_default='0', nullable=False))
    op.add_column('claims', sa.Column('released', sa.Text(), nullable=True))
    op.add_column('messages', sa.Column('address', sa.Text(), nullable=True))
    op.create_table('grants',
    sa.Column('grant_id', sa.Text(), nullable=False),
    sa.Column('tool', sa.Text(), nullable=False),
    sa.Column('payload_sha256', sa.Text(), nullable=True),
    sa.Column('granted', sa.Text(), nullable=False),
    sa.Column('granted_at', sa.Text(), nullable=False),
    sa.Column('revoked_at', sa.Text(), nullable=True),
    sa.Column('revoked_by', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('grant_id')
    )
    op.create_index('grants_of_tool', 'grants', ['tool', 'payload_sha256'], unique=False)
    op.create_table('policies',
    sa.Column('n', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('sha256', sa.Text(), nullable=False),
    sa.Column('since', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('n')
    )
