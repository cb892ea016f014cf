"""Which attempt holds a claim."""

import sqlalchemy as sa
from alembic import op

revision = '0004'
down_revision = '0003'


def upgrade() -> None:
    op.add_column('claims', sa.Column('activity', sa.Text(), nullable=True))
    op.add_column('claims', sa.Column('turn', sa.Integer(), nullable=True))
