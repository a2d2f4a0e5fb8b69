"""Brings a database to the present schema."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

_MIGRATIONS = Path(__file__).parent / "migrations"
# `weirledg` in ASCII.
_LOCK = 0x776569726C656467


def schema_version() -> str:
    """The revision that this release works with."""
    version = ScriptDirectory.from_config(_config()).get_current_head()
    assert version is not None
    return version


def upgrade(connection: Connection) -> None:
    """Run what is missing, in the transaction that `connection` is in; one process at a time.

    SQLite must be in `BEGIN IMMEDIATE` already.

    Raises:
        alembic.util.CommandError: the database is of a later release.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config
