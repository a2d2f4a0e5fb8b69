"""Runs the jobs of all tenants in this gateway, as others do in theirs."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import new_id
from weir_core.repeating import Repeating
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.jobs.attempt import AttemptParts, JobAttempt
from weir_gateway.jobs.charges import JobCharges
from weir_gateway.jobs.job import Job
from weir_gateway.jobs.leases import JobLeases
from weir_gateway.jobs.outcome import Again, End, Outcome
from weir_gateway.jobs.tenant_windows import TenantWindows
from weir_gateway.jobs.turns import Turns
from weir_gateway.metrics import GatewayMetrics

_log = get_logger(__name__)

_STOP_S = 3.0
_MOST_REST_S = 30.0
_STRAY_MS = 30_000
_LOST = Again(
    WeirError(Reason.WORKER_LOST, "the gateway that ran the job went away"), 0, failed=True
)


@dataclass(frozen=True, slots=True)
class RunnerBounds:
    """Attributes:
    most: jobs that run here at once.
    most_of_tenant: of one tenant.
    poll_s: how often the queue is looked at, seconds.
    beat_s: how often the lease is renewed and cancellations are looked for, seconds.
    """

    most: int = 64
    most_of_tenant: int = 32
    poll_s: float = 0.5
    beat_s: float = 1.0


class JobRunner:
    """Claims due jobs and makes an attempt at each.

    Args:
        leases: who has which job.
        charges: makes charges that others left.
        parts: what attempts work with.
        clock: for ids.
        bounds: how many, how often.
        paused: whether no job is to be begun.
        metrics: count attempts.
    """

    def __init__(
        self,
        leases: JobLeases,
        charges: JobCharges,
        parts: AttemptParts,
        clock: Clock,
        bounds: RunnerBounds,
        paused: Callable[[], bool],
        metrics: GatewayMetrics,
    ) -> None:
        self._leases = leases
        self._charges = charges
        self._parts = parts
        self._clock = clock
        self._bounds = bounds
        self._paused = paused
        self._metrics = metrics
        self._windows = TenantWindows(bounds.most_of_tenant)
        self._turns = Turns(bounds.most, self._windows)
        self._id = ""
        self._attempts: dict[str, JobAttempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops = (
            Repeating("job_beat", self._beat, bounds.beat_s),
            Repeating("job_claims", self._claim, self._wait_news),
            Repeating("job_recovery", self._recover, bounds.beat_s),
        )
        self._rests_until: dict[str, float] = {}
        self._news = asyncio.Event()

    def start(self) -> None:
        """Begins to look for jobs."""
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """Gives back what runs, and the lease; returns within some seconds."""
        for loop in self._loops:
            await loop.stop()
        for attempt in self._attempts.values():
            attempt.stop("the gateway was shut down while it ran the job")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP_S)
        for task in list(self._tasks):
            await end_task(task)
        if self._id:
            try:
                await self._leases.leave(self._id)
            except WeirError as error:
                _log.warning("job_lease_left_to_lapse", reason=error.reason)

    def wake(self) -> None:
        """There is a new job, or room for one: look at once."""
        self._news.set()

    def cancel(self, job_id: str) -> None:
        """Ends a job at once if it runs here; elsewhere the next beat tells."""
        attempt = self._attempts.get(job_id)
        if attempt is not None:
            attempt.cancel()

    async def _wait_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.poll_s):
                await self._news.wait()

    async def _beat(self) -> None:
        if not self._id:
            fresh = new_id("run", self._clock)
            await self._leases.join(fresh)
            self._id = fresh
            return
        if not await self._leases.renew(self._id):
            _log.error("job_lease_lost", runner_id=self._id, jobs=len(self._attempts))
            self._id = ""
            for attempt in list(self._attempts.values()):
                attempt.stop("another gateway has taken the job over")
            return
        long_ago_ms = self._clock.now_ms() - _STRAY_MS
        for held in await self._leases.held(self._id):
            if held.cancelled:
                self.cancel(held.job_id)
            if held.job_id not in self._attempts and held.since_ms < long_ago_ms:
                # Its claim was written although the answer was lost, or its end was not.
                await self._leases.put_back(self._id, held.job_id, held.attempt, _LOST)

    async def _claim(self) -> None:
        self._news.clear()
        if not self._id or self._paused() or len(self._attempts) >= self._bounds.most:
            return
        now = asyncio.get_running_loop().time()
        self._rests_until = {t: until for t, until in self._rests_until.items() if until > now}
        waiting = [t for t in await self._leases.tenants() if t not in self._rests_until]
        running = self._running()
        for tenant_id, most in self._turns.share(waiting, running).items():
            runner_id = self._id
            for job in await self._leases.claim(runner_id, tenant_id, most):
                self._begin(job, runner_id)

    def _begin(self, job: Job, runner_id: str) -> None:
        earlier = self._attempts.get(job.id)
        if earlier is not None:
            # Its lease was lost, which no beat has seen yet: no beat would stop it any more.
            earlier.stop("the job has been claimed anew")
        attempt = self._attempts[job.id] = JobAttempt(job, runner_id, self._parts)
        self._metrics.jobs_running.set(len(self._attempts))
        task = asyncio.create_task(self._run(attempt), name=job.request_id)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, attempt: JobAttempt) -> None:
        try:
            outcome = await attempt.run()
            self._metrics.job_attempts.labels(_told(outcome)).inc()
            self._learn(attempt.job.tenant_id, outcome)
        except Exception as error:
            _log.error("job_attempt_broken", job_id=attempt.job.id, exc_info=error)
        finally:
            if self._attempts.get(attempt.job.id) is attempt:
                del self._attempts[attempt.job.id]
            self._metrics.jobs_running.set(len(self._attempts))
            self._news.set()

    def _running(self) -> Counter[str]:
        return Counter(attempt.job.tenant_id for attempt in self._attempts.values())

    def _learn(self, tenant_id: str, outcome: Outcome | None) -> None:
        """What refused one job of a tenant would refuse its others, too."""
        if isinstance(outcome, End):
            self._windows.ended(tenant_id)
        if not isinstance(outcome, Again) or outcome.failed:
            return
        if outcome.error.reason is Reason.CONCURRENCY_LIMIT_EXCEEDED:
            others = self._running()[tenant_id] - 1
            self._windows.refused(tenant_id, others)
            if others > 0:
                # There is room once one of them has ended.
                return
        until = asyncio.get_running_loop().time() + min(outcome.wait_ms / 1_000, _MOST_REST_S)
        self._rests_until[tenant_id] = max(until, self._rests_until.get(tenant_id, 0.0))

    async def _recover(self) -> None:
        while await self._leases.recover(_LOST):
            self._news.set()
        for charge in await self._charges.take_due():
            await self._charges.make(charge)


def _told(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not_written"
    return "tried_again" if isinstance(outcome, Again) else outcome.state.value
