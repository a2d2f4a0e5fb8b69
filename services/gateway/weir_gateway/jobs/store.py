"""Jobs as their owners see them: all by tenant, another tenant's is not found."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, ScalarSelect, and_, case, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import is_caller_id
from weir_gateway.holdings.bounds import Kind
from weir_gateway.holdings.counts import HoldingCounts
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.rows import kept_until, read_one, select_heads, select_jobs, to_job, to_row
from weir_gateway.jobs.tables import jobs
from weir_gateway.state.state import State

_ADDED_AT_ONCE = 500
_DROPPED_AT_ONCE = 200
_ENQUEUED_WAIT_S = 60.0
_NOT_ENDED = (JobState.QUEUED.value, JobState.RUNNING.value)


WaitingTokens = Callable[[str, str], ScalarSelect[int]]
"""Tokens of a tenant, by its id, and a model that wait to become jobs."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job, and whether an earlier call with the same key had made it."""

    job: Job
    replayed: bool


class JobStore:
    """Adds, reads and cancels. Methods raise WeirError(STATE_UNAVAILABLE or STATE_OFF) too.

    Args:
        state: the database.
        ends: who is told that a job has ended.
        clock: wall time.
        retention_ms: how long an ended job is kept, milliseconds.
    """

    def __init__(self, state: State, ends: JobEnds, clock: Clock, *, retention_ms: int) -> None:
        self._state = state
        self._ends = ends
        self._clock = clock
        self._retention_ms = retention_ms
        self._turns = HoldingCounts(state, Kind.ENQUEUED)
        self._waiting_elsewhere: list[WaitingTokens] = []

    async def add(self, job: Job, *, most_tokens: int) -> Submitted:
        """Adds a job; with an idempotency key that was used before, returns that job.

        Args:
            job: a new one.
            most_tokens: what all jobs of its tenant and model may count as while they have not
                ended, tokens.

        Raises:
            WeirError: IDEMPOTENCY_CONFLICT: something else was submitted under its key;
                ENQUEUED_TOKENS_EXCEEDED.
        """
        async with self._state.writing() as connection:
            statement = self._state.insert(jobs).values(to_row(job)).on_conflict_do_nothing()
            if (await connection.execute(statement)).rowcount == 1:
                await self._check_room(connection, job, most_tokens)
                return Submitted(job, replayed=False)
            found = await read_one(
                connection,
                jobs.c.tenant_id == job.tenant_id,
                jobs.c.api_key_id == job.api_key_id,
                jobs.c.idempotency_key == job.idempotency_key,
            )
        if found is None or found.fingerprint != job.fingerprint:
            raise WeirError(
                Reason.IDEMPOTENCY_CONFLICT,
                f"the idempotency key {job.idempotency_key!r} was used for another job; take a "
                "new key, or send the same request",
                field="idempotency_key",
            )
        return Submitted(found, replayed=True)

    async def add_one(self, connection: AsyncConnection, job: Job, *, most_tokens: int) -> None:
        """Adds a job without a key in the transaction of `connection`, within bounds as `add`.

        Raises:
            WeirError: ENQUEUED_TOKENS_EXCEEDED.
        """
        await self.add_many(connection, [job])
        await self._check_room(connection, job, most_tokens)

    async def add_many(self, connection: AsyncConnection, added: Sequence[Job]) -> None:
        """Adds jobs in the transaction of `connection`; they run once it is committed."""
        for start in range(0, len(added), _ADDED_AT_ONCE):
            rows = [to_row(job) for job in added[start : start + _ADDED_AT_ONCE]]
            await connection.execute(jobs.insert(), rows)

    async def get(self, tenant_id: str, job_id: str) -> Job:
        """A whole job. Raises WeirError(JOB_NOT_FOUND)."""
        if not is_caller_id(job_id):
            raise _not_found()
        async with self._state.reading() as connection:
            found = await read_one(connection, *_named(tenant_id, job_id))
        if found is None:
            raise _not_found()
        return found

    async def version(self, tenant_id: str, job_id: str) -> int:
        """The version of a job, to see whether it has changed. Raises WeirError(JOB_NOT_FOUND)."""
        statement = select(jobs.c.version).where(*_named(tenant_id, job_id))
        async with self._state.reading() as connection:
            found = (await connection.execute(statement)).scalar()
        if found is None:
            raise _not_found()
        return int(found)

    async def list(
        self,
        tenant_id: str,
        *,
        limit: int,
        before_id: str = "",
        state: JobState | None = None,
        kinds: Sequence[str] = (),
    ) -> Sequence[Job]:
        """Jobs that are no lines of batches, newest first, without bodies and results.

        Args:
            tenant_id: whose.
            limit: at most so many.
            before_id: the last id of the page before; empty for the first page.
            state: only those in it; None for all.
            kinds: only these; empty for all.
        """
        statement = select_heads().where(jobs.c.tenant_id == tenant_id, jobs.c.batch_id == "")
        if before_id:
            statement = statement.where(jobs.c.id < before_id)
        if state is not None:
            statement = statement.where(jobs.c.state == state.value)
        if kinds:
            statement = statement.where(jobs.c.kind.in_(kinds))
        statement = statement.order_by(jobs.c.id.desc()).limit(limit)
        async with self._state.reading() as connection:
            return [to_job(row) for row in await connection.execute(statement)]

    async def cancel(self, tenant_id: str, job_id: str) -> Job:
        """Ends a queued job, asks for the end of a running one, leaves one that has ended.

        Raises:
            WeirError: JOB_NOT_FOUND.
        """
        named = _named(tenant_id, job_id)
        async with self._state.writing() as connection:
            changed = await connection.execute(
                update(jobs)
                .where(*named, jobs.c.state.in_(_NOT_ENDED), jobs.c.cancel_ms == 0)
                .values(self._cancelled())
            )
            found = await read_one(connection, *named)
            if found is None:
                raise _not_found()
            if changed.rowcount and found.state is JobState.CANCELLED:
                await self._ends.tell(connection, found)
        return found

    async def cancel_lines(
        self, connection: AsyncConnection, tenant_id: str, batch_id: str, *, most: int
    ) -> int:
        """Ends what of a batch is queued, and asks for the end of what runs; how many of both.

        At most `most`: all of 50,000 lines at once would hold up every other writer of SQLite.
        The caller tells of the end of the batch: that of its lines is not told.
        """
        goes_on = and_(
            jobs.c.tenant_id == tenant_id,
            jobs.c.batch_id == batch_id,
            jobs.c.state.in_(_NOT_ENDED),
            jobs.c.cancel_ms == 0,
        )
        some = select(jobs.c.id).where(goes_on).limit(most)
        ids = list((await connection.execute(some)).scalars())
        changed = await connection.execute(
            update(jobs).where(jobs.c.id.in_(ids), goes_on).values(self._cancelled())
        )
        return changed.rowcount

    async def counts(self, batch_id: str) -> Mapping[JobState, int]:
        """How many lines of a batch are in each state; the caller has checked whose it is."""
        statement = (
            select(jobs.c.state, func.count())
            .where(jobs.c.batch_id == batch_id)
            .group_by(jobs.c.state)
        )
        async with self._state.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return Counter({JobState(state): number for state, number in rows})

    async def of_batch(
        self, tenant_id: str, batch_id: str, *, after_line: int, limit: int
    ) -> Sequence[Job]:
        """Whole lines of a batch in their order; `after_line` -1 for the first."""
        statement = (
            select_jobs()
            .where(
                jobs.c.tenant_id == tenant_id,
                jobs.c.batch_id == batch_id,
                jobs.c.line > after_line,
            )
            .order_by(jobs.c.line)
            .limit(limit)
        )
        async with self._state.reading() as connection:
            return [to_job(row) for row in await connection.execute(statement)]

    async def drop_lines(self, tenant_id: str, batch_id: str) -> None:
        """Removes lines of a batch that have ended and owe nothing any more.

        Some at once, so that no writer waits long for it.
        """
        some = (
            select(jobs.c.id)
            .where(
                jobs.c.tenant_id == tenant_id,
                jobs.c.batch_id == batch_id,
                jobs.c.state.not_in(_NOT_ENDED),
                jobs.c.charge_due_ms == 0,
            )
            .limit(_DROPPED_AT_ONCE)
        )
        left = True
        while left:
            async with self._state.writing() as connection:
                ids = list((await connection.execute(some)).scalars())
                await connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
            left = len(ids) == _DROPPED_AT_ONCE

    async def enqueued_tokens(self, connection: AsyncConnection, tenant_id: str, model: str) -> int:
        """What a tenant's offline work on a model counts as that has not ended.

        Others that are about to add to it wait for the end of the transaction.
        """
        await self._turns.take_turn(connection, tenant_id)
        of_jobs = (
            select(func.coalesce(func.sum(jobs.c.enqueued_tokens), 0))
            .where(
                jobs.c.state.in_(_NOT_ENDED), jobs.c.tenant_id == tenant_id, jobs.c.model == model
            )
            .scalar_subquery()
        )
        # In one statement: what becomes a job meanwhile is counted once.
        sums = [of_jobs, *(source(tenant_id, model) for source in self._waiting_elsewhere)]
        row = (await connection.execute(select(*sums))).one()
        return sum(int(waiting) for waiting in row)

    def count_also(self, source: WaitingTokens) -> None:
        """Counts what was accepted by another room and is no job yet."""
        self._waiting_elsewhere.append(source)

    async def _check_room(self, connection: AsyncConnection, job: Job, most_tokens: int) -> None:
        """Of a job that was just added."""
        enqueued = await self.enqueued_tokens(connection, job.tenant_id, job.model)
        if enqueued > most_tokens:
            raise _too_many_tokens(job, enqueued - job.enqueued_tokens, most_tokens)

    def _cancelled(self) -> dict[str, object]:
        """Of a row that is queued or runs: the first ends at once."""
        now_ms = self._clock.now_ms()
        queued = jobs.c.state == JobState.QUEUED.value

        def if_queued(value: object, name: str) -> object:
            return case((queued, value), else_=jobs.c[name])

        return {
            "cancel_ms": now_ms,
            "version": jobs.c.version + 1,
            "state": if_queued(JobState.CANCELLED.value, "state"),
            "ended_ms": if_queued(now_ms, "ended_ms"),
            "expires_ms": if_queued(kept_until(now_ms, self._retention_ms), "expires_ms"),
            "error_reason": if_queued(Reason.CANCELLED.value, "error_reason"),
            "error_message": if_queued("the job was cancelled before it ran", "error_message"),
        }


def _named(tenant_id: str, job_id: str) -> tuple[ColumnElement[bool], ...]:
    return (and_(jobs.c.id == job_id, jobs.c.tenant_id == tenant_id),)


def _too_many_tokens(job: Job, enqueued: int, most: int) -> WeirError:
    return WeirError(
        Reason.ENQUEUED_TOKENS_EXCEEDED,
        f"the tenant's offline work on {job.model} has {enqueued} tokens waiting or running; with "
        f"the {job.enqueued_tokens} of this job they are over its max_enqueued_tokens, {most}; "
        "wait until some has ended, or have the limit raised",
        retry_after_s=_ENQUEUED_WAIT_S,
    )


def _not_found() -> WeirError:
    return WeirError(
        Reason.JOB_NOT_FOUND,
        "there is no such job of this tenant; jobs are removed some days after their end",
        field="job_id",
    )
