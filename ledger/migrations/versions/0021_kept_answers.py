"""The answer that a program is to read, before it does: whatever becomes of the workflow, it is the one that counts."""

import sqlalchemy as sa
from alembic import op

revision = '0021'
down_revision = '0020'


def upgrade() -> None:
    op.add_column('interactions', sa.Column('answer', sa.Text(), nullable=True))
