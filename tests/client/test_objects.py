# ruff: noqa: N802
"""Sessions and jobs of the typed client, against a real grpc.aio server that plays the gateway."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.error_reason_pb2 import ERROR_REASON_WORKER_LOST
from weir.gateway.v1 import job_service_pb2 as jobs
from weir.gateway.v1 import session_service_pb2 as sessions
from weir.gateway.v1.job_service_pb2_grpc import (
    JobServiceServicer,
    add_JobServiceServicer_to_server,
)
from weir.gateway.v1.session_service_pb2_grpc import (
    SessionServiceServicer,
    add_SessionServiceServicer_to_server,
)
from weir_client import AsyncClient, DeadlineExceeded, JobState, NotFound, RetryPolicy

WHEN = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


class Sessions(SessionServiceServicer):
    """Three sessions, two a page."""

    def __init__(self) -> None:
        self.created: list[sessions.CreateSessionRequest] = []
        self.held = [sessions.Session(session_id=f"sess_{n}", tokens=n) for n in range(3)]

    async def CreateSession(self, request: sessions.CreateSessionRequest, context: Any) -> Any:
        self.created.append(request)
        session = sessions.Session(
            session_id="sess_9",
            model=request.model,
            conversation_id=request.conversation_id,
            create_time=at(WHEN),
            idle_ttl=request.idle_ttl,
        )
        return sessions.CreateSessionResponse(session=session)

    async def GetSession(self, request: sessions.GetSessionRequest, context: Any) -> Any:
        for session in self.held:
            if session.session_id == request.session_id:
                return sessions.GetSessionResponse(session=session)
        return await context.abort(grpc.StatusCode.NOT_FOUND, "no such session")

    async def ListSessions(self, request: sessions.ListSessionsRequest, context: Any) -> Any:
        start = int(request.page_token or 0)
        end = start + request.page_size
        token = str(end) if end < len(self.held) else ""
        return sessions.ListSessionsResponse(sessions=self.held[start:end], next_page_token=token)

    async def DeleteSession(self, request: sessions.DeleteSessionRequest, context: Any) -> Any:
        self.held = [s for s in self.held if s.session_id != request.session_id]
        return sessions.DeleteSessionResponse()


class Jobs(JobServiceServicer):
    """One job that ends as it is told; its watch breaks as often as it is told."""

    def __init__(self) -> None:
        self.submitted: list[jobs.SubmitJobRequest] = []
        self.states = [jobs.JOB_STATE_QUEUED, jobs.JOB_STATE_RUNNING, jobs.JOB_STATE_SUCCEEDED]
        self.breaks = 0
        self.ends = asyncio.Event()
        self.ends.set()
        self.watches = 0

    async def SubmitJob(self, request: jobs.SubmitJobRequest, context: Any) -> Any:
        self.submitted.append(request)
        return jobs.SubmitJobResponse(job=self._job(jobs.JOB_STATE_QUEUED))

    async def GetJob(self, request: jobs.GetJobRequest, context: Any) -> Any:
        return jobs.GetJobResponse(job=self._job(jobs.JOB_STATE_FAILED))

    async def CancelJob(self, request: jobs.CancelJobRequest, context: Any) -> Any:
        return jobs.CancelJobResponse(job=self._job(jobs.JOB_STATE_CANCELLED))

    async def ListJobs(self, request: jobs.ListJobsRequest, context: Any) -> Any:
        state = request.state or jobs.JOB_STATE_QUEUED
        token = "" if request.page_token else "more"
        return jobs.ListJobsResponse(jobs=[self._job(state)], next_page_token=token)

    async def WatchJob(
        self, request: jobs.WatchJobRequest, context: Any
    ) -> AsyncIterator[jobs.WatchJobResponse]:
        self.watches += 1
        for state in self.states[:2]:
            yield jobs.WatchJobResponse(job=self._job(state))
        if self.breaks:
            self.breaks -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        await self.ends.wait()
        for state in self.states[2:]:
            yield jobs.WatchJobResponse(job=self._job(state))

    @staticmethod
    def _job(state: "jobs.JobState.ValueType") -> jobs.Job:
        job = jobs.Job(job_id="job_1", state=state, create_time=at(WHEN))
        if state == jobs.JOB_STATE_SUCCEEDED:
            job.text = "done"
            job.usage.total_tokens = 5
        if state == jobs.JOB_STATE_FAILED:
            job.error_reason = ERROR_REASON_WORKER_LOST
            job.error_message = "the worker died"
        return job


class Played:
    """The server's two services and a client of it."""

    def __init__(self, client: AsyncClient, sessions: Sessions, jobs: Jobs) -> None:
        self.client, self.sessions, self.jobs = client, sessions, jobs


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    server = grpc.aio.server()
    held, work = Sessions(), Jobs()
    add_SessionServiceServicer_to_server(held, server)
    add_JobServiceServicer_to_server(work, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    retry = RetryPolicy(first_delay_s=0.01)
    async with AsyncClient(f"127.0.0.1:{port}", "key", retry=retry) as client:
        yield Played(client, held, work)
    await server.stop(None)


async def test_a_session_is_made_and_read(played: Played) -> None:
    ttl = timedelta(minutes=20)
    made = await played.client.sessions.create("m", conversation_id="chat", idle_ttl=ttl)
    assert (made.id, made.model, made.conversation_id) == ("sess_9", "m", "chat")
    assert (made.created, made.last_used, made.idle_ttl) == (WHEN, None, ttl)
    assert (await played.client.sessions.get("sess_2")).tokens == 2
    with pytest.raises(NotFound):
        await played.client.sessions.get("sess_7")


async def test_the_servers_default_is_left_to_it(played: Played) -> None:
    await played.client.sessions.create("m")
    assert not played.sessions.created[0].HasField("idle_ttl")


async def test_sessions_are_listed_over_pages_and_ended(played: Played) -> None:
    listed = [session.id async for session in played.client.sessions.list(page_size=2)]
    assert listed == ["sess_0", "sess_1", "sess_2"]
    await played.client.sessions.delete("sess_1")
    assert [s.id async for s in played.client.sessions.list()] == ["sess_0", "sess_2"]


async def test_a_job_is_submitted_with_all_that_a_generation_has(played: Played) -> None:
    job = await played.client.jobs.submit(
        "m",
        prompt="x",
        max_new_tokens=7,
        temperature=0.0,
        webhook_url="https://example.org/hook",
        idempotency_key="mine",
    )
    assert (job.id, job.state, job.created) == ("job_1", JobState.QUEUED, WHEN)
    assert not job.state.final
    (sent,) = played.jobs.submitted
    assert (sent.request.model, sent.request.prompt, sent.request.max_new_tokens) == ("m", "x", 7)
    assert sent.request.sampling.HasField("temperature")
    assert (sent.webhook_url, sent.idempotency_key) == ("https://example.org/hook", "mine")
    assert sent.request.idempotency_key == ""


async def test_a_failed_job_tells_why(played: Played) -> None:
    job = await played.client.jobs.get("job_1")
    assert (job.state, job.state.final) == (JobState.FAILED, True)
    assert (job.error_reason, job.error_message) == ("WORKER_LOST", "the worker died")
    assert (await played.client.jobs.cancel("job_1")).state is JobState.CANCELLED


async def test_jobs_of_one_state_are_listed(played: Played) -> None:
    listed = [job.state async for job in played.client.jobs.list(state=JobState.RUNNING)]
    assert listed == [JobState.RUNNING, JobState.RUNNING]


async def test_a_watch_goes_on_over_a_lost_connection(played: Played) -> None:
    played.jobs.breaks = 4
    states = [job.state async for job in played.client.jobs.watch("job_1")]
    assert states[-1] is JobState.SUCCEEDED
    assert states[:2] == [JobState.QUEUED, JobState.RUNNING]
    assert played.jobs.watches == 5


async def test_the_end_of_a_job_is_waited_for(played: Played) -> None:
    job = await played.client.jobs.wait("job_1")
    assert (job.state, job.text, job.usage.total_tokens) == (JobState.SUCCEEDED, "done", 5)


async def test_a_wait_has_a_deadline(played: Played) -> None:
    played.jobs.ends.clear()
    with pytest.raises(DeadlineExceeded):
        await played.client.jobs.wait("job_1", timeout_s=0.5)
