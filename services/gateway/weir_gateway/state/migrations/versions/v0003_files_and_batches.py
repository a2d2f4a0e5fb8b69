"""Files and batches."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """From the revision before."""
    _files()
    _batches()


def _files() -> None:
    op.create_table(
        "files",
        sa.Column("id", sa.String, primary_key=True),
        *_texts("tenant_id", "state", "name", "purpose"),
        *_numbers("size", "created_ms", "expires_ms", "written_ms"),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("readers", sa.Integer, nullable=False),
    )
    op.create_index("files_by_tenant", "files", ["tenant_id", "id"])
    op.create_index("files_by_state", "files", ["state", "written_ms"])
    op.create_index("files_by_expiry", "files", ["state", "expires_ms"])
    op.create_table(
        "file_chunks",
        sa.Column("file_id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def _batches() -> None:
    op.create_table(
        "batches",
        sa.Column("id", sa.String, primary_key=True),
        *_texts(
            "tenant_id",
            "user_id",
            "api_key_id",
            "state",
            "endpoint",
            "model",
            "input_file_id",
            "output_file_id",
            "error_file_id",
            "webhook_url",
            "lease_id",
        ),
        *_numbers(
            "created_ms",
            "deadline_ms",
            "in_progress_ms",
            "finalizing_ms",
            "cancelling_ms",
            "ended_ms",
            "output_ttl_ms",
            "enqueued_tokens",
            "inserted_bytes",
            "lease_ms",
            "due_ms",
        ),
        *(
            sa.Column(name, sa.Integer, nullable=False)
            for name in ("total", "completed", "failed", "inserted", "written")
        ),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("errors", sa.Text, nullable=False),
        *(sa.Column(name, sa.LargeBinary, nullable=False) for name in ("line_tokens", "usage")),
    )
    op.create_index("batches_by_tenant", "batches", ["tenant_id", "id"])
    op.create_index("batches_by_turn", "batches", ["state", "due_ms"])


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]
