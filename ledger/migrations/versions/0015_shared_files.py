"""Files that people share, and the bytes that approvals keep of them."""

import sqlalchemy as sa
from alembic import op

revision = '0015'
down_revision = '0014'

_EXPIRES = sa.text('expires_at <> 0')


def upgrade() -> None:
    op.create_table(
        'shared_files',
        sa.Column('file_id', sa.Text(), primary_key=True),
        sa.Column('message_id', sa.Text(), nullable=False),
        sa.Column('file_key', sa.Text(), nullable=False),
        sa.Column('resource_type', sa.Text(), nullable=False),
        sa.Column('kind', sa.Text(), nullable=False),
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('media_type', sa.Text()),
        sa.Column('size', sa.Integer()),
        sa.Column('chat_id', sa.Text()),
        sa.Column('created_at', sa.Float(), nullable=False),
        sa.Column('expires_at', sa.Float(), nullable=False),
        sa.Column('pinned', sa.Integer(), nullable=False),
        sa.Column('meta', sa.Text(), nullable=False),
    )
    op.create_index('shared_files_of_message', 'shared_files', ['message_id', 'file_key'])
    op.create_index('shared_files_expiring', 'shared_files', ['expires_at'], sqlite_where=_EXPIRES, postgresql_where=_EXPIRES)
    op.create_table(
        'shared_file_owners',
        sa.Column('owner_key', sa.Text(), primary_key=True),
        sa.Column('file_id', sa.Text(), primary_key=True),
        sa.Column('message_id', sa.Text(), nullable=False),
        sa.Column('file_key', sa.Text(), nullable=False),
    )
    op.create_index('shared_file_owners_of_file', 'shared_file_owners', ['file_id'])
    op.create_index('shared_file_owners_once', 'shared_file_owners', ['owner_key', 'message_id', 'file_key'], unique=True)
    op.create_table(
        'file_pins',
        sa.Column('holder', sa.Text(), primary_key=True),
        sa.Column('file_id', sa.Text(), primary_key=True),
        sa.Column('sha256', sa.Text(), nullable=False),
        sa.Column('size', sa.Integer(), nullable=False),
        sa.Column('media_type', sa.Text(), nullable=False),
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('preview', sa.Text()),
        sa.Column('until', sa.Text(), nullable=False),
    )
    op.create_index('file_pins_of_bytes', 'file_pins', ['sha256'])
    op.create_table(
        'file_chunks',
        sa.Column('sha256', sa.Text(), primary_key=True),
        sa.Column('n', sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column('data', sa.LargeBinary(), nullable=False),
        sa.Column('written_at', sa.Text(), nullable=False),
    )
