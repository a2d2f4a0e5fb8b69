"""Idempotency keys."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """From the revision before."""
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("route", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("claim_id", sa.String, nullable=False, unique=True),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.SmallInteger, nullable=False),
        sa.Column("lease_ms", sa.BigInteger, nullable=False),
        sa.Column("expires_ms", sa.BigInteger, nullable=False),
        sa.Column("status", sa.SmallInteger),
        sa.Column("head", sa.LargeBinary),
        sa.Column("body", sa.LargeBinary),
    )
    op.create_index("idempotency_keys_by_expiry", "idempotency_keys", ["expires_ms"])
