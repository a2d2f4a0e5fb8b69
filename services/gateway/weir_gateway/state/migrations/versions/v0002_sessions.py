"""Sessions."""

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """From the revision before."""
