"""`JobService`, as two tenants use it."""

from typing import Any

import grpc
import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.gateway.v1 import job_service_pb2 as pb
from weir.gateway.v1.inference_service_pb2 import ChatInput, ChatMessage, GenerateRequest
from weir.gateway.v1.job_service_pb2_grpc import JobServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")


def request(**fields: Any) -> GenerateRequest:
    chat = ChatInput(messages=[ChatMessage(role="user", content="hi")])
    values: dict[str, Any] = {"model": MODEL, "chat": chat, "max_new_tokens": 3}
    return GenerateRequest(**(values | fields))


def stub(site: Gateway) -> Any:
    return JobServiceStub(site.channel)


async def until_ended(site: Gateway, job_id: str) -> pb.Job:
    last = pb.Job()
    async for response in stub(site).WatchJob(
        pb.WatchJobRequest(job_id=job_id), metadata=site.metadata, timeout=20
    ):
        last = response.job
    return last


async def refusal(call: Any) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)


async def test_submit_watch_get_and_list(site: Gateway) -> None:
    submitted = await stub(site).SubmitJob(
        pb.SubmitJobRequest(request=request()), metadata=site.metadata
    )
    assert submitted.job.state == pb.JOB_STATE_QUEUED
    assert submitted.job.model == MODEL
    ended = await until_ended(site, submitted.job.job_id)
    assert ended.state == pb.JOB_STATE_SUCCEEDED
    assert ended.text == "t0 t1 t2 "
    assert ended.usage.completion_tokens == 3
    assert ended.expire_time.seconds > ended.end_time.seconds >= ended.start_time.seconds
    found = await stub(site).GetJob(pb.GetJobRequest(job_id=ended.job_id), metadata=site.metadata)
    assert found.job == ended
    page = await stub(site).ListJobs(
        pb.ListJobsRequest(page_size=1, state=pb.JOB_STATE_SUCCEEDED), metadata=site.metadata
    )
    assert [job.job_id for job in page.jobs] == [ended.job_id]
    assert page.jobs[0].text == ""


async def test_the_watch_of_a_running_job_ends_with_its_cancellation(site: Gateway) -> None:
    site.worker.script = Script(pause_after=1)
    submitted = await stub(site).SubmitJob(
        pb.SubmitJobRequest(request=request()), metadata=site.metadata
    )
    await eventually(lambda: site.worker.tokens == 1)
    await stub(site).CancelJob(
        pb.CancelJobRequest(job_id=submitted.job.job_id), metadata=site.metadata
    )
    ended = await until_ended(site, submitted.job.job_id)
    assert ended.state == pb.JOB_STATE_CANCELLED
    assert ended.error_reason == ErrorReason.ERROR_REASON_CANCELLED
    assert ended.usage.completion_tokens == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "request"),
        ({"request": request(stream=True)}, "stream"),
        ({"request": request(model="nope")}, "model"),
        ({"request": request(), "idempotency_key": "x" * 256}, "idempotency_key"),
        ({"request": request(), "webhook_url": "https://"}, "webhook_url"),
    ],
)
async def test_refusals_name_the_field(site: Gateway, fields: dict[str, Any], field: str) -> None:
    error = await refusal(
        stub(site).SubmitJob(pb.SubmitJobRequest(**fields), metadata=site.metadata)
    )
    assert error.field == field


async def test_a_key_that_was_used_for_something_else_is_told(site: Gateway) -> None:
    first = pb.SubmitJobRequest(request=request(), idempotency_key="grpc-1")
    one = await stub(site).SubmitJob(first, metadata=site.metadata)
    two = await stub(site).SubmitJob(first, metadata=site.metadata)
    assert one.job.job_id == two.job.job_id
    other = pb.SubmitJobRequest(request=request(max_new_tokens=4), idempotency_key="grpc-1")
    error = await refusal(stub(site).SubmitJob(other, metadata=site.metadata))
    assert error.reason is Reason.IDEMPOTENCY_CONFLICT
    await until_ended(site, one.job.job_id)


async def test_the_job_of_another_tenant_is_not_found(site: Gateway) -> None:
    submitted = await stub(site).SubmitJob(
        pb.SubmitJobRequest(request=request()), metadata=site.metadata
    )
    await until_ended(site, submitted.job.job_id)
    stranger = (("authorization", f"Bearer {site.other_key.secret}"),)
    for method, message in (
        ("GetJob", pb.GetJobRequest),
        ("CancelJob", pb.CancelJobRequest),
    ):
        told = [
            await refusal(getattr(stub(site), method)(message(job_id=job_id), metadata=stranger))
            for job_id in (submitted.job.job_id, "job_none")
        ]
        assert [error.reason for error in told] == [Reason.JOB_NOT_FOUND] * 2
        assert told[0].message == told[1].message
    watch = stub(site).WatchJob(pb.WatchJobRequest(job_id=submitted.job.job_id), metadata=stranger)
    assert (await refusal(watch.read())).reason is Reason.JOB_NOT_FOUND
    listed = await stub(site).ListJobs(pb.ListJobsRequest(), metadata=stranger)
    assert submitted.job.job_id not in {job.job_id for job in listed.jobs}
