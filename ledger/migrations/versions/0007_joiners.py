"""One settlement for all who wait for it, retries that are promised, seals that come after the end."""

import sqlalchemy as sa
from alembic import op

revision = '0007'
down_revision = '0006'


def upgrade() -> None:
    op.add_column('approvals', sa.Column('asked_by', sa.Text(), nullable=True))
    op.add_column('approvals', sa.Column('temporal_namespace', sa.Text(), nullable=True))
    op.add_column('approvals', sa.Column('unsealed_since', sa.Text(), nullable=True))
    op.create_index('approvals_unsealed', 'approvals', ['unsealed_since'], unique=False, sqlite_where=sa.text('unsealed_since IS NOT NULL'), postgresql_where=sa.text('unsealed_since IS NOT NULL'))
    op.create_table('retries',
    sa.Column('consent', sa.Text(), nullable=False),
    sa.Column('approval_id', sa.Text(), nullable=False),
    sa.Column('idempotency_key', sa.Text(), nullable=False),
    sa.Column('ruling', sa.Text(), nullable=False),
    sa.Column('asked_at', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('consent')
    )
    op.create_index('ix_retries_approval_id', 'retries', ['approval_id'], unique=False)
    op.create_index('ix_retries_idempotency_key', 'retries', ['idempotency_key'], unique=False)
    op.rename_table('settlements', 'settlements_by_approval')
    settlements = op.create_table('settlements',
    sa.Column('consent', sa.Text(), nullable=False),
    sa.Column('settlement', sa.Text(), nullable=False),
    sa.Column('entry', sa.Text(), nullable=False),
    sa.Column('settled_at', sa.Text(), nullable=False),
    sa.Column('told', sa.Integer(), server_default='0', nullable=False),
    sa.PrimaryKeyConstraint('consent', name='settlements_by_consent')
    )
    op.create_index('settlements_untold', 'settlements', ['settled_at'], unique=False, sqlite_where=sa.text('told = 0'), postgresql_where=sa.text('told = 0'))
    connection = op.get_bind()
    asked_by = "plan::json ->> 'asked_by'" if connection.dialect.name == 'postgresql' else "json_extract(plan, '$.asked_by')"
    connection.execute(sa.text(f'UPDATE approvals SET asked_by = {asked_by} WHERE plan IS NOT NULL'))
    known = set()
    for row in connection.execute(sa.text('SELECT approval_id, settlement, settled_at FROM settlements_by_approval')).all():
        consent = _root(connection, row.approval_id)
        if consent is None or consent in known:
            continue
        known.add(consent)
        entry = connection.execute(sa.text("SELECT body FROM audit WHERE approval_id = :approval_id AND once = 'settle'"), {'approval_id': row.approval_id}).scalar()
        if entry is not None:
            connection.execute(sa.insert(settlements).values(consent=consent, settlement=row.settlement, entry=entry, settled_at=row.settled_at, told=1))
    op.drop_table('settlements_by_approval')


def _root(connection: sa.Connection, approval_id: str) -> str | None:
    """The claim that an approval waited for."""
    consent = approval_id
    while True:
        claim = connection.execute(sa.text('SELECT state, answer, answered_by FROM claims WHERE consent = :consent'), {'consent': consent}).first()
        if claim is None:
            return None
        if claim.state != 'closed' or claim.answer != 'unknown':
            return consent
        consent = claim.answered_by
