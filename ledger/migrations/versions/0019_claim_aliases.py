"""What else calls are known by: each is one active call's alone."""

import sqlalchemy as sa
from alembic import op

revision = '0019'
down_revision = '0018'


def upgrade() -> None:
    op.create_table(
        'claim_aliases',
        sa.Column('alias', sa.Text(), primary_key=True),
        sa.Column('consent', sa.Text(), nullable=False),
    )
