"""The table of batches. Times are Unix milliseconds, 0 for none."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table, Text

from weir_gateway.state.tables import metadata

batches = Table(
    "batches",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant_id", String, nullable=False),
    Column("user_id", String, nullable=False),
    Column("api_key_id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("endpoint", String, nullable=False),
    Column("model", String, nullable=False),
    Column("input_file_id", String, nullable=False),
    Column("output_file_id", String, nullable=False),
    Column("error_file_id", String, nullable=False),
    Column("webhook_url", String, nullable=False),
    # Of the span that submitted it; a gateway of an earlier version writes none.
    Column("traceparent", String, nullable=False, server_default=""),
    Column("created_ms", BigInteger, nullable=False),
    Column("deadline_ms", BigInteger, nullable=False),
    Column("in_progress_ms", BigInteger, nullable=False),
    Column("finalizing_ms", BigInteger, nullable=False),
    Column("cancelling_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=False),
    Column("output_ttl_ms", BigInteger, nullable=False),
    Column("total", Integer, nullable=False),
    Column("completed", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("inserted", Integer, nullable=False),
    Column("inserted_bytes", BigInteger, nullable=False),
    Column("written", Integer, nullable=False),
    Column("enqueued_tokens", BigInteger, nullable=False),
    Column("line_tokens", LargeBinary, nullable=False),
    # JSON.
    Column("metadata", Text, nullable=False),
    Column("errors", Text, nullable=False),
    # A serialised `weir.common.v1.Usage`.
    Column("usage", LargeBinary, nullable=False),
    # Of whoever carries it on: nobody else writes while it holds.
    Column("lease_id", String, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    # When somebody should look at it again.
    Column("due_ms", BigInteger, nullable=False),
    Index("batches_by_tenant", "tenant_id", "id"),
    Index("batches_by_turn", "state", "due_ms"),
)
