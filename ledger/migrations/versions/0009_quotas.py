"""By what requests are counted: the agent, the requester, the chat, the bytes."""

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'

_OPEN = sa.text('status IS NULL')


def upgrade() -> None:
    for name in ('principal', 'person', 'chat_id'):
        op.add_column('approvals', sa.Column(name, sa.Text(), nullable=True))
    op.add_column('approvals', sa.Column('size', sa.Integer(), server_default='0', nullable=False))
    op.create_index('approvals_of_principal', 'approvals', ['principal', 'created_at'], unique=False)
    op.create_index('approvals_of_chat', 'approvals', ['chat_id', 'created_at'], unique=False)
    for name in ('principal', 'person'):
        op.create_index(f'approvals_open_of_{name}', 'approvals', [name], unique=False, sqlite_where=_OPEN, postgresql_where=_OPEN)
