"""What callers do with jobs, whatever door they come through."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import new_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.preparer import Preparer
from weir_gateway.jobs.enqueued import most_enqueued
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.kind import FOR_CALLERS
from weir_gateway.jobs.runner import JobRunner
from weir_gateway.jobs.store import JobStore, Submitted
from weir_gateway.jobs.submission import Submission
from weir_gateway.jobs.submissions import Submissions
from weir_gateway.paging import cut, page_size, read_token
from weir_gateway.webhooks.url import check_webhook_url

_MOST_ON_LOOP = 50_000
_POLL_S = 0.5


class JobDesk:
    """Submits, reads, watches and cancels.

    Args:
        store, reception, preparer, clock: see there.
        runner: told of new jobs and of those that are to end.
        window_ms: a job that has not ended so long after it came expires, milliseconds.
        submissions: spans of submissions.
        http_webhooks: whether webhooks may go over plain HTTP.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        reception: Reception,
        preparer: Preparer,
        runner: JobRunner,
        clock: Clock,
        window_ms: int,
        submissions: Submissions,
        http_webhooks: bool,
    ) -> None:
        self._store = store
        self._reception = reception
        self._preparer = preparer
        self._runner = runner
        self._clock = clock
        self._window_ms = window_ms
        self._submissions = submissions
        self._http_webhooks = http_webhooks

    async def submit(self, caller: Caller, submission: Submission) -> Submitted:
        """Accepts a job that could run now, limits apart.

        Raises:
            WeirError: whatever refuses the request itself; IDEMPOTENCY_CONFLICT;
                ENQUEUED_TOKENS_EXCEEDED; STATE_OFF or STATE_UNAVAILABLE.
        """
        submission.check_key()
        if submission.webhook_url:
            check_webhook_url(submission.webhook_url, allow_http=self._http_webhooks)
        large = len(submission.body) > _MOST_ON_LOOP
        parse = submission.parse
        request = await asyncio.to_thread(parse) if large else parse()
        prepared = await self._preparer.prepare(caller, request)
        now_ms = self._clock.now_ms()
        job_id = new_id("job", self._clock)
        job = Job(
            id=job_id,
            tenant_id=caller.tenant_id,
            user_id=caller.user_id,
            api_key_id=caller.key_id,
            kind=submission.kind,
            model=prepared.subject.model,
            body=submission.body,
            created_ms=now_ms,
            deadline_ms=now_ms + self._window_ms,
            enqueued_tokens=prepared.prompt_tokens + prepared.output_tokens,
            webhook_url=submission.webhook_url,
            idempotency_key=submission.idempotency_key,
            fingerprint=submission.fingerprint,
            traceparent=self._submissions.of_job(job_id, caller, prepared.subject.model),
        )
        submitted = await self._store.add(job, most_tokens=most_enqueued(caller.policy.batch))
        self._runner.wake()
        return submitted

    async def get(self, caller: Caller, job_id: str) -> Job:
        """A whole job. Raises WeirError(JOB_NOT_FOUND)."""
        return _job_of_caller(await self._store.get(caller.tenant_id, job_id))

    async def cancel(self, caller: Caller, job_id: str) -> Job:
        """Ends a queued job at once, a running one soon. Raises WeirError(JOB_NOT_FOUND)."""
        await self.get(caller, job_id)
        job = await self._store.cancel(caller.tenant_id, job_id)
        self._runner.cancel(job_id)
        return job

    async def page(
        self, caller: Caller, size: int, token: str, state: JobState | None
    ) -> tuple[Sequence[Job], str]:
        """A page of the tenant's jobs, newest first, and the token of the next; empty at the end.

        Raises:
            WeirError: INVALID_FIELD for a size out of bounds or a token of nobody.
        """
        most, before = page_size(size), read_token(token)
        found = await self._store.list(
            caller.tenant_id, limit=most + 1, before_id=before, state=state, kinds=FOR_CALLERS
        )
        return cut(found, lambda job: job.id, most)

    async def watch(
        self, caller: Caller, job_id: str, beat_s: float
    ) -> AsyncGenerator[Job | None, None]:
        """The job at once, and after each change that is seen; ends with its end.

        Yields None after `beat_s` without a change: so that a caller who left is noticed.

        Raises:
            WeirError: JOB_NOT_FOUND; why the caller is no longer welcome.
        """
        loop = asyncio.get_running_loop()
        version, quiet_since = 0, loop.time()
        while True:
            self._reception.standing(caller.tenant_id, caller.key_id)
            if await self._store.version(caller.tenant_id, job_id) != version:
                job = await self.get(caller, job_id)
                version, quiet_since = job.version, loop.time()
                yield job
                if job.state.ended:
                    return
            elif loop.time() - quiet_since >= beat_s:
                quiet_since = loop.time()
                yield None
            await asyncio.sleep(_POLL_S)


def _job_of_caller(job: Job) -> Job:
    if job.kind not in FOR_CALLERS:
        raise WeirError(Reason.JOB_NOT_FOUND, "there is no such job of this tenant", field="job_id")
    return job
