"""What a call was begun with, how long each attempt stays in flight, and whose review makes a retry."""

import sqlalchemy as sa
from alembic import op

revision = '0011'
down_revision = '0010'


def upgrade() -> None:
    op.add_column('claims', sa.Column('begun_with', sa.Text(), nullable=True))
    op.add_column('attempts', sa.Column('in_flight', sa.Float(), nullable=True))
    op.add_column('retries', sa.Column('namespace', sa.Text(), nullable=True))
