"""The threads of agent loops: their messages, the calls they began, and who runs them."""

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'


def upgrade() -> None:
    op.create_table(
        'thread_messages',
        sa.Column('thread_id', sa.Text(), primary_key=True),
        sa.Column('n', sa.Integer(), primary_key=True),
        sa.Column('message', sa.Text(), nullable=False),
    )
    op.create_table(
        'thread_calls',
        sa.Column('thread_id', sa.Text(), primary_key=True),
        sa.Column('tool_call_id', sa.Text(), primary_key=True),
        sa.Column('is_begun', sa.Integer(), nullable=False),
    )
    op.create_table(
        'thread_holds',
        sa.Column('thread_id', sa.Text(), primary_key=True),
        sa.Column('holder', sa.Text(), nullable=False),
        sa.Column('held_until', sa.Text(), nullable=False),
    )
