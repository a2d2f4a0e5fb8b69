"""The schema of the ledger."""

from pathlib import Path

from weir_core.database.schema import Schema

# The lock is `weirledg` in ASCII.
SCHEMA = Schema(Path(__file__).parent / "migrations", lock=0x776569726C656467)
