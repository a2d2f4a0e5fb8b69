"""`weir.gateway.v1.JobService`: thin over `JobDesk`."""

# ruff: noqa: N802 - methods are named by the contract

import asyncio
from contextlib import aclosing

from weir.gateway.v1.inference_service_pb2 import GenerateRequest
from weir.gateway.v1.job_service_pb2 import (
    CancelJobRequest,
    CancelJobResponse,
    GetJobRequest,
    GetJobResponse,
    ListJobsRequest,
    ListJobsResponse,
    SubmitJobRequest,
    SubmitJobResponse,
    WatchJobRequest,
    WatchJobResponse,
)
from weir.gateway.v1.job_service_pb2_grpc import JobServiceServicer
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.interceptors.handler import Context
from weir_core.rpc.metadata import AUTHORIZATION, first_value
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.open_streams import OpenStreams
from weir_gateway.jobs.desk import JobDesk
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.messages import job_message, to_state
from weir_gateway.jobs.submission import Submission
from weir_gateway.native.message_size import check_size

_BEAT_S = 15.0


class JobServicer(JobServiceServicer):
    """Serves callers their tenant's jobs.

    Args:
        reception: lets them in.
        desk, kinds: see there.
        max_bytes: of a request.
        stall_s: a watcher that reads nothing for so long is given up.
        streams: has places for watches.
    """

    def __init__(
        self,
        reception: Reception,
        desk: JobDesk,
        kinds: JobKinds,
        *,
        max_bytes: int,
        stall_s: float,
        streams: OpenStreams,
    ) -> None:
        self._reception = reception
        self._desk = desk
        self._kinds = kinds
        self._max_bytes = max_bytes
        self._stall_s = stall_s
        self._streams = streams

    async def SubmitJob(self, request: SubmitJobRequest, context: Context) -> SubmitJobResponse:
        """Accepts a job."""
        caller = self._caller(context)
        check_size(request, self._max_bytes)
        if not request.HasField("request"):
            raise InvalidField("request", None, "what is to be generated")
        body = _body(request.request)
        submission = Submission(
            kind="native",
            body=body,
            parse=lambda: self._kinds.of("native").parse(body),
            webhook_url=request.webhook_url,
            idempotency_key=request.idempotency_key,
        )
        submitted = await self._desk.submit(caller, submission)
        return SubmitJobResponse(job=job_message(submitted.job, self._kinds))

    async def GetJob(self, request: GetJobRequest, context: Context) -> GetJobResponse:
        """Reads a job."""
        caller = self._caller(context)
        job = await self._desk.get(caller, _id(request.job_id))
        return GetJobResponse(job=job_message(job, self._kinds))

    async def WatchJob(  # type: ignore[override]
        self, request: WatchJobRequest, context: Context
    ) -> None:
        """Sends the job at once, then each change, until it has ended."""
        caller = self._caller(context)
        last = WatchJobResponse()
        with self._streams.place(caller):
            async with aclosing(self._desk.watch(caller, _id(request.job_id), _BEAT_S)) as changes:
                async for job in changes:
                    if job is not None:
                        last = WatchJobResponse(job=job_message(job, self._kinds))
                    await self._write(context, last)

    async def CancelJob(self, request: CancelJobRequest, context: Context) -> CancelJobResponse:
        """Cancels a job."""
        caller = self._caller(context)
        job = await self._desk.cancel(caller, _id(request.job_id))
        return CancelJobResponse(job=job_message(job, self._kinds))

    async def ListJobs(self, request: ListJobsRequest, context: Context) -> ListJobsResponse:
        """Lists jobs, newest first."""
        caller = self._caller(context)
        state = to_state(request.state)
        page, token = await self._desk.page(caller, request.page_size, request.page_token, state)
        jobs = [job_message(job, self._kinds) for job in page]
        return ListJobsResponse(jobs=jobs, next_page_token=token)

    async def _write(self, context: Context, response: WatchJobResponse) -> None:
        try:
            async with asyncio.timeout(self._stall_s):
                await context.write(response)
        except TimeoutError:
            raise WeirError(
                Reason.CANCELLED, f"the client has read nothing for {self._stall_s:.0f} s"
            ) from None

    def _caller(self, context: Context) -> Caller:
        header = first_value(context.invocation_metadata(), AUTHORIZATION)
        return self._reception.let_in(header)


def _body(request: GenerateRequest) -> bytes:
    return request.SerializeToString(deterministic=True)


def _id(job_id: str) -> str:
    if not job_id:
        raise InvalidField("job_id", "", "the id of a job")
    return job_id
