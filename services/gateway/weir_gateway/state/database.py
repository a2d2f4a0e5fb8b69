"""The database of what gateways keep for their tenants: sessions, jobs, files and the like."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.database import database
from weir_core.database.failures import FAILURES, cause_of
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_core.telemetry.logs import get_logger
from weir_gateway.state.schema import SCHEMA

_log = get_logger(__name__)

_WRITE_S = 10.0
_READ_S = 10.0
_RETRY_S = 5.0


class StateDatabase(database.Database):
    """Connections to the state that all gateways of a deployment share.

    `writing` and `reading` raise WeirError(STATE_UNAVAILABLE) while it is down.
    """

    def __init__(self, url: URL) -> None:
        super().__init__(url, SCHEMA, what="the state", knob="state_url")

    on = True

    async def start(self) -> None:
        """Brings the schema up to date; a database that is down is tried again when used.

        Raises:
            StartupError: it is of a later release, or its file cannot be made.
        """
        try:
            await self.ready()
        except StartupError:
            raise
        except FAILURES as error:
            _log.warning("state_unavailable", error=cause_of(error))

    @asynccontextmanager
    async def writing(self, limit_s: float = _WRITE_S) -> AsyncIterator[AsyncConnection]:
        """A transaction that may write, committed at the end, rolled back on an exception."""
        try:
            await self.ready()
            async with self.transaction(limit_s) as connection:
                yield connection
        except FAILURES as error:
            raise _unavailable(error) from error

    @asynccontextmanager
    async def reading(self, limit_s: float = _READ_S) -> AsyncIterator[AsyncConnection]:
        """A view of one moment; writers go on meanwhile."""
        try:
            await self.ready()
            async with super().reading(limit_s) as connection:
                yield connection
        except FAILURES as error:
            raise _unavailable(error) from error


def _unavailable(error: BaseException) -> WeirError:
    return WeirError(
        Reason.STATE_UNAVAILABLE,
        f"the state database cannot be read or written: {cause_of(error)}; see state_url",
        retry_after_s=_RETRY_S,
    )
