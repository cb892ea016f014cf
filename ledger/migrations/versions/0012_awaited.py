"""Whom open approvals wait for, found by person or chat."""

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'


def upgrade() -> None:
    op.add_column('approvals', sa.Column('awaited', sa.Text(), nullable=True))
    op.add_column('approvals', sa.Column('deciders', sa.Text(), nullable=True))
    op.create_table(
        'awaited_keys',
        sa.Column('key', sa.Text(), primary_key=True),
        sa.Column('approval_id', sa.Text(), primary_key=True),
    )
    op.create_index('awaited_keys_of_approval', 'awaited_keys', ['approval_id'])
    op.create_table(
        'chats_seen',
        sa.Column('chat_id', sa.Text(), primary_key=True),
        sa.Column('seen_at', sa.Text(), nullable=False),
    )
    op.create_table(
        'chat_members',
        sa.Column('chat_id', sa.Text(), primary_key=True),
        sa.Column('open_id', sa.Text(), primary_key=True),
    )
    op.create_index('chat_members_by_person', 'chat_members', ['open_id'])
