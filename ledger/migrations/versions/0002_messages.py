"""What was sent to Feishu."""

import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'


def upgrade() -> None:
    op.create_table('messages',
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('generation', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('place', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('tried_at', sa.Text(), nullable=False),
    sa.Column('message_id', sa.Text(), nullable=True),
    sa.Column('chat_id', sa.Text(), nullable=True),
    sa.Column('shown', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('approval_id', 'kind', 'generation', 'place')
    )
