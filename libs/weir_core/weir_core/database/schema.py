"""The schema of a database, as alembic migrations bring it up to date."""

from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text


@dataclass(frozen=True, slots=True)
class Schema:
    """Migrations of one part of a database.

    Attributes:
        migrations: folder with `env.py` and `versions`; `env.py` takes the connection from
            `context.config.attributes["connection"]`.
        lock: of PostgreSQL, so that one process at a time migrates; 64 bits.
    """

    migrations: Path
    lock: int

    @property
    def version(self) -> str:
        """The revision that this release works with."""
        version = ScriptDirectory.from_config(self._config()).get_current_head()
        assert version is not None
        return version

    def upgrade(self, connection: Connection) -> None:
        """Runs what is missing, in the transaction that `connection` is in.

        SQLite must be in `BEGIN IMMEDIATE` already.

        Raises:
            alembic.util.CommandError: the database is of a later release.
        """
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": self.lock})
        config = self._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    def _config(self) -> Config:
        config = Config()
        config.set_main_option("script_location", str(self.migrations).replace("%", "%%"))
        return config
