"""Makes jobs of the lines of a batch, a slice in each transaction."""

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from weir_core.clock import Clock
from weir_core.errors import Reason
from weir_core.ids import new_id
from weir_gateway.batches.batch import Batch, BatchState
from weir_gateway.batches.endpoints import kind_name
from weir_gateway.batches.input_lines import InputLine, input_lines
from weir_gateway.batches.lease import BatchLease
from weir_gateway.batches.line import BadLine, read_line
from weir_gateway.files.file_store import FileStore
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.store import JobStore
from weir_gateway.state.state import State

_SLICE_LINES = 100
_SLICE_BYTES = 1_000_000


class Inserter:
    """See the module. Where it was stands in the row of the batch, written with the jobs.

    Args:
        state: the database.
        files: where input is.
        jobs: where lines go.
        clock: time.
        longest: bytes of a line.
    """

    def __init__(
        self,
        *,
        state: State,
        files: FileStore,
        jobs: JobStore,
        clock: Clock,
        longest: int,
    ) -> None:
        self._state = state
        self._files = files
        self._jobs = jobs
        self._clock = clock
        self._longest = longest

    async def insert_slice(self, batch: Batch, lease: BatchLease) -> None:
        """Makes jobs of the next lines; of a batch that is cancelled, ended ones.

        Raises:
            LeaseLost: another process does it, or it was cancelled meanwhile.
            WeirError: the state cannot be read or written.
        """
        tokens = array("Q", batch.line_tokens)
        lines: list[InputLine] = []
        size = 0
        async for line in self._lines_of(batch):
            lines.append(line)
            size += line.size
            if len(lines) >= _SLICE_LINES or size >= _SLICE_BYTES:
                break
        end = lines[-1].end if lines else batch.inserted_bytes
        added = await asyncio.to_thread(self._jobs_of, batch, lines, tokens)
        inserted = batch.inserted + len(added)
        waiting = sum(tokens[inserted:])
        last = inserted >= batch.total
        async with self._state.writing() as connection:
            await lease.write(
                connection,
                seen=batch.state,
                inserted=inserted,
                inserted_bytes=end,
                enqueued_tokens=waiting,
                line_tokens=b"" if last else batch.line_tokens,
            )
            await self._jobs.add_many(connection, added)
            if last:
                await self._files.let_go(connection, batch.input_file_id)

    def _lines_of(self, batch: Batch) -> AsyncIterator[InputLine]:
        start = batch.inserted_bytes
        chunks = self._files.chunks_of(batch.input_file_id, start=start)
        return input_lines(chunks, self._longest, start=start)

    def _jobs_of(self, batch: Batch, lines: Sequence[InputLine], tokens: "array[int]") -> list[Job]:
        first = batch.inserted
        return [self._job(batch, line, at, tokens) for at, line in enumerate(lines, first)]

    def _job(self, batch: Batch, line: InputLine, number: int, tokens: "array[int]") -> Job:
        now_ms = self._clock.now_ms()
        job = Job(
            id=new_id("job", self._clock),
            tenant_id=batch.tenant_id,
            user_id=batch.user_id,
            api_key_id=batch.api_key_id,
            kind=kind_name(batch.endpoint),
            model=batch.model,
            body=b"",
            created_ms=now_ms,
            deadline_ms=batch.deadline_ms,
            enqueued_tokens=tokens[number],
            batch_id=batch.id,
            line=number,
            traceparent=batch.traceparent,
        )
        try:
            found = read_line(line, batch.endpoint, self._longest)
        except BadLine as bad:
            # It was in order when it was checked: bounds have changed since.
            return _ended(job, JobState.FAILED, Reason.INVALID_FIELD, str(bad))
        job = replace(job, body=found.body, custom_id=found.custom_id)
        if batch.state is BatchState.CANCELLING:
            return _ended(job, JobState.CANCELLED, Reason.CANCELLED)
        return job


def _ended(job: Job, state: JobState, reason: Reason, message: str = "") -> Job:
    return replace(
        job,
        state=state,
        ended_ms=job.created_ms,
        error_reason=reason.value,
        error_message=message,
    )
