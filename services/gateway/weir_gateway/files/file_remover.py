"""Takes files out of the state database."""

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.files.file import FileState
from weir_gateway.files.file_store import FileStore
from weir_gateway.files.tables import chunks, files
from weir_gateway.state.state import State

_STALLED_MS = 3_600_000
_SWEPT_FILES = 100
_SWEPT_CHUNKS = 16


class FileRemover:
    """Marks files as removed, so that nobody sees them, and deletes their content then.

    Methods raise WeirError(STATE_UNAVAILABLE or STATE_OFF) while there is no database.
    """

    def __init__(self, state: State, store: FileStore, clock: Clock) -> None:
        self._state = state
        self._store = store
        self._clock = clock

    async def remove(self, tenant_id: str, file_id: str) -> None:
        """Removes a file of a tenant.

        Raises:
            WeirError: FILE_NOT_FOUND, or STATE_CONFLICT: a batch still reads it.
        """
        async with self._state.writing() as connection:
            await self._store.look(connection, tenant_id, file_id)
            free = and_(files.c.id == file_id, files.c.readers == 0)
            if not await self._mark_removed(connection, free):
                raise WeirError(
                    Reason.STATE_CONFLICT,
                    f"a batch still reads the file {file_id}; wait until the batch is in "
                    "progress, or cancel it, and delete the file then",
                )
        await self._drop(file_id)

    async def abandon(self, file_id: str) -> None:
        """Removes a file that was not written to its end."""
        async with self._state.writing() as connection:
            await self._store.discard(connection, file_id)
        await self._drop(file_id)

    async def sweep(self) -> int:
        """Removes what has expired and what nobody writes any more; how many files went."""
        now_ms = self._clock.now_ms()
        expired = and_(
            files.c.state == FileState.READY,
            files.c.expires_ms.between(1, now_ms),
        )
        stalled = and_(
            files.c.state == FileState.WRITING, files.c.written_ms < now_ms - _STALLED_MS
        )
        async with self._state.writing() as connection:
            await self._mark_removed(connection, and_(or_(expired, stalled), files.c.readers == 0))
            query = select(files.c.id).where(files.c.state == FileState.REMOVED)
            found = list((await connection.execute(query.limit(_SWEPT_FILES))).scalars())
        for file_id in found:
            await self._drop(file_id)
        return len(found)

    async def _mark_removed(self, connection: AsyncConnection, which: ColumnElement[bool]) -> bool:
        marked = await connection.execute(
            update(files).where(which).values(state=FileState.REMOVED)
        )
        return marked.rowcount > 0

    async def _drop(self, file_id: str) -> None:
        """Deletes the content in several transactions, so that no writer waits long for it."""
        some = select(chunks.c.number).where(chunks.c.file_id == file_id).limit(_SWEPT_CHUNKS)
        gone = delete(chunks).where(
            chunks.c.file_id == file_id, chunks.c.number.in_(some.scalar_subquery())
        )
        left = True
        while left:
            async with self._state.writing() as connection:
                left = (await connection.execute(gone)).rowcount == _SWEPT_CHUNKS
                if not left:
                    await connection.execute(delete(files).where(files.c.id == file_id))
