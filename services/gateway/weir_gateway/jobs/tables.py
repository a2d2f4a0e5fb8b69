"""Tables of jobs. Times are Unix milliseconds, 0 for none."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table, Text

from weir_gateway.state.tables import metadata

jobs = Table(
    "jobs",
    metadata,
    Column("id", String, primary_key=True),
    Column("tenant_id", String, nullable=False),
    Column("user_id", String, nullable=False),
    Column("api_key_id", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("model", String, nullable=False),
    Column("state", String, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("deadline_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("not_before_ms", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("request_id", String, nullable=False),
    Column("cancel_ms", BigInteger, nullable=False),
    Column("enqueued_tokens", BigInteger, nullable=False),
    Column("batch_id", String, nullable=False),
    Column("line", BigInteger, nullable=False),
    Column("custom_id", String, nullable=False),
    Column("webhook_url", String, nullable=False),
    # NULL for none: two NULLs are not equal.
    Column("idempotency_key", String),
    Column("fingerprint", LargeBinary, nullable=False),
    # Of the span that submitted it; a gateway of an earlier version writes none.
    Column("traceparent", String, nullable=False, server_default=""),
    Column("error_reason", String, nullable=False),
    Column("error_message", Text, nullable=False),
    # A serialised `weir.common.v1.Usage`.
    Column("usage", LargeBinary, nullable=False),
    # The runner that has it; empty unless it runs.
    Column("runner_id", String, nullable=False),
    # A serialised SettleRequest that is still to be sent, and when to try; empty and 0 if none.
    Column("charge", LargeBinary, nullable=False),
    Column("charge_due_ms", BigInteger, nullable=False),
    Column("result", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("jobs_by_turn", "state", "tenant_id", "not_before_ms", "id"),
    Index("jobs_by_deadline", "state", "deadline_ms"),
    # Lists of jobs pass over lines of batches, however many there are.
    Index("jobs_by_tenant", "tenant_id", "batch_id", "id"),
    Index("jobs_by_key", "tenant_id", "api_key_id", "idempotency_key", unique=True),
    Index("jobs_by_line", "batch_id", "line"),
    Index("jobs_by_batch", "batch_id", "state"),
    Index("jobs_by_charge", "charge_due_ms"),
    Index("jobs_by_expiry", "expires_ms"),
)

# Who runs jobs: one row a process, so that a beat of its heart writes one row.
runners = Table(
    "job_runners",
    metadata,
    Column("id", String, primary_key=True),
    Column("until_ms", BigInteger, nullable=False),
)
