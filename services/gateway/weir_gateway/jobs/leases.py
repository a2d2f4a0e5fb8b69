"""Who runs which job: claims, and what comes of them.

A runner holds a lease, one row, and every job that it has claimed names it. What it writes of a
job is written only while the job still names it and its attempt, so that of two runners that
both think they have a job one alone can end it. Clocks of gateways decide when a runner counts
as gone, never what is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, String, and_, cast, delete, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.outcome import Again, End, cancelled_error
from weir_gateway.jobs.rows import kept_until, read_one, to_job, whole_columns
from weir_gateway.jobs.tables import jobs, runners
from weir_gateway.state.state import State

# A walk from tenant to tenant along the index: it reads one row for each, not one for each job.
_TENANTS = text(
    """
    WITH RECURSIVE turns (tenant_id) AS (
        SELECT min(tenant_id) FROM jobs WHERE state = 'queued'
        UNION ALL
        SELECT (SELECT min(tenant_id) FROM jobs
                WHERE state = 'queued' AND tenant_id > turns.tenant_id)
        FROM turns WHERE turns.tenant_id IS NOT NULL
    )
    SELECT tenant_id FROM turns WHERE tenant_id IS NOT NULL
    """
)
_QUEUED, _RUNNING = JobState.QUEUED.value, JobState.RUNNING.value
_CHARGE_MS = 15_000


@dataclass(frozen=True, slots=True)
class LeaseBounds:
    """Times in milliseconds.

    Attributes:
        lease_ms: life of a runner's lease without a beat.
        retention_ms: how long an ended job is kept.
        most_failures: after so many attempts that faults of ours ended, a job fails.
    """

    lease_ms: int = 30_000
    retention_ms: int = 7 * 86_400_000
    most_failures: int = 10


@dataclass(frozen=True, slots=True)
class Held:
    """A claimed job: since when (Unix milliseconds), and whether its end was asked for."""

    job_id: str
    attempt: int
    since_ms: int
    cancelled: bool


class JobLeases:
    """See the module. Methods raise WeirError(STATE_UNAVAILABLE) while the database is away.

    Args:
        state: the database.
        ends: who is told of ends.
        clock: wall time.
        bounds: times.
    """

    def __init__(self, state: State, ends: JobEnds, clock: Clock, bounds: LeaseBounds) -> None:
        self._state = state
        self._ends = ends
        self._clock = clock
        self._bounds = bounds

    async def join(self, runner_id: str) -> None:
        """Gives a new runner its lease."""
        row = {"id": runner_id, "until_ms": self._clock.now_ms() + self._bounds.lease_ms}
        async with self._state.writing() as connection:
            await connection.execute(self._state.insert(runners).values(row))

    async def renew(self, runner_id: str) -> bool:
        """A beat; False: the lease had lapsed, and what it held is another's."""
        until_ms = self._clock.now_ms() + self._bounds.lease_ms
        statement = update(runners).where(runners.c.id == runner_id).values(until_ms=until_ms)
        async with self._state.writing() as connection:
            return (await connection.execute(statement)).rowcount == 1

    async def leave(self, runner_id: str) -> None:
        """Ends a lease; what the runner still holds is free at once."""
        async with self._state.writing() as connection:
            await connection.execute(delete(runners).where(runners.c.id == runner_id))

    async def tenants(self) -> Sequence[str]:
        """Tenants that have jobs in the queue, by id; some may have none that is due."""
        async with self._state.reading() as connection:
            return list((await connection.execute(_TENANTS)).scalars())

    async def claim(self, runner_id: str, tenant_id: str, most: int) -> Sequence[Job]:
        """Takes the due jobs of a tenant that wait longest, at most `most`."""
        now_ms = self._clock.now_ms()
        due = (
            select(jobs.c.id)
            .where(
                jobs.c.state == _QUEUED,
                jobs.c.tenant_id == tenant_id,
                jobs.c.not_before_ms <= now_ms,
                jobs.c.deadline_ms > now_ms,
            )
            .order_by(jobs.c.not_before_ms, jobs.c.id)
            .limit(most)
        )
        taken = (
            update(jobs)
            .values(
                state=_RUNNING,
                runner_id=runner_id,
                attempt=jobs.c.attempt + 1,
                request_id=jobs.c.id + "." + cast(jobs.c.attempt + 1, String),
                started_ms=now_ms,
                version=jobs.c.version + 1,
                error_reason="",
                error_message="",
            )
            .returning(*whole_columns)
        )
        async with self._state.reading() as connection:
            # A look that no writer waits for.
            if (await connection.execute(due.limit(1))).first() is None:
                return []
        async with self._state.writing() as connection:
            # Not as a part of the update: PostgreSQL may run that part more than once. Of no
            # effect on SQLite, where writers take turns.
            locked = due.with_for_update(skip_locked=True)
            ids = list((await connection.execute(locked)).scalars())
            if not ids:
                return []
            rows = await connection.execute(taken.where(jobs.c.id.in_(ids)))
            return [to_job(row) for row in rows]

    async def end(self, runner_id: str, job: Job, end: End) -> bool:
        """Writes down the end of a claimed job, once; safe to repeat after any failure.

        Returns:
            Whether this attempt ended the job: whoever ended it charges it.
        """
        async with self._state.writing() as connection:
            changed = await self._end(connection, [*_held(runner_id, job.id, job.attempt)], end)
            found = await read_one(connection, jobs.c.id == job.id)
            if found is None:
                return False
            if changed:
                await self._ends.tell(connection, found)
                return True
        # An earlier try may have been committed although its answer was lost. If another took the
        # job over it may have ended this attempt without its answer, which is not to be charged.
        same = (found.request_id, found.state, found.usage)
        return same == (job.request_id, end.state, end.usage)

    async def put_back(self, runner_id: str, job_id: str, attempt: int, again: Again) -> None:
        """Queues a claimed job again, unless it is another's meanwhile.

        It ends instead if its end was asked for, or it has failed too often.
        """
        async with self._state.writing() as connection:
            await self._put_back(connection, _held(runner_id, job_id, attempt), job_id, again)

    async def held(self, runner_id: str) -> Sequence[Held]:
        """What a runner has, as the database says."""
        statement = select(jobs.c.id, jobs.c.attempt, jobs.c.started_ms, jobs.c.cancel_ms).where(
            jobs.c.state == _RUNNING, jobs.c.runner_id == runner_id
        )
        async with self._state.reading() as connection:
            rows = await connection.execute(statement)
            return [Held(*row[:3], cancelled=row[3] > 0) for row in rows]

    async def recover(self, again: Again, most: int = 100) -> int:
        """Takes jobs from runners whose lease has lapsed, at most `most`; how many.

        Args:
            again: why and when they are tried again.
        """
        alive = select(runners.c.id).where(runners.c.until_ms > self._clock.now_ms())
        lost = and_(jobs.c.state == _RUNNING, jobs.c.runner_id.not_in(alive))
        async with self._state.reading() as connection:
            any_lost = (await connection.execute(select(jobs.c.id).where(lost).limit(1))).first()
        if any_lost is None:
            return 0
        async with self._state.writing() as connection:
            # Whoever beats now waits for this transaction, and learns that its lease is gone.
            await connection.execute(
                delete(runners).where(runners.c.until_ms <= self._clock.now_ms())
            )
            orphans = and_(jobs.c.state == _RUNNING, jobs.c.runner_id.not_in(select(runners.c.id)))
            found = select(jobs.c.id).where(orphans).limit(most).with_for_update(skip_locked=True)
            ids = list((await connection.execute(found)).scalars())
            for job_id in ids:
                await self._put_back(connection, (jobs.c.id == job_id, orphans), job_id, again)
        return len(ids)

    async def _put_back(
        self,
        connection: AsyncConnection,
        held: tuple[ColumnElement[bool], ...],
        job_id: str,
        again: Again,
    ) -> None:
        failures = jobs.c.failures + (1 if again.failed else 0)
        waiting = (*held, jobs.c.cancel_ms == 0, failures < self._bounds.most_failures)
        queued = await connection.execute(
            update(jobs)
            .where(*waiting)
            .values(
                state=_QUEUED,
                runner_id="",
                failures=failures,
                not_before_ms=self._clock.now_ms() + again.wait_ms,
                version=jobs.c.version + 1,
                error_reason=again.error.reason.value,
                error_message=_writable(again.error.message),
            )
        )
        if queued.rowcount:
            return
        asked = End(state=JobState.CANCELLED, error=cancelled_error())
        ended = await self._end(connection, [*held, jobs.c.cancel_ms > 0], asked)
        if not ended:
            failed = End(state=JobState.FAILED, error=again.error)
            ended = await self._end(connection, list(held), failed)
        if ended and (found := await read_one(connection, jobs.c.id == job_id)) is not None:
            await self._ends.tell(connection, found)

    async def _end(
        self, connection: AsyncConnection, held: list[ColumnElement[bool]], end: End
    ) -> bool:
        now_ms = self._clock.now_ms()
        error = end.error
        changed = await connection.execute(
            update(jobs)
            .where(*held)
            .values(
                state=end.state.value,
                runner_id="",
                ended_ms=now_ms,
                expires_ms=kept_until(now_ms, self._bounds.retention_ms),
                version=jobs.c.version + 1,
                result=end.result,
                usage=end.usage.SerializeToString(),
                error_reason="" if error is None else error.reason.value,
                error_message="" if error is None else _writable(error.message),
                charge=end.charge,
                # The runner charges at once; if it cannot, others do.
                charge_due_ms=now_ms + _CHARGE_MS if end.charge else 0,
            )
        )
        return changed.rowcount == 1


def _writable(message: str) -> str:
    """A message that may repeat what no database can hold, such as halves of characters."""
    return message.encode(errors="backslashreplace").decode().replace("\0", "\\0")


def _held(runner_id: str, job_id: str, attempt: int) -> tuple[ColumnElement[bool], ...]:
    return (
        jobs.c.id == job_id,
        jobs.c.state == _RUNNING,
        jobs.c.runner_id == runner_id,
        jobs.c.attempt == attempt,
    )
