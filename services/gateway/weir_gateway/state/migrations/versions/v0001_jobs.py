"""Jobs."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """From the revision before."""
