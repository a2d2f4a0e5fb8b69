"""What time does to jobs: windows end, and what is kept long enough goes."""

from sqlalchemy import delete, select, update

from weir_core.clock import Clock
from weir_core.errors import Reason
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import JobState
from weir_gateway.jobs.rows import kept_until, read_one
from weir_gateway.jobs.tables import jobs
from weir_gateway.state.state import State

_AT_ONCE = 500
_MESSAGE = "the job did not run within its completion window; submit it again"


class JobUpkeep:
    """Methods raise WeirError(STATE_UNAVAILABLE) while the database is away.

    Args:
        state: the database.
        ends: told of jobs that expire, but not of lines of batches.
        clock: wall time.
        retention_ms: how long an ended job is kept, milliseconds.
    """

    def __init__(self, state: State, ends: JobEnds, clock: Clock, *, retention_ms: int) -> None:
        self._state = state
        self._ends = ends
        self._clock = clock
        self._retention_ms = retention_ms

    async def expire(self) -> int:
        """Ends queued jobs whose window has passed, some at once; how many."""
        now_ms = self._clock.now_ms()
        late = (jobs.c.state == JobState.QUEUED.value, jobs.c.deadline_ms <= now_ms)
        found = select(jobs.c.id, jobs.c.batch_id, jobs.c.tenant_id).where(*late).limit(_AT_ONCE)
        async with self._state.reading() as connection:
            rows = (await connection.execute(found)).all()
        ids = {row.id: row.batch_id for row in rows}
        tenants = {row.id: row.tenant_id for row in rows}
        if not ids:
            return 0
        async with self._state.writing() as connection:
            statement = (
                update(jobs)
                .where(jobs.c.id.in_(list(ids)), *late)
                .values(
                    state=JobState.EXPIRED.value,
                    ended_ms=now_ms,
                    expires_ms=kept_until(now_ms, self._retention_ms),
                    version=jobs.c.version + 1,
                    error_reason=Reason.DEADLINE_EXCEEDED.value,
                    error_message=_MESSAGE,
                )
                .returning(jobs.c.id)
            )
            expired = list((await connection.execute(statement)).scalars())
            # Tenants in one order everywhere: what they hold is counted, see `HoldingCounts`.
            for job_id in sorted(expired, key=lambda one: (tenants[one], one)):
                if ids[job_id]:
                    continue
                job = await read_one(connection, jobs.c.id == job_id)
                if job is not None:
                    await self._ends.tell(connection, job)
        return len(expired)

    async def remove(self) -> int:
        """Removes jobs that were kept long enough and owe nothing, some at once; how many."""
        now_ms = self._clock.now_ms()
        old = (
            select(jobs.c.id)
            .where(jobs.c.expires_ms.between(1, now_ms), jobs.c.charge_due_ms == 0)
            .limit(_AT_ONCE)
        )
        async with self._state.reading() as connection:
            ids = list((await connection.execute(old)).scalars())
        if not ids:
            return 0
        async with self._state.writing() as connection:
            done = await connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
        return done.rowcount
