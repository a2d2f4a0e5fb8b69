"""What tenants hold, counted; webhooks' secrets may be encrypted, in the columns as they are."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_COUNT = (
    "INSERT INTO tenant_holdings (tenant_id, kind, objects, bytes) "
    "SELECT tenant_id, '{kind}', COUNT(*), COALESCE(SUM({size}), 0) FROM {table} GROUP BY tenant_id"
)
_ADD_EVENTS = (
    "UPDATE tenant_holdings SET bytes = bytes + COALESCE((SELECT SUM(LENGTH(data)) "
    "FROM response_events WHERE response_events.tenant_id = tenant_holdings.tenant_id), 0) "
    "WHERE kind = 'responses'"
)
_SIZES = {
    "responses": ("responses", "LENGTH(response) + LENGTH(items)"),
    "idempotency": (
        "idempotency_keys",
        "COALESCE(LENGTH(head), 0) + COALESCE(LENGTH(body), 0)",
    ),
    "webhooks": ("webhook_messages", "0"),
}


def upgrade() -> None:
    """From the revision before."""
    op.create_table(
        "tenant_holdings",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("objects", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "idempotency_keys_by_age", "idempotency_keys", ["tenant_id", "state", "expires_ms"]
    )
    for statement in counting():
        op.execute(statement)


def counting() -> list[str]:
    """Statements that count what is there, into the empty table."""
    counts = [
        _COUNT.format(kind=kind, table=table, size=size) for kind, (table, size) in _SIZES.items()
    ]
    return [*counts, _ADD_EVENTS]
