"""A batch whose input was checked, and what carries it on, without a gateway around it."""

import json
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.gateway.batches.site import CHAT, chat_lines
from weir.common.v1.usage_pb2 import Usage
from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_gateway.batches.batch import Batch, BatchState
from weir_gateway.batches.batch_store import BatchStore
from weir_gateway.batches.finalising import Finaliser
from weir_gateway.batches.insertion import Inserter
from weir_gateway.batches.lease import BatchLease, BatchLeases
from weir_gateway.files.bounds import FileBounds
from weir_gateway.files.file import Purpose
from weir_gateway.files.file_remover import FileRemover
from weir_gateway.files.file_store import CHUNK_BYTES, FileStore
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.store import JobStore
from weir_gateway.jobs.tables import jobs
from weir_gateway.state.database import StateDatabase

LINES = 450
MOST = FileBounds(files=10, size=10**9)
DAY_MS = 86_400_000


class FailingJobs(JobStore):
    """Fails, when told to, after it has written."""

    fails = False

    async def add_many(self, connection: AsyncConnection, added: Sequence[Job]) -> None:
        await super().add_many(connection, added)
        if self.fails:
            raise WeirError(Reason.STATE_UNAVAILABLE, "cut off")


@dataclass
class World:
    """A batch whose input was checked, and what carries it on."""

    state: StateDatabase
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.files = FileStore(self.state, self.clock)
        self.remover = FileRemover(self.state, self.files, self.clock)
        self.jobs = FailingJobs(self.state, JobEnds(), self.clock, retention_ms=DAY_MS)
        self.store = BatchStore(self.state, self.files, self.jobs, self.clock)
        self.leases = BatchLeases(self.state, self.clock)
        self.ended: list[Batch] = []
        self.inserter = Inserter(
            state=self.state,
            files=self.files,
            jobs=self.jobs,
            clock=self.clock,
            longest=10_000,
        )
        self.finaliser = Finaliser(
            state=self.state,
            files=self.files,
            jobs=self.jobs,
            clock=self.clock,
            ended=self._on_end,
        )

    async def _on_end(self, _: AsyncConnection, batch: Batch) -> None:
        self.ended.append(batch)

    async def accepted(self) -> Batch:
        """A batch in progress, of which no line is a job yet; it takes more than a chunk."""

        async def content() -> AsyncIterator[bytes]:
            for line in chat_lines(LINES):
                yield json.dumps(line).encode() + b" " * 2_500 + b"\n"

        return await self.accepted_of(content(), LINES)

    async def accepted_of(self, content: AsyncIterator[bytes], lines: int) -> Batch:
        file_id = await self._upload(content)
        now_ms = self.clock.now_ms()
        batch = Batch(
            id="batch_1",
            tenant_id="acme",
            user_id="alice",
            api_key_id="key",
            endpoint=CHAT,
            input_file_id=file_id,
            created_ms=now_ms,
            deadline_ms=now_ms + DAY_MS,
            output_ttl_ms=DAY_MS,
            webhook_url="",
            metadata={},
            state=BatchState.IN_PROGRESS,
            model="tiny",
            total=lines,
            enqueued_tokens=5 * lines,
            line_tokens=array("Q", [5] * lines).tobytes(),
        )
        await self.store.add(batch)
        return batch

    async def _upload(self, content: AsyncIterator[bytes]) -> str:
        file_id = await self.files.begin("acme", MOST)
        chunk = b""
        async for part in content:
            chunk += part
            if len(chunk) >= CHUNK_BYTES:
                await self.files.append(file_id, chunk[:CHUNK_BYTES], MOST)
                chunk = chunk[CHUNK_BYTES:]
        await self.files.append(file_id, chunk, MOST)
        await self.files.finish(file_id, name="a", purpose=Purpose.BATCH, ttl_ms=0)
        return file_id

    async def take(self) -> BatchLease:
        taken = await self.leases.take(without=())
        assert taken is not None
        return taken[0]

    async def look(self, lease: BatchLease) -> Batch:
        batch = await self.leases.look(lease)
        assert batch is not None
        return batch

    async def insert_all(self, lease: BatchLease) -> Batch:
        while (batch := await self.look(lease)).inserted < batch.total:
            await self.inserter.insert_slice(batch, lease)
        return batch

    async def lines(self) -> list[tuple[int, str]]:
        async with self.state.reading() as connection:
            query = select(jobs.c.line, jobs.c.custom_id).order_by(jobs.c.line)
            return [(row.line, row.custom_id) for row in await connection.execute(query)]

    async def end_lines(self, state: JobState, *, first: int = 0, last: int = LINES) -> None:
        usage = Usage(prompt_tokens=3, completion_tokens=2).SerializeToString()
        async with self.state.writing() as connection:
            await connection.execute(
                update(jobs)
                .where(jobs.c.line.between(first, last - 1))
                .values(state=state.value, result=b'{"ok":true}', usage=usage)
            )

    async def output(self, file_id: str) -> list[str]:
        content = b"".join([chunk async for chunk in self.files.chunks_of(file_id)])
        return [json.loads(line)["custom_id"] for line in content.splitlines()]
