"""State as the rooms that keep something see it."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from pydantic import SecretStr
from sqlalchemy import Table
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresInsert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database.url import parse_database_url
from weir_core.errors import Reason, WeirError
from weir_gateway.state.database import StateDatabase

_HOW = "WEIR_GATEWAY__STATE_URL"


class State(Protocol):
    """A database, or `NoState`; all methods raise WeirError when there is none."""

    def writing(self, limit_s: float = ...) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that may write, committed at the end, rolled back on an exception."""

    def reading(self, limit_s: float = ...) -> AbstractAsyncContextManager[AsyncConnection]:
        """A view of one moment; writers go on meanwhile."""

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """An INSERT that can say what to do on a conflict."""

    async def start(self) -> None:
        """Brings the schema up to date; a database that is down is tried again when used.

        Raises:
            StartupError: it is of a later release, or its file cannot be made.
        """

    async def close(self) -> None:
        """Closes all connections."""

    @property
    def on(self) -> bool:
        """Whether there is a database."""


class NoState:
    """Of a gateway without a state database: whatever needs one is refused with STATE_OFF."""

    on = False

    def writing(self, limit_s: float = 0) -> AbstractAsyncContextManager[AsyncConnection]:
        """Refuses."""
        raise _off()

    def reading(self, limit_s: float = 0) -> AbstractAsyncContextManager[AsyncConnection]:
        """Refuses."""
        raise _off()

    def insert(self, table: Table) -> SqliteInsert | PostgresInsert:
        """Refuses."""
        raise _off()

    async def start(self) -> None:
        """There is nothing to start."""

    async def close(self) -> None:
        """There is nothing to close."""


def open_state(url: SecretStr | None) -> State:
    """The state of a gateway; nothing connects yet. Raises StartupError for a bad URL."""
    if url is None:
        return NoState()
    return StateDatabase(parse_database_url(url.get_secret_value(), "state_url", _HOW))


def _off() -> WeirError:
    return WeirError(
        Reason.STATE_OFF,
        "this gateway keeps no sessions, jobs, files, responses or idempotency keys: it was "
        f"started without a state database; set {_HOW}",
    )
