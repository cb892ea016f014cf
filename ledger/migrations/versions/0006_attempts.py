"""Every attempt of every consent, each with its own end."""

import sqlalchemy as sa
from alembic import op

revision = '0006'
down_revision = '0005'


def upgrade() -> None:
    op.create_table('attempts',
    sa.Column('consent', sa.Text(), nullable=False),
    sa.Column('attempt', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('holder', sa.Text(), nullable=True),
    sa.Column('worker', sa.Text(), nullable=True),
    sa.Column('activity', sa.Text(), nullable=True),
    sa.Column('turn', sa.Integer(), nullable=True),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('began_at', sa.Text(), nullable=False),
    sa.Column('ended_at', sa.Text(), nullable=True),
    sa.Column('body_ended', sa.Integer(), server_default='0', nullable=False),
    sa.PrimaryKeyConstraint('consent', 'attempt')
    )
    op.create_index('attempts_holder', 'attempts', ['holder'], unique=True)
    op.create_index('claims_answered_by', 'claims', ['answered_by'], unique=False, sqlite_where=sa.text("answer = 'unknown'"), postgresql_where=sa.text("answer = 'unknown'"))
    _write_down_the_last()
    _write_down_those_before()
    op.drop_column('claims', 'body_ended')


def _write_down_the_last() -> None:
    """What claims knew: the last attempt of each, and whether its code ended; what it said late counts, too."""
    op.execute(sa.text("""
        INSERT INTO attempts (consent, attempt, holder, worker, activity, turn, state, began_at, ended_at, body_ended)
        SELECT consent, attempt, holder, worker, activity, turn,
               CASE WHEN state IN ('started', 'executed') THEN state ELSE 'unknown' END,
               began_at, ended_at, body_ended
        FROM claims WHERE attempt > 0 AND began_at IS NOT NULL
    """))
    op.execute(sa.text("""
        UPDATE attempts
        SET state = (SELECT late_results.state FROM late_results WHERE late_results.holder = attempts.holder)
        WHERE holder IN (SELECT holder FROM late_results)
    """))


def _write_down_those_before() -> None:
    """Of those nothing was kept: nobody knows of their end, and they began no later than the last one."""
    op.execute(sa.text("""
        WITH RECURSIVE earlier (consent, attempt, began_at) AS (
            SELECT consent, attempt - 1, began_at FROM claims WHERE attempt > 1 AND began_at IS NOT NULL
            UNION ALL
            SELECT consent, attempt - 1, began_at FROM earlier WHERE attempt > 1
        )
        INSERT INTO attempts (consent, attempt, state, began_at, body_ended)
        SELECT consent, attempt, 'started', began_at, 0 FROM earlier
    """))
