"""Tables of the ledger. Integers only; times are Unix milliseconds."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    Uuid,
    text,
)

MEASURES = (
    "requests",
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "amount_nanos",
)
"""What rows are summed by."""

LIMB = 10**9
"""A sum is kept as `<measure>_hi * LIMB + <measure>_lo`: sums of 2^53 leave 64 bits."""

GRANTS_ONLY = "limit_id <> ''"
"""Said in a query too, so that it can use the small index of the rows that are grants."""

UNIQUE_ROW = ("tenant_id", "reservation_id", "kind")
HOUR_KEY = ("tenant_id", "hour_ms", "user_id", "api_key_id", "model")

metadata = MetaData()


def _text(name: str) -> Column[str]:
    return Column(name, String, nullable=False)


def _whole(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


rows = Table(
    "ledger_rows",
    metadata,
    Column("id", Uuid(as_uuid=False), primary_key=True),
    Column("kind", SmallInteger, nullable=False),
    *map(_text, ("tenant_id", "user_id", "api_key_id", "model", "model_version")),
    *map(_text, ("reservation_id", "request_id")),
    *map(_whole, MEASURES),
    Column("usage_quality", SmallInteger, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    *map(_whole, ("price_version", "input_nanos", "cached_input_nanos", "output_nanos")),
    *map(_whole, ("reserve_ms", "settle_ms")),
    Column("ttft_ms", BigInteger),
    Column("latency_ms", BigInteger),
    *map(_text, ("worker_id", "trace_id", "limit_id")),
    _whole("units"),
    _text("note"),
    UniqueConstraint(*UNIQUE_ROW, name="ledger_rows_once"),
    Index("ledger_rows_by_tenant", "tenant_id", "id"),
    Index("ledger_rows_by_tenant_reserve", "tenant_id", "reserve_ms"),
    Index("ledger_rows_by_reserve", "reserve_ms"),
    Index("ledger_rows_by_request", "request_id", "tenant_id", "id"),
    Index(
        "ledger_rows_by_limit",
        "limit_id",
        "reserve_ms",
        sqlite_where=text(GRANTS_ONLY),
        postgresql_where=text(GRANTS_ONLY),
    ),
)

hours = Table(
    "usage_hours",
    metadata,
    Column("tenant_id", String, primary_key=True),
    Column("hour_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("user_id", String, primary_key=True),
    Column("api_key_id", String, primary_key=True),
    Column("model", String, primary_key=True),
    *map(_whole, ("row_count", "charges")),
    *(_whole(f"{measure}_{limb}") for measure in MEASURES for limb in ("hi", "lo")),
    Index("usage_hours_by_hour", "hour_ms"),
)

# One row. Whoever writes updates it first, so that writers take turns on every database.
head = Table(
    "ledger_head",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    _whole("turns"),
    Column("last_id", Uuid(as_uuid=False), nullable=False),
    Column("written_ms", BigInteger),
)

# Events that could not be written; kept as they came.
rejects = Table(
    "ledger_rejects",
    metadata,
    Column("digest", String, primary_key=True),
    _text("tenant_id"),
    _whole("rejected_ms"),
    _text("cause"),
    Column("event", LargeBinary, nullable=False),
)

# Tenants that were erased, by pseudonym: a late repeat of an erased row is known by it.
erasures = Table(
    "ledger_erasures",
    metadata,
    Column("pseudonym", String, primary_key=True),
    _whole("erased_ms"),
)
