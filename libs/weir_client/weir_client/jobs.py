"""Jobs of the caller's tenant."""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Unpack

import grpc

from weir.gateway.v1 import job_service_pb2 as wire
from weir.gateway.v1.job_service_pb2_grpc import JobServiceStub
from weir_client.connection import Connection
from weir_client.errors import ServerError
from weir_client.job import Job, JobState, job_of, wire_state
from weir_client.pages import all_pages
from weir_client.request import GenerateOptions, Message, build_request

_DAY_S = 86_400.0


class Jobs:
    """Submits, reads, watches and cancels jobs. Every call raises WeirClientError's subclasses."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stub = JobServiceStub(connection.channel)

    async def submit(
        self,
        model: str,
        *,
        max_new_tokens: int,
        messages: Iterable[Message] | None = None,
        prompt: str | None = None,
        webhook_url: str = "",
        **options: Unpack[GenerateOptions],
    ) -> Job:
        """Accepts work to be done later.

        With the option `idempotency_key` the same call gives the same job; without it each call
        gives one job, however often it is tried.

        Args:
            model, max_new_tokens, messages, prompt: see `AsyncClient.generate`.
            webhook_url: https URL that is called when the job ends; empty: none.
            **options: see GenerateOptions.
        """
        key = options.pop("idempotency_key", "") or uuid.uuid4().hex
        work = build_request(
            model,
            messages=messages,
            prompt=prompt,
            max_new_tokens=max_new_tokens,
            stream=False,
            options=options,
        )
        request = wire.SubmitJobRequest(request=work, webhook_url=webhook_url, idempotency_key=key)
        return job_of((await self._connection.call(self._stub.SubmitJob, request)).job)

    async def get(self, job_id: str) -> Job:
        """Reads one: its state, and its result once it has ended."""
        request = wire.GetJobRequest(job_id=job_id)
        return job_of((await self._connection.call(self._stub.GetJob, request)).job)

    async def watch(self, job_id: str, *, timeout_s: float = _DAY_S) -> AsyncGenerator[Job]:
        """The job as it is now, then at each change, until it has ended.

        Goes on over a lost connection. Raises DeadlineExceeded if it has not ended in time.
        """
        request, last = wire.WatchJobRequest(job_id=job_id), None
        async with aclosing(
            self._connection.watch(self._stub.WatchJob, request, timeout_s)
        ) as responses:
            async for response in responses:
                job = job_of(response.job)
                if job != last:
                    yield job
                last = job
                if job.state.final:
                    return

    async def wait(self, job_id: str, *, timeout_s: float = _DAY_S) -> Job:
        """Waits until it has ended; look at `state` for how. Raises as `watch` does."""
        async with aclosing(self.watch(job_id, timeout_s=timeout_s)) as jobs:
            async for job in jobs:
                if job.state.final:
                    return job
        raise ServerError(grpc.StatusCode.DATA_LOSS, "the watch ended before the job")

    async def cancel(self, job_id: str) -> Job:
        """Cancels one; what ran is charged."""
        request = wire.CancelJobRequest(job_id=job_id)
        return job_of((await self._connection.call(self._stub.CancelJob, request)).job)

    def list(self, *, state: JobState | None = None, page_size: int = 100) -> AsyncIterator[Job]:
        """All of the tenant's, newest first; or those in one state."""

        async def fetch(token: str) -> tuple[Iterable[Job], str]:
            request = wire.ListJobsRequest(
                page_size=page_size, page_token=token, state=wire_state(state)
            )
            response = await self._connection.call(self._stub.ListJobs, request)
            return map(job_of, response.jobs), response.next_page_token

        return all_pages(fetch)
