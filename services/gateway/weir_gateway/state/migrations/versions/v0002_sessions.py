"""Sessions, who holds their KV, which were deleted; named prefixes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """From the revision before."""
    _sessions()
    _prefixes()


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.String, primary_key=True),
        *_texts("tenant_id", "model", "conversation_id"),
        *_numbers("created_ms", "last_use_ms", "idle_ttl_ms", "expires_ms", "tokens"),
    )
    op.create_index("sessions_by_tenant", "sessions", ["tenant_id", "created_ms", "id"])
    op.create_index("sessions_by_expiry", "sessions", ["expires_ms"])
    op.create_table(
        "session_homes",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("worker_id", sa.String, primary_key=True),
        *_texts("address"),
    )
    op.create_table(
        "session_deletions",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        *_texts("session_id", "tenant_id"),
        *_numbers("time_ms"),
    )
    head = op.create_table(
        "session_deletion_head",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        *_numbers("number"),
    )
    op.bulk_insert(head, [{"id": 1, "number": 0}])


def _prefixes() -> None:
    op.create_table(
        "prefix_names",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        *_numbers("last_version"),
    )
    op.create_table(
        "prefixes",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("models", sa.Text, nullable=False),
        *_texts("api_key_id"),
        *_numbers("created_ms"),
    )
    op.create_table(
        "prefix_warmings",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("model", sa.String, primary_key=True),
        sa.Column("worker_id", sa.String, primary_key=True),
        *_numbers("time_ms", "prompt_tokens"),
    )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]
