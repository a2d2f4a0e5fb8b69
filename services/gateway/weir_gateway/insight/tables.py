"""The gateways of a deployment, each with a sign of life."""

from sqlalchemy import BigInteger, Column, String, Table

from weir_gateway.state.tables import metadata

gateways = Table(
    "gateways",
    metadata,
    Column("id", String, primary_key=True),
    # host:port at which the other services reach it.
    Column("address", String, nullable=False),
    # Its last sign of life, Unix milliseconds by its own clock.
    Column("seen_ms", BigInteger, nullable=False),
)
