"""Where each entry of the audit goes besides."""

import sqlalchemy as sa
from alembic import op

revision = '0017'
down_revision = '0016'


def upgrade() -> None:
    op.create_table(
        'audit_sinks',
        sa.Column('name', sa.Text(), primary_key=True),
        sa.Column('holder', sa.Text(), nullable=True),
        sa.Column('held_until', sa.Text(), nullable=True),
    )
    op.create_table(
        'audit_outbox',
        sa.Column('sink', sa.Text(), primary_key=True),
        sa.Column('approval_id', sa.Text(), primary_key=True),
        sa.Column('seq', sa.Integer(), primary_key=True),
    )
