"""Objects of the directory, its version and its audit trail."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_OBJECTS = ("tenants", "users", "api_keys", "plans", "models", "pools", "cluster")


def upgrade() -> None:
    """From nothing."""
    for name in _OBJECTS:
        _objects(f"directory_{name}")
    head = op.create_table(
        "directory_head",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("turns", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "turns": 0, "version": 0}])
    op.create_table(
        "directory_audit_events",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("actor", "action", "object", "tenant_id")
        ),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "directory_audit_events_by_tenant", "directory_audit_events", ["tenant_id", "id"]
    )


def _objects(name: str) -> None:
    more = [sa.Column("overlap_end_ms", sa.BigInteger)] if name.endswith("_keys") else []
    op.create_table(
        name,
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("tenant_id", sa.String, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        *more,
    )
    op.create_index(f"{name}_by_version", name, ["version"])
