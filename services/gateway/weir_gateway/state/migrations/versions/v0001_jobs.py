"""Jobs, who runs them, and webhooks."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TEXTS = (
    "tenant_id",
    "user_id",
    "api_key_id",
    "kind",
    "model",
    "state",
    "request_id",
    "batch_id",
    "custom_id",
    "webhook_url",
    "error_reason",
    "runner_id",
)
_NUMBERS = (
    "version",
    "created_ms",
    "deadline_ms",
    "started_ms",
    "ended_ms",
    "expires_ms",
    "not_before_ms",
    "cancel_ms",
    "enqueued_tokens",
    "line",
    "charge_due_ms",
)
_INDICES = {
    "jobs_by_turn": ["state", "tenant_id", "not_before_ms", "id"],
    "jobs_by_deadline": ["state", "deadline_ms"],
    "jobs_by_tenant": ["tenant_id", "batch_id", "id"],
    "jobs_by_line": ["batch_id", "line"],
    "jobs_by_batch": ["batch_id", "state"],
    "jobs_by_charge": ["charge_due_ms"],
    "jobs_by_expiry": ["expires_ms"],
}


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "jobs",
        sa.Column("id", sa.String, primary_key=True),
        *(sa.Column(name, sa.String, nullable=False) for name in _TEXTS),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _NUMBERS),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("idempotency_key", sa.String),
        sa.Column("error_message", sa.Text, nullable=False),
        *(
            sa.Column(name, sa.LargeBinary, nullable=False)
            for name in ("fingerprint", "usage", "charge", "result", "body")
        ),
    )
    for name, columns in _INDICES.items():
        op.create_index(name, "jobs", columns)
    op.create_index(
        "jobs_by_key", "jobs", ["tenant_id", "api_key_id", "idempotency_key"], unique=True
    )
    op.create_table(
        "job_runners",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
    )
    _create_webhooks()


def _create_webhooks() -> None:
    op.create_table(
        "webhook_secrets",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("secret", sa.String, nullable=False),
        sa.Column("previous", sa.String, nullable=False),
        sa.Column("previous_until_ms", sa.BigInteger, nullable=False),
        sa.Column("changed_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "webhook_endpoints",
        sa.Column("tenant_id", sa.String, primary_key=True),
        sa.Column("url", sa.String, primary_key=True),
        sa.Column("registered", sa.Boolean, nullable=False),
        sa.Column("disabled_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "webhook_messages",
        sa.Column("id", sa.String, primary_key=True),
        *(
            sa.Column(name, sa.String, nullable=False)
            for name in ("tenant_id", "url", "type", "last_error")
        ),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("created_ms", "due_ms", "delivered_ms", "expires_ms")
        ),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("last_status", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    for name, columns in (
        ("webhook_messages_by_turn", ["due_ms", "tenant_id"]),
        ("webhook_messages_by_url", ["tenant_id", "url"]),
        ("webhook_messages_by_expiry", ["expires_ms"]),
    ):
        op.create_index(name, "webhook_messages", columns)
