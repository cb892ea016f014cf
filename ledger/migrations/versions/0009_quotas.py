"""By what requests are counted: the agent, the requester, the chat, the bytes."""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'

_OPEN = sa.text('status IS NULL')


def upgrade() -> None:
    op.add_column('approvals', sa.Column('person', sa.Text(), nullable=True))
    op.add_column('approvals', sa.Column('chat_id', sa.Text(), nullable=True))
    op.add_column('approvals', sa.Column('size', sa.Integer(), server_default='0', nullable=False))
    op.create_index('approvals_of_agent', 'approvals', ['asked_by', 'created_at'], unique=False)
    op.create_index('approvals_of_chat', 'approvals', ['chat_id', 'created_at'], unique=False)
    op.create_index('approvals_open_of_agent', 'approvals', ['asked_by'], unique=False, sqlite_where=_OPEN, postgresql_where=_OPEN)
    op.create_index('approvals_open_of_person', 'approvals', ['person'], unique=False, sqlite_where=_OPEN, postgresql_where=_OPEN)
