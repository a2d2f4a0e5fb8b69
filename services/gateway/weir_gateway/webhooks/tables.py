"""Tables of webhooks. Times are Unix milliseconds, 0 for none."""

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, String, Table

from weir_gateway.state.tables import metadata

# What signs a tenant's webhooks; `previous` signs, too, until `previous_until_ms`.
secrets = Table(
    "webhook_secrets",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("secret", String, nullable=False),
    Column("previous", String, nullable=False),
    Column("previous_until_ms", BigInteger, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)

# URLs that are known: those that get every event of a tenant, and those that are disabled.
endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("url", String, primary_key=True),
    Column("registered", Boolean, nullable=False),
    Column("disabled_ms", BigInteger, nullable=False),
)

# The outbox: a message is due at `due_ms`; 0: it was delivered, or given up.
messages = Table(
    "webhook_messages",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant_id", String, nullable=False),
    Column("url", String, nullable=False),
    Column("type", String, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("delivered_ms", BigInteger, nullable=False),
    # Of the last attempt: a status, or 0 and why there was none.
    Column("last_status", Integer, nullable=False),
    Column("last_error", String, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    # Those of a tenant that has its share under way are passed over in the index alone.
    Index("webhook_messages_by_turn", "due_ms", "tenant_id"),
    Index("webhook_messages_by_url", "tenant_id", "url"),
    Index("webhook_messages_by_expiry", "expires_ms"),
)
