"""Writes what came of a batch into its two files, in the order of its input."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy.ext.asyncio import AsyncConnection

from weir.common.v1.usage_pb2 import Usage
from weir_core.clock import Clock
from weir_core.telemetry.logs import get_logger
from weir_gateway.batches.batch import Batch, BatchState
from weir_gateway.batches.lease import BatchLease
from weir_gateway.batches.output_line import output_line, succeeded
from weir_gateway.files.file import Purpose
from weir_gateway.files.file_store import FileStore
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.store import JobStore
from weir_gateway.state.state import State

_log = get_logger(__name__)

BatchListener = Callable[[AsyncConnection, Batch], Awaitable[None]]
"""Told of the end of a batch in its transaction."""

_READ_LINES = 16
_SLICE_BYTES = 1_000_000
_SLICE_LINES = 400


@dataclass(slots=True)
class _Page:
    """Lines that go into the files in one transaction."""

    outputs: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    lines: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def full(self) -> bool:
        size = len(self.outputs) + len(self.errors)
        return self.lines >= _SLICE_LINES or size >= _SLICE_BYTES

    def add(self, job: Job) -> None:
        target = self.outputs if succeeded(job) else self.errors
        target += output_line(job)
        self.lines += 1
        self.usage.prompt_tokens += job.usage.prompt_tokens
        self.usage.cached_prompt_tokens += job.usage.cached_prompt_tokens
        self.usage.completion_tokens += job.usage.completion_tokens


class Finaliser:
    """See the module. How far it is stands in the row of the batch, written with the files.

    Args:
        state: the database.
        files: where output goes.
        jobs: the lines.
        clock: time.
        ended: told of ends.
    """

    def __init__(
        self,
        *,
        state: State,
        files: FileStore,
        jobs: JobStore,
        clock: Clock,
        ended: BatchListener,
    ) -> None:
        self._state = state
        self._files = files
        self._jobs = jobs
        self._clock = clock
        self._ended = ended

    async def begin(self, batch: Batch, lease: BatchLease, counts: Mapping[JobState, int]) -> None:
        """All lines have ended: opens the files. Raises LeaseLost or WeirError."""
        changes: dict[str, object] = {
            "completed": counts.get(JobState.SUCCEEDED, 0),
            "failed": counts.get(JobState.FAILED, 0),
        }
        if batch.state is BatchState.IN_PROGRESS:
            changes |= {"state": BatchState.FINALIZING.value, "finalizing_ms": self._clock.now_ms()}
        async with self._state.writing() as connection:
            for column, name in (("output_file_id", "output"), ("error_file_id", "error")):
                changes[column] = await self._files.create(
                    connection,
                    batch.tenant_id,
                    name=f"{batch.id}_{name}.jsonl",
                    purpose=Purpose.BATCH_OUTPUT,
                    readers=1,
                )
            await lease.write(connection, seen=batch.state, **changes)

    async def write_slice(self, batch: Batch, lease: BatchLease) -> None:
        """Writes the next lines. Raises LeaseLost or WeirError."""
        page = await self._page(batch)
        if not page.lines:
            _log.error("batch_lines_missing", batch_id=batch.id, written=batch.written)
            page.lines = batch.total - batch.written
        usage = Usage()
        usage.CopyFrom(batch.usage)
        usage.prompt_tokens += page.usage.prompt_tokens
        usage.cached_prompt_tokens += page.usage.cached_prompt_tokens
        usage.completion_tokens += page.usage.completion_tokens
        async with self._state.writing() as connection:
            await lease.write(
                connection,
                seen=batch.state,
                written=batch.written + page.lines,
                usage=usage.SerializeToString(),
            )
            for file_id, content in (
                (batch.output_file_id, page.outputs),
                (batch.error_file_id, page.errors),
            ):
                if content:
                    await self._files.add_chunk(connection, file_id, bytes(content))

    async def end(self, batch: Batch, lease: BatchLease) -> None:
        """All lines are written: shows the files and ends the batch. Raises as `write_slice`."""
        now_ms = self._clock.now_ms()
        state = self._end_state(batch, now_ms)
        async with self._state.writing() as connection:
            output = await self._show(connection, batch, batch.output_file_id)
            error = await self._show(connection, batch, batch.error_file_id)
            await lease.write(
                connection,
                seen=batch.state,
                state=state.value,
                ended_ms=now_ms,
                output_file_id=output,
                error_file_id=error,
            )
            ended = replace(
                batch, state=state, ended_ms=now_ms, output_file_id=output, error_file_id=error
            )
            await self._ended(connection, ended)

    async def _show(self, connection: AsyncConnection, batch: Batch, file_id: str) -> str:
        """Shows a file that has something in it; its id, or empty."""
        if await self._files.is_empty(connection, file_id):
            await self._files.discard(connection, file_id)
            return ""
        await self._files.publish(connection, file_id, ttl_ms=batch.output_ttl_ms)
        return file_id

    def _end_state(self, batch: Batch, now_ms: int) -> BatchState:
        if batch.state is BatchState.CANCELLING:
            return BatchState.CANCELLED
        if batch.completed + batch.failed < batch.total and now_ms >= batch.deadline_ms:
            return BatchState.EXPIRED
        return BatchState.COMPLETED

    async def _page(self, batch: Batch) -> _Page:
        page = _Page()
        while not page.full:
            after_line = batch.written + page.lines - 1
            found = await self._jobs.of_batch(
                batch.tenant_id, batch.id, after_line=after_line, limit=_READ_LINES
            )
            for job in found:
                page.add(job)
            if len(found) < _READ_LINES:
                break
        return page
