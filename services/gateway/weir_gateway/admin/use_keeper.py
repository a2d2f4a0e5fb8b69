"""Keeps in the directory's database when keys were used last."""

import asyncio

import structlog

from weir_core.errors import WeirError
from weir_core.repeating import Repeating
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.directory.sql.source import SqlDirectory

_log = structlog.get_logger(__name__)

_LAST_S = 2.0


class UseKeeper:
    """Writes what was collected, now and then and at the end.

    While the database is away they are lost: they tell of keys in use, which are used again.

    Args:
        source: of the directory.
        uses: what is collected.
        every_s: how often.
    """

    def __init__(self, source: SqlDirectory, uses: KeyUses, *, every_s: float = 60.0) -> None:
        self._source = source
        self._uses = uses
        self._writes = Repeating("key_uses", self.keep, every_s)

    def start(self) -> None:
        """Begins."""
        self._writes.start()

    async def stop(self) -> None:
        """Ends, and writes what is left."""
        await self._writes.stop()
        try:
            async with asyncio.timeout(_LAST_S):
                await self.keep()
        except TimeoutError:
            _log.warning("key_uses_lost", limit_s=_LAST_S)

    async def keep(self) -> None:
        """Writes what was collected so far."""
        taken = self._uses.take()
        if not taken:
            return
        try:
            await self._source.keep_uses(taken)
        except WeirError as error:
            _log.warning("key_uses_lost", keys=len(taken), problem=error.message)
