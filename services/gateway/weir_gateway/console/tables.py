"""Sessions of the console, where several gateways serve it."""

from sqlalchemy import BigInteger, Column, String, Table

from weir_gateway.state.tables import metadata

console_sessions = Table(
    "console_sessions",
    metadata,
    # Digest of the cookie, which is kept nowhere.
    Column("name", String, primary_key=True),
    # Who it is, as JSON.
    Column("identity", String, nullable=False),
    # Of the row, by what gateways share and databases do not hold.
    Column("seal", String, nullable=False),
    # Last call, give or take a minute, and the end in any case; Unix milliseconds.
    Column("used_ms", BigInteger, nullable=False),
    Column("ends_ms", BigInteger, nullable=False, index=True),
)
