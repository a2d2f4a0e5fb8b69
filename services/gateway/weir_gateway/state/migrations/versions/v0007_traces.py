"""The traces that jobs and batches were submitted in."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """From the revision before."""
    for table in ("jobs", "batches"):
        column = sa.Column("traceparent", sa.String, nullable=False, server_default="")
        op.add_column(table, column)
