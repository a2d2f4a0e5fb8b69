"""Tables of files. Times are Unix milliseconds, 0 for none."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
)

from weir_gateway.state.tables import metadata

files = Table(
    "files",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("name", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    # Of the last chunk: writing that has stopped is given up after a while.
    Column("written_ms", BigInteger, nullable=False),
    # Batches that still read it: it is not removed meanwhile.
    Column("readers", Integer, nullable=False),
    Index("files_by_tenant", "tenant_id", "id"),
    Index("files_by_state", "state", "written_ms"),
    Index("files_by_expiry", "state", "expires_ms"),
)

chunks = Table(
    "file_chunks",
    metadata,
    Column("file_id", String, primary_key=True),
    # From 0; all but the last of an uploaded file are of one size.
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
