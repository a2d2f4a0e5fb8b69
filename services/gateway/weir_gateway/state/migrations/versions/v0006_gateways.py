"""Gateways that share the state."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """From the revision before."""
    op.create_table(
        "gateways",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
    )
