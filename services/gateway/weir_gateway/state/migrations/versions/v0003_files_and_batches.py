"""Files and batches."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """From the revision before."""
