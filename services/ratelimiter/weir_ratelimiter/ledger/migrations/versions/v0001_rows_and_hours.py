"""Rows, their sums by hour, and what belongs to them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_MEASURES = (
    "requests",
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "amount_nanos",
)


def upgrade() -> None:
    """From nothing."""
    _rows()
    _hours()
    head = op.create_table(
        "ledger_head",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        _whole("turns"),
        sa.Column("last_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("written_ms", sa.BigInteger),
    )
    nothing = "00000000-0000-0000-0000-000000000000"
    op.bulk_insert(head, [{"id": 1, "turns": 0, "last_id": nothing, "written_ms": None}])
    op.create_table(
        "ledger_rejects",
        sa.Column("digest", sa.String, primary_key=True),
        _text("tenant_id"),
        _whole("rejected_ms"),
        _text("cause"),
        sa.Column("event", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "ledger_erasures",
        sa.Column("pseudonym", sa.String, primary_key=True),
        _whole("erased_ms"),
    )


def _rows() -> None:
    op.create_table(
        "ledger_rows",
        sa.Column("id", sa.Uuid(as_uuid=False), primary_key=True),
        sa.Column("kind", sa.SmallInteger, nullable=False),
        *map(_text, ("tenant_id", "user_id", "api_key_id", "model", "model_version")),
        *map(_text, ("reservation_id", "request_id")),
        *map(_whole, _MEASURES),
        sa.Column("usage_quality", sa.SmallInteger, nullable=False),
        sa.Column("outcome", sa.SmallInteger, nullable=False),
        *map(_whole, ("price_version", "input_nanos", "cached_input_nanos", "output_nanos")),
        *map(_whole, ("reserve_ms", "settle_ms")),
        sa.Column("ttft_ms", sa.BigInteger),
        sa.Column("latency_ms", sa.BigInteger),
        *map(_text, ("worker_id", "trace_id", "limit_id")),
        _whole("units"),
        _text("note"),
        sa.UniqueConstraint("tenant_id", "reservation_id", "kind", name="ledger_rows_once"),
    )
    op.create_index("ledger_rows_by_tenant", "ledger_rows", ["tenant_id", "id"])
    op.create_index("ledger_rows_by_tenant_reserve", "ledger_rows", ["tenant_id", "reserve_ms"])
    op.create_index("ledger_rows_by_reserve", "ledger_rows", ["reserve_ms"])
    op.create_index("ledger_rows_by_request", "ledger_rows", ["request_id", "tenant_id", "id"])
    grants = sa.text("limit_id <> ''")
    op.create_index(
        "ledger_rows_by_limit",
        "ledger_rows",
        ["limit_id", "reserve_ms"],
        sqlite_where=grants,
        postgresql_where=grants,
    )


def _hours() -> None:
    op.create_table(
        "usage_hours",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("hour_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("user_id", sa.String, primary_key=True),
        sa.Column("api_key_id", sa.String, primary_key=True),
        sa.Column("model", sa.String, primary_key=True),
        *map(_whole, ("row_count", "charges")),
        *(_whole(f"{measure}_{limb}") for measure in _MEASURES for limb in ("hi", "lo")),
    )
    op.create_index("usage_hours_by_hour", "usage_hours", ["hour_ms"])


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String, nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)
