"""Tables of prefixes. Times are Unix milliseconds."""

from sqlalchemy import BigInteger, Column, String, Table, Text

from weir_gateway.state.tables import metadata

# The last version of each name that there ever was: none comes back.
names = Table(
    "prefix_names",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("last_version", BigInteger, nullable=False),
)

prefixes = Table(
    "prefixes",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    # JSON.
    Column("models", Text, nullable=False),
    Column("api_key_id", String, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# Where one was computed, or is being computed: then without tokens.
warmings = Table(
    "prefix_warmings",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("model", String, primary_key=True),
    Column("worker_id", String, primary_key=True),
    Column("time_ms", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
)
