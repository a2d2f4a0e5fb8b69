"""When keys were used last."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """From keys alone."""
    op.create_table(
        "directory_key_uses",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("last_used_ms", sa.BigInteger, nullable=False),
    )
