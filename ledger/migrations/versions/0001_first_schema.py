"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = '0001'
down_revision = None


def upgrade() -> None:
    op.create_table('approvals',
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('request_sha256', sa.Text(), nullable=False),
    sa.Column('tool', sa.Text(), nullable=False),
    sa.Column('thread_id', sa.Text(), nullable=True),
    sa.Column('requester', sa.Text(), nullable=False),
    sa.Column('plan', sa.Text(), nullable=True),
    sa.Column('refused', sa.Text(), nullable=True),
    sa.Column('created_at', sa.Text(), nullable=False),
    sa.Column('open_until', sa.Text(), nullable=False),
    sa.Column('status', sa.Text(), nullable=True),
    sa.Column('outcome', sa.Text(), nullable=True),
    sa.Column('closed_at', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('approval_id')
    )
    op.create_index('approvals_open_in_thread', 'approvals', ['thread_id'], unique=False, sqlite_where=sa.text('status IS NULL'), postgresql_where=sa.text('status IS NULL'))
    op.create_table('audit',
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('once', sa.Text(), nullable=False),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('previous', sa.Text(), nullable=False),
    sa.Column('hash', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('approval_id', 'seq')
    )
    op.create_index('audit_once', 'audit', ['approval_id', 'once'], unique=True)
    op.create_table('catalogue',
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('manifest', sa.Text(), nullable=False),
    sa.Column('published_at', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('name')
    )
    op.create_table('claims',
    sa.Column('consent', sa.Text(), nullable=False),
    sa.Column('idempotency_key', sa.Text(), nullable=False),
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('payload_sha256', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('holder', sa.Text(), nullable=True),
    sa.Column('worker', sa.Text(), nullable=True),
    sa.Column('began_at', sa.Text(), nullable=True),
    sa.Column('ended_at', sa.Text(), nullable=True),
    sa.Column('content', sa.LargeBinary(), nullable=True),
    sa.Column('note', sa.Text(), nullable=True),
    sa.Column('authorize_url', sa.Text(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('answer', sa.Text(), nullable=True),
    sa.Column('answered_by', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('consent')
    )
    op.create_index('claims_one_active_per_key', 'claims', ['idempotency_key'], unique=True, sqlite_where=sa.text("state IN ('started', 'executed', 'unknown')"), postgresql_where=sa.text("state IN ('started', 'executed', 'unknown')"))
    op.create_table('conversations',
    sa.Column('thread_id', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('thread_id')
    )
    op.create_table('decisions',
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('event_id', sa.Text(), nullable=False),
    sa.Column('judged', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('approval_id', 'event_id')
    )
    op.create_table('late_results',
    sa.Column('holder', sa.Text(), nullable=False),
    sa.Column('consent', sa.Text(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('at', sa.Text(), nullable=False),
    sa.Column('worker', sa.Text(), nullable=True),
    sa.Column('content', sa.LargeBinary(), nullable=True),
    sa.Column('note', sa.Text(), nullable=True),
    sa.Column('authorize_url', sa.Text(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('holder')
    )
    op.create_index(op.f('ix_late_results_consent'), 'late_results', ['consent'], unique=False)
    op.create_table('seals',
    sa.Column('n', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('entries', sa.Integer(), nullable=False),
    sa.Column('head', sa.Text(), nullable=False),
    sa.Column('previous', sa.Text(), nullable=False),
    sa.Column('hash', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('n')
    )
    op.create_index(op.f('ix_seals_approval_id'), 'seals', ['approval_id'], unique=False)
