"""Overrides of tools' permissions, in a chain of their own."""

import sqlalchemy as sa
from alembic import op

revision = '0016'
down_revision = '0015'


def upgrade() -> None:
    op.create_table(
        'overrides',
        sa.Column('n', sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column('tool', sa.Text(), nullable=False),
        sa.Column('once', sa.Text(), nullable=False, unique=True),
        sa.Column('until', sa.Text(), nullable=True),
        sa.Column('body', sa.Text(), nullable=False),
        sa.Column('previous', sa.Text(), nullable=False),
        sa.Column('hash', sa.Text(), nullable=False),
    )
    op.create_index('ix_overrides_tool', 'overrides', ['tool'])
