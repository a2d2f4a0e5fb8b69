"""The schema of what gateways keep for their tenants."""

from pathlib import Path

from weir_core.database.schema import Schema

# The lock is `weirstat` in ASCII.
SCHEMA = Schema(Path(__file__).parent / "migrations", lock=0x7765697273746174)
