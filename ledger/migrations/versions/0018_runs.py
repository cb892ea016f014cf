"""The runs of programs, and what becomes of the lines that answer them."""

import sqlalchemy as sa
from alembic import op

revision = '0018'
down_revision = '0017'


def upgrade() -> None:
    op.create_table(
        'runs',
        sa.Column('run_id', sa.Text(), primary_key=True),
        sa.Column('run', sa.Text(), nullable=False),
        sa.Column('consent', sa.Text(), nullable=True),
        sa.Column('asked_by', sa.Text(), nullable=True),
        sa.Column('started_at', sa.Text(), nullable=False),
        sa.Column('ended_at', sa.Text(), nullable=True),
        sa.Column('exit_code', sa.Integer(), nullable=True),
        sa.Column('output', sa.LargeBinary(), nullable=True),
    )
    op.create_table(
        'interactions',
        sa.Column('question_id', sa.Text(), primary_key=True),
        sa.Column('run_id', sa.Text(), nullable=False),
        sa.Column('request_id', sa.Text(), nullable=False),
        sa.Column('asked', sa.Text(), nullable=False),
        sa.Column('n', sa.Integer(), nullable=False),
        sa.Column('is_over', sa.Integer(), nullable=False, server_default='0'),
        sa.Column('state', sa.Text(), nullable=False),
        sa.Column('line', sa.Text(), nullable=True),
        sa.Column('event_id', sa.Text(), nullable=True),
        sa.Column('token', sa.Text(), nullable=True),
        sa.Column('written_bytes', sa.Integer(), nullable=True),
        sa.Column('at', sa.Text(), nullable=True),
    )
    op.create_index('interactions_of_run', 'interactions', ['run_id', 'n'], unique=True)
    op.create_index('interactions_named', 'interactions', ['request_id'])
    is_open = sa.text('is_over = 0')
    op.create_index(
        'interactions_one_pending_per_run',
        'interactions',
        ['run_id'],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
