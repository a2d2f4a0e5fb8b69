"""Tables of sessions. Times are Unix milliseconds."""

from sqlalchemy import BigInteger, Column, Index, SmallInteger, String, Table

from weir_gateway.state.tables import metadata

sessions = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant_id", String, nullable=False),
    Column("model", String, nullable=False),
    Column("conversation_id", String, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("last_use_ms", BigInteger, nullable=False),
    Column("idle_ttl_ms", BigInteger, nullable=False),
    # When it ends, unless it is used before.
    Column("expires_ms", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Index("sessions_by_tenant", "tenant_id", "created_ms", "id"),
    Index("sessions_by_expiry", "expires_ms"),
)

# Workers that may hold KV of a session.
homes = Table(
    "session_homes",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("worker_id", String, primary_key=True),
    Column("address", String, nullable=False),
)

# Sessions that were deleted, for the gateways that still remember them.
deletions = Table(
    "session_deletions",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("session_id", String, nullable=False),
    Column("tenant_id", String, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
)

# One row. Whoever deletes holds it until the end, so that numbers become visible in their order.
deletion_head = Table(
    "session_deletion_head",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)
