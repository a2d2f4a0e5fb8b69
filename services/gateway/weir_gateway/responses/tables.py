"""Tables of responses. Times are Unix milliseconds."""

from sqlalchemy import BigInteger, Boolean, Column, Index, LargeBinary, String, Table

from weir_gateway.state.tables import metadata

responses = Table(
    "responses",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("chain_id", String, nullable=False),
    Column("background", Boolean, nullable=False),
    # JSON: the object `response`, and the items that it was made from.
    Column("response", LargeBinary, nullable=False),
    Column("items", LargeBinary, nullable=False),
    Index("responses_by_expiry", "expires_ms"),
)

# Of background responses.
events = Table(
    "response_events",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("response_id", String, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
