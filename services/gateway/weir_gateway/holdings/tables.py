"""The table of what each tenant has in the state database."""

from sqlalchemy import BigInteger, Column, String, Table

from weir_gateway.state.tables import metadata

holdings = Table(
    "tenant_holdings",
    metadata,
    Column("tenant_id", String, primary_key=True),
    # See `Kind`.
    Column("kind", String, primary_key=True),
    Column("objects", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)
