"""One attempt at a claimed job: run it, write down what came of it, then charge it.

In this order: a charge without a result would be made again with the next attempt, and a result
whose charge was lost could not be found. See `docs/decisions/0052`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import Backoff
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.ending import Ending, cancelled, failed
from weir_gateway.flow.keeping import Keeping
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.messages import settle_message
from weir_gateway.flow.origin import Origin, bind_origin
from weir_gateway.flow.reception import Reception
from weir_gateway.jobs.charges import Charge, JobCharges
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.leases import JobLeases
from weir_gateway.jobs.outcome import Again, End, Outcome, cancelled_error
from weir_gateway.jobs.retry import is_fault, is_worth_waiting, wait_ms

_log = get_logger(__name__)

_TAKE_S = 30.0
_LEAST_MS = 1_000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class AttemptParts:
    """What every attempt works with.

    Attributes:
        reception: takes the request in.
        kinds, leases, charges: see there.
        clock: wall time.
        longest_s: life of one attempt, its wait at the scheduler included.
        write_s: how long the outcome is offered to a database that is away.
    """

    reception: Reception
    kinds: JobKinds
    leases: JobLeases
    charges: JobCharges
    clock: Clock
    longest_s: float
    write_s: float


class JobAttempt:
    """See the module.

    Args:
        job: as claimed.
        runner_id: that claimed it.
        parts: what it works with.
    """

    def __init__(self, job: Job, runner_id: str, parts: AttemptParts) -> None:
        self.job = job
        self._runner_id = runner_id
        self._parts = parts
        self._live: LiveRequest | None = None
        self._cancelled = False
        self._stopped = ""

    def cancel(self) -> None:
        """Its owner asked for the end of the job."""
        self._cancelled = True
        if self._live is not None:
            self._live.stop(cancelled())

    def stop(self, message: str) -> None:
        """Gives up: another attempt will be made, here or elsewhere."""
        self._stopped = message
        if self._live is not None:
            self._live.stop(failed(Reason.DRAINING, message))

    async def run(self) -> Outcome | None:
        """What came of it; None if that could not be written down."""
        keeping = Keeping(self.job.request_id)
        try:
            outcome = await self._outcome(keeping)
            return await self._write(outcome, keeping)
        finally:
            # Nobody knows whether anything was written down: a charge that was is found there.
            keeping.decide(gives_back=False)

    async def _outcome(self, keeping: Keeping) -> Outcome:
        try:
            return await self._generate(keeping)
        except WeirError as error:
            return self._refused(error)
        except Exception as error:
            _log.error("job_failed", job_id=self.job.id, exc_info=error)
            told = WeirError(Reason.INTERNAL, f"internal error, id {self.job.request_id}")
            return self._refused(told)
        finally:
            if self._live is not None and not self._live.ended.done():
                self._live.stop(failed(Reason.INTERNAL, "the gateway gave the attempt up"))

    async def _generate(self, keeping: Keeping) -> Outcome:
        job, parts = self.job, self._parts
        caller = parts.reception.standing(job.tenant_id, job.api_key_id)
        kind = parts.kinds.of(job.kind)
        bind_origin(Origin(links=(job.traceparent,) if job.traceparent else ()))
        admission = await parts.reception.admit(
            caller,
            lambda: kind.parse(job.body),
            size=len(job.body),
            deadline_s=self._life_s(),
            keeping=keeping,
        )
        live = self._live = admission.live
        if self._cancelled:
            live.stop(cancelled())
        elif self._stopped:
            live.stop(failed(Reason.DRAINING, self._stopped))
        recorder = kind.recorder(job, live)
        some = False
        while True:
            taken = await live.delivery.take(_TAKE_S)
            if taken.pieces:
                some = True
                await recorder.pieces(taken.pieces)
            if taken.ending is not None:
                break
        ending = taken.ending
        if ending.error is None or (ending.cut_by_quota and some):
            return self._end(JobState.SUCCEEDED, ending, result=await recorder.finish(ending))
        return self._ended_early(ending, ending.error)

    def _ended_early(self, ending: Ending, error: WeirError) -> Outcome:
        if self._cancelled:
            return self._end(JobState.CANCELLED, ending, error=cancelled_error())
        if error.reason is Reason.DEADLINE_EXCEEDED and self._window_over():
            return self._end(JobState.EXPIRED, ending)
        again = self._again(error)
        return again or self._end(JobState.FAILED, ending)

    def _end(
        self,
        state: JobState,
        ending: Ending,
        *,
        result: bytes = b"",
        error: WeirError | None = None,
    ) -> End:
        live = self._live
        assert live is not None
        charge = b""
        if ending.started:
            message = settle_message(live.facts.record, ending, record_of(live, ending))
            charge = message.SerializeToString()
        return End(
            state=state,
            result=result,
            usage=ending.usage,
            charge=charge,
            error=error or ending.error,
        )

    def _refused(self, error: WeirError) -> Outcome:
        """Of an attempt of which nothing ran, or that broke in our own code."""
        if self._cancelled:
            return End(state=JobState.CANCELLED, error=cancelled_error())
        return self._again(error) or End(state=JobState.FAILED, error=error)

    def _again(self, error: WeirError) -> Again | None:
        if is_fault(error):
            return Again(error, wait_ms(error, self.job.failures + 1), failed=True)
        if is_worth_waiting(error):
            return Again(error, wait_ms(error, self.job.attempt), failed=False)
        return None

    async def _write(self, outcome: Outcome, keeping: Keeping) -> Outcome | None:
        leases, job = self._parts.leases, self.job
        if isinstance(outcome, Again):
            # It is given back before it is tried again, which may be at once.
            keeping.decide(gives_back=True)
            await self._insist(
                lambda: leases.put_back(self._runner_id, job.id, job.attempt, outcome)
            )
            return outcome
        ours = await self._insist(lambda: leases.end(self._runner_id, job, outcome))
        if ours is None:
            return None
        keeping.decide(gives_back=not ours or not outcome.charge)
        if ours and outcome.charge:
            with suppress(WeirError):
                await self._parts.charges.make(Charge(job.id, outcome.charge))
        return outcome

    async def _insist(self, write: Callable[[], Awaitable[_T]]) -> _T | None:
        """Writes, again and again while the database is away; None after `write_s`."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._parts.write_s
        backoff = Backoff(first_s=0.1, most_s=5.0)
        while True:
            try:
                return await write()
            except WeirError as error:
                if loop.time() >= ends_at:
                    _log.error("job_not_written", job_id=self.job.id, reason=error.reason)
                    return None
            await asyncio.sleep(backoff.next_s())

    def _window_over(self) -> bool:
        """Whether there is no time for another attempt: what ran of this one is charged then."""
        return self._parts.clock.now_ms() + _LEAST_MS >= self.job.deadline_ms

    def _life_s(self) -> float:
        left_s = self.job.deadline_ms / 1_000 - self._parts.clock.now_us() / 1_000_000
        return max(0.1, min(left_s, self._parts.longest_s))
