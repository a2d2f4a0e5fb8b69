"""Where claims of idempotency keys, and the answers that they replay, are kept."""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, SmallInteger, String, Table

from weir_gateway.state.tables import metadata

RUNNING = 0
KEPT = 1
NOT_KEPT = 2
"""It ran, but its answer was too large to be kept, or made room for newer ones."""

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("route", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("claim_id", String, nullable=False, unique=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("state", SmallInteger, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("status", SmallInteger),
    Column("head", LargeBinary),
    Column("body", LargeBinary),
    Index("idempotency_keys_by_expiry", "expires_ms"),
    Index("idempotency_keys_by_age", "tenant_id", "state", "expires_ms"),
)
