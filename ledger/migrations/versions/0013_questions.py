"""What people are asked that is no consent."""

import sqlalchemy as sa
from alembic import op

revision = '0013'
down_revision = '0012'


def upgrade() -> None:
    op.create_table(
        'questions',
        sa.Column('record', sa.Text(), primary_key=True),
        sa.Column('request_sha256', sa.Text(), nullable=False),
        sa.Column('requester', sa.Text(), nullable=False),
        sa.Column('thread_id', sa.Text(), nullable=True),
        sa.Column('plan', sa.Text(), nullable=False),
        sa.Column('created_at', sa.Text(), nullable=False),
        sa.Column('open_until', sa.Text(), nullable=False),
        sa.Column('status', sa.Text(), nullable=True),
        sa.Column('outcome', sa.Text(), nullable=True),
        sa.Column('closed_at', sa.Text(), nullable=True),
        sa.Column('unsealed_since', sa.Text(), nullable=True),
        sa.Column('temporal_namespace', sa.Text(), nullable=True),
        sa.Column('consent', sa.Text(), nullable=True),
        sa.Column('asked_by', sa.Text(), nullable=True),
        sa.Column('person', sa.Text(), nullable=True),
        sa.Column('chat_id', sa.Text(), nullable=True),
        sa.Column('size', sa.Integer(), nullable=False, server_default='0'),
    )
    op.create_index('questions_of_agent', 'questions', ['asked_by', 'created_at'])
    op.create_index('questions_of_chat', 'questions', ['chat_id', 'created_at'])
    for name, column in (
        ('questions_open_of_agent', 'asked_by'),
        ('questions_open_of_person', 'person'),
        ('questions_open_of_consent', 'consent'),
        ('questions_open', 'created_at'),
    ):
        is_open = sa.text('status IS NULL')
        op.create_index(name, 'questions', [column], sqlite_where=is_open, postgresql_where=is_open)
    waits = sa.text('unsealed_since IS NOT NULL')
    op.create_index('questions_unsealed', 'questions', ['unsealed_since'], sqlite_where=waits, postgresql_where=waits)
