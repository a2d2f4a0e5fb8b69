"""Files in the state database: a row each, and their content in chunks."""

from collections.abc import AsyncIterator

from sqlalchemy import ColumnElement, RowMapping, and_, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import is_caller_id, new_id
from weir_gateway.files.bounds import FileBounds
from weir_gateway.files.file import File, FileState, Purpose
from weir_gateway.files.tables import chunks, files
from weir_gateway.holdings.bounds import Kind
from weir_gateway.holdings.counts import HoldingCounts
from weir_gateway.state.state import State

CHUNK_BYTES = 1_048_576
"""Of an uploaded file's chunks, the last apart."""

_INFO = (
    files.c.id,
    files.c.tenant_id,
    files.c.name,
    files.c.purpose,
    files.c.size,
    files.c.created_ms,
    files.c.expires_ms,
)


class FileStore:
    """See the module.

    Methods that take a connection run in its transaction; the others raise
    WeirError(STATE_UNAVAILABLE or STATE_OFF) while there is no database.
    """

    def __init__(self, state: State, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._turns = HoldingCounts(state, Kind.FILES)

    async def begin(self, tenant_id: str, bounds: FileBounds) -> str:
        """A file to write, by its id; nobody sees it before `publish`.

        Raises:
            WeirError: STORAGE_EXCEEDED.
        """
        async with self._state.writing() as connection:
            await self._turns.take_turn(connection, tenant_id)
            bounds.check_count(await self._count(connection, tenant_id))
            return await self.create(connection, tenant_id)

    async def create(
        self,
        connection: AsyncConnection,
        tenant_id: str,
        *,
        name: str = "",
        purpose: str = "",
        readers: int = 0,
    ) -> str:
        """A file to write, whatever its tenant has already.

        Args:
            connection: of the transaction.
            tenant_id: its owner.
            name, purpose: may also be set by `publish`.
            readers: with one, it is not given up however long it is not written.
        """
        now_ms = self._clock.now_ms()
        file_id = new_id("file", self._clock)
        row = {
            "id": file_id,
            "tenant_id": tenant_id,
            "state": FileState.WRITING,
            "name": name,
            "purpose": purpose,
            "size": 0,
            "chunks": 0,
            "created_ms": now_ms,
            "expires_ms": 0,
            "written_ms": now_ms,
            "readers": readers,
        }
        await connection.execute(files.insert().values(row))
        return file_id

    async def append(self, file_id: str, content: bytes, bounds: FileBounds) -> None:
        """Writes the next chunk.

        Raises:
            WeirError: STORAGE_EXCEEDED: with it the tenant would keep more than it may; or
                FILE_NOT_FOUND: writing took so long that it was given up.
        """
        async with self._state.writing() as connection:
            tenant_id = await self.add_chunk(connection, file_id, content)
            await self._turns.take_turn(connection, tenant_id)
            kept = await self._size(connection, tenant_id)
            bounds.check_size(kept - len(content), len(content))

    async def add_chunk(self, connection: AsyncConnection, file_id: str, content: bytes) -> str:
        """Writes the next chunk; the owner of the file. Raises WeirError(FILE_NOT_FOUND)."""
        grown = (
            update(files)
            .where(files.c.id == file_id, files.c.state == FileState.WRITING)
            .values(
                size=files.c.size + len(content),
                chunks=files.c.chunks + 1,
                written_ms=self._clock.now_ms(),
            )
            .returning(files.c.tenant_id, files.c.chunks)
        )
        row = (await connection.execute(grown)).one_or_none()
        if row is None:
            raise file_not_found(file_id)
        chunk = {"file_id": file_id, "number": row.chunks - 1, "content": content}
        await connection.execute(chunks.insert().values(chunk))
        return str(row.tenant_id)

    async def finish(self, file_id: str, *, name: str, purpose: Purpose, ttl_ms: int) -> File:
        """Publishes an uploaded file, which expires after `ttl_ms`; 0: never."""
        async with self._state.writing() as connection:
            await connection.execute(
                update(files).where(files.c.id == file_id).values(name=name, purpose=purpose)
            )
            return await self.publish(connection, file_id, ttl_ms=ttl_ms)

    async def publish(self, connection: AsyncConnection, file_id: str, *, ttl_ms: int) -> File:
        """Shows a file that is written to its tenant. Raises WeirError(FILE_NOT_FOUND)."""
        now_ms = self._clock.now_ms()
        shown = (
            update(files)
            .where(files.c.id == file_id, files.c.state == FileState.WRITING)
            .values(
                state=FileState.READY,
                readers=0,
                created_ms=now_ms,
                expires_ms=now_ms + ttl_ms if ttl_ms else 0,
            )
            .returning(*_INFO)
        )
        row = (await connection.execute(shown)).mappings().one_or_none()
        if row is None:
            raise file_not_found(file_id)
        return _file(row)

    async def is_empty(self, connection: AsyncConnection, file_id: str) -> bool:
        """Whether nothing was written into a file."""
        query = select(files.c.size).where(files.c.id == file_id)
        return not (await connection.execute(query)).scalar()

    async def get(self, tenant_id: str, file_id: str) -> File:
        """A file. Raises WeirError(FILE_NOT_FOUND)."""
        async with self._state.reading() as connection:
            return await self.look(connection, tenant_id, file_id)

    async def look(self, connection: AsyncConnection, tenant_id: str, file_id: str) -> File:
        """A file. Raises WeirError(FILE_NOT_FOUND)."""
        if not is_caller_id(file_id):
            raise file_not_found(file_id)
        query = select(*_INFO).where(files.c.id == file_id, self._seen_by(tenant_id))
        row = (await connection.execute(query)).mappings().one_or_none()
        if row is None:
            raise file_not_found(file_id)
        return _file(row)

    async def list_files(
        self, tenant_id: str, *, after: str, limit: int, ascending: bool, purpose: str
    ) -> list[File]:
        """Files by the time of their ids.

        Args:
            tenant_id: their owner.
            after: the id before the first; empty: from the start.
            limit: most.
            ascending: the oldest first.
            purpose: empty for any.
        """
        query = select(*_INFO).where(self._seen_by(tenant_id)).limit(limit)
        query = query.order_by(files.c.id.asc() if ascending else files.c.id.desc())
        if after:
            query = query.where(files.c.id > after if ascending else files.c.id < after)
        if purpose:
            query = query.where(files.c.purpose == purpose)
        async with self._state.reading() as connection:
            return [_file(row) for row in (await connection.execute(query)).mappings()]

    async def chunks_of(self, file_id: str, *, start: int = 0) -> AsyncIterator[bytes]:
        """The content, a chunk at a time; the caller has checked the owner.

        Args:
            file_id: of the file.
            start: bytes to leave out; of uploaded files, whose chunks are of one size.

        Raises:
            WeirError: FILE_NOT_FOUND: it was removed meanwhile.
        """
        async with self._state.reading() as connection:
            query = select(files.c.chunks).where(files.c.id == file_id)
            count = (await connection.execute(query)).scalar_one_or_none()
        if count is None:
            raise file_not_found(file_id)
        first, left_out = divmod(start, CHUNK_BYTES)
        for number in range(first, count):
            async with self._state.reading() as connection:
                query = select(chunks.c.content).where(
                    chunks.c.file_id == file_id, chunks.c.number == number
                )
                content = (await connection.execute(query)).scalar_one_or_none()
            if content is None:
                raise file_not_found(file_id)
            yield content[left_out:] if number == first else content

    async def hold(self, connection: AsyncConnection, file_id: str) -> None:
        """Keeps a file from being removed until `let_go`."""
        await connection.execute(
            update(files).where(files.c.id == file_id).values(readers=files.c.readers + 1)
        )

    async def let_go(self, connection: AsyncConnection, file_id: str) -> None:
        """Ends one `hold`."""
        await connection.execute(
            update(files).where(files.c.id == file_id).values(readers=files.c.readers - 1)
        )

    async def discard(self, connection: AsyncConnection, file_id: str) -> None:
        """Lets a file that was not written to its end be swept."""
        await connection.execute(
            update(files)
            .where(files.c.id == file_id, files.c.state == FileState.WRITING)
            .values(state=FileState.REMOVED, readers=0)
        )

    async def _count(self, connection: AsyncConnection, tenant_id: str) -> int:
        query = select(func.count()).select_from(files).where(_kept_by(tenant_id))
        return int((await connection.execute(query)).scalar_one())

    async def _size(self, connection: AsyncConnection, tenant_id: str) -> int:
        query = select(func.coalesce(func.sum(files.c.size), 0)).where(_kept_by(tenant_id))
        return int((await connection.execute(query)).scalar_one())

    def _seen_by(self, tenant_id: str) -> ColumnElement[bool]:
        return and_(
            files.c.tenant_id == tenant_id,
            files.c.state == FileState.READY,
            or_(files.c.expires_ms == 0, files.c.expires_ms > self._clock.now_ms()),
        )


def _kept_by(tenant_id: str) -> ColumnElement[bool]:
    return and_(files.c.tenant_id == tenant_id, files.c.state != FileState.REMOVED)


def _file(row: RowMapping) -> File:
    return File(**row)


def file_not_found(file_id: str) -> WeirError:
    """The error for a file that there is not."""
    return WeirError(
        Reason.FILE_NOT_FOUND,
        f"there is no file {file_id[:80]!r}; GET /v1/files lists those that there are",
    )
