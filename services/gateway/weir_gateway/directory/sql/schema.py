"""Brings a database to the present schema."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

_MIGRATIONS = Path(__file__).parent / "migrations"
# `weirdire` in ASCII.
_LOCK = 0x7765697264697265


def upgrade(connection: Connection) -> None:
    """Runs what is missing, in the transaction that `connection` is in; one process at a time.

    SQLite must be in `BEGIN IMMEDIATE` already.

    Raises:
        alembic.util.CommandError: the database is of a later release.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
