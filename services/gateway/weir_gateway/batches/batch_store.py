"""Batches as their owners see them: all by tenant, another tenant's is not found."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import ScalarSelect, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.ids import is_caller_id
from weir_gateway.batches.batch import Batch, BatchState
from weir_gateway.batches.rows import select_batches, to_batch, to_row
from weir_gateway.batches.tables import batches
from weir_gateway.files.file import Purpose
from weir_gateway.files.file_store import FileStore
from weir_gateway.jobs.job import JobState
from weir_gateway.jobs.store import JobStore
from weir_gateway.jobs.tables import jobs
from weir_gateway.state.state import State

_CANCELLABLE = (BatchState.VALIDATING.value, BatchState.IN_PROGRESS.value)
_ENDED = tuple(state.value for state in BatchState if state.ended)
_KEPT_MS = 90 * 86_400_000


class BatchStore:
    """Adds, reads and cancels. Methods raise WeirError(STATE_UNAVAILABLE or STATE_OFF) too.

    Args:
        state: the database.
        files: input and output.
        jobs: the lines.
        clock: wall time.
    """

    def __init__(self, state: State, files: FileStore, jobs: JobStore, clock: Clock) -> None:
        self._state = state
        self._files = files
        self._jobs = jobs
        self._clock = clock
        jobs.count_also(self.pending_tokens)

    async def add(self, batch: Batch) -> None:
        """Adds a batch; its input is kept from then on until all its lines are jobs.

        Raises:
            WeirError: FILE_NOT_FOUND, or INVALID_FIELD: the file is for something else.
        """
        async with self._state.writing() as connection:
            file = await self._files.look(connection, batch.tenant_id, batch.input_file_id)
            if file.purpose != Purpose.BATCH:
                raise InvalidField(
                    "input_file_id", batch.input_file_id, "a file of the purpose `batch`"
                )
            await self._files.hold(connection, file.id)
            await connection.execute(batches.insert().values(to_row(batch)))

    async def get(self, tenant_id: str, batch_id: str) -> Batch:
        """A batch with its present counts. Raises WeirError(BATCH_NOT_FOUND)."""
        _check_id(batch_id)
        async with self._state.reading() as connection:
            found = await self._read(connection, tenant_id, batch_id)
        return await self._counted(found)

    async def list_batches(self, tenant_id: str, *, after: str, limit: int) -> Sequence[Batch]:
        """Batches, newest first; `after` is the id before the first, or empty."""
        query = select_batches().where(batches.c.tenant_id == tenant_id)
        if after:
            query = query.where(batches.c.id < after)
        query = query.order_by(batches.c.id.desc()).limit(limit)
        async with self._state.reading() as connection:
            found = [to_batch(row) for row in await connection.execute(query)]
        return [await self._counted(batch) for batch in found]

    async def cancel(self, tenant_id: str, batch_id: str) -> Batch:
        """Asks for the end of a batch, whose lines end by and by; one asked before is left.

        Raises:
            WeirError: BATCH_NOT_FOUND, or STATE_CONFLICT: it has ended, or is about to.
        """
        _check_id(batch_id)
        now_ms = self._clock.now_ms()
        async with self._state.writing() as connection:
            changed = await connection.execute(
                update(batches)
                .where(
                    batches.c.id == batch_id,
                    batches.c.tenant_id == tenant_id,
                    batches.c.state.in_(_CANCELLABLE),
                )
                .values(state=BatchState.CANCELLING.value, cancelling_ms=now_ms, due_ms=now_ms)
            )
            found = await self._read(connection, tenant_id, batch_id)
            if not changed.rowcount and found.state is not BatchState.CANCELLING:
                raise WeirError(
                    Reason.STATE_CONFLICT,
                    f"the batch is {found.state.value} and cannot be cancelled any more; "
                    f"only one that is {' or '.join(_CANCELLABLE)} can",
                )
        return await self._counted(found)

    def pending_tokens(self, tenant_id: str, model: str) -> ScalarSelect[int]:
        """What lines that were accepted but are no jobs yet count as."""
        query = select(func.coalesce(func.sum(batches.c.enqueued_tokens), 0)).where(
            batches.c.tenant_id == tenant_id,
            batches.c.model == model,
            batches.c.enqueued_tokens > 0,
        )
        return query.scalar_subquery()

    async def sweep(self) -> None:
        """Removes batches that ended long ago, and lines of ended ones that were left."""
        has_lines = select(jobs.c.id).where(jobs.c.batch_id == batches.c.id).exists()
        left = select(batches.c.tenant_id, batches.c.id).where(
            batches.c.state.in_(_ENDED), has_lines
        )
        async with self._state.reading() as connection:
            found = (await connection.execute(left)).all()
        for tenant_id, batch_id in found:
            await self._jobs.drop_lines(tenant_id, batch_id)
        before_ms = self._clock.now_ms() - _KEPT_MS
        async with self._state.writing() as connection:
            await connection.execute(
                delete(batches).where(
                    batches.c.state.in_(_ENDED), batches.c.ended_ms < before_ms, ~has_lines
                )
            )

    async def _read(self, connection: AsyncConnection, tenant_id: str, batch_id: str) -> Batch:
        query = select_batches().where(batches.c.id == batch_id, batches.c.tenant_id == tenant_id)
        row = (await connection.execute(query)).first()
        if row is None:
            raise _not_found(batch_id)
        return to_batch(row)

    async def _counted(self, batch: Batch) -> Batch:
        """Counts stand in the row once all lines have ended; until then the jobs tell them."""
        open_states = (BatchState.IN_PROGRESS, BatchState.CANCELLING)
        if batch.state not in open_states or batch.output_file_id:
            return batch
        counts = await self._jobs.counts(batch.id)
        return replace(
            batch,
            completed=counts.get(JobState.SUCCEEDED, 0),
            failed=counts.get(JobState.FAILED, 0),
        )


def _check_id(batch_id: str) -> None:
    if not is_caller_id(batch_id):
        raise _not_found(batch_id)


def _not_found(batch_id: str) -> WeirError:
    return WeirError(
        Reason.BATCH_NOT_FOUND,
        f"there is no batch {batch_id[:80]!r}; GET /v1/batches lists those that there are",
    )
