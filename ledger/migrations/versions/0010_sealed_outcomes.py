"""A seal also names the outcome that was recorded."""

import sqlalchemy as sa
from alembic import op

revision = '0010'
down_revision = '0009'


def upgrade() -> None:
    op.add_column('seals', sa.Column('outcome_sha256', sa.Text(), nullable=True))
