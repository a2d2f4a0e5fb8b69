"""The schema of the directory."""

from pathlib import Path

from weir_core.database.schema import Schema

# The lock is `weirdire` in ASCII.
SCHEMA = Schema(Path(__file__).parent / "migrations", lock=0x7765697264697265)
