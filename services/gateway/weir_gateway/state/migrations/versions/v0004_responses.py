"""Responses, and the events of those that are made in the background."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """From the revision before."""
    op.create_table(
        "responses",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
        sa.Column("chain_id", sa.String, nullable=False),
        sa.Column("background", sa.Boolean, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("items", sa.LargeBinary, nullable=False),
    )
    op.create_index("responses_by_expiry", "responses", ["expires_ms"])
    op.create_table(
        "response_events",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("response_id", sa.String, primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
