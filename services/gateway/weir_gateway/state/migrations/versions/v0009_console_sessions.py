"""Sessions of the console, which every gateway takes."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """From the revision before."""
    op.create_table(
        "console_sessions",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("identity", sa.String, nullable=False),
        sa.Column("seal", sa.String, nullable=False),
        sa.Column("used_ms", sa.BigInteger, nullable=False),
        sa.Column("ends_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_console_sessions_ends_ms", "console_sessions", ["ends_ms"])
