"""Whatever becomes of a request is explained by the id that its client was told."""

import asyncio
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.gateway.degradation.site import SMALL, set_policy
from tests.gateway.harness import Gateway, eventually
from tests.gateway.insight.asking import explain, kinds, phases, question, request_id_of, said
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.gateway.v1.insight_service_pb2 import RequestState
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir_core.errors import LimitExceeded, Reason, Violation, WeirError
from weir_core.errors.refusal import refused_for_now

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW_MS = 1_700_000_000_000


def refusal(_: ReserveRequest) -> LimitExceeded:
    """Of a limit of the tenant's, and of one of the cluster's, whose numbers are nobody's."""

    def violation(limit_id: str, layer: str, limit: int | None, wait_ms: int) -> Violation:
        return Violation(
            limit_id=limit_id,
            limit_type="tpm",
            resource="tokens",
            layer=layer,
            limit=limit,
            used=None if limit is None else limit - 5,
            requested=48,
            reset_time_ms=NOW_MS + wait_ms,
            knob=f"`tokens` of {layer}",
        )

    violations = [
        violation("tenant:acme/tpm", "tenant", 60_000, 9_000),
        violation("cluster/tpm", "cluster", None, 1_000),
    ]
    return refused_for_now(violations, NOW_MS)


def header(response: Any) -> str:
    return str(response.headers["x-request-id"])


async def started(gateway: Gateway, **fields: Any) -> str:
    """The id of a request that waits for the test's scheduler."""
    waiting = len(gateway.scheduler.enqueued)
    task = asyncio.create_task(gateway.chat(**fields))
    await eventually(lambda: len(gateway.scheduler.enqueued) > waiting)
    _tasks.append(task)
    return gateway.scheduler.enqueued[-1].request_id


_tasks: list[asyncio.Task[Any]] = []


async def finished() -> Any:
    return await _tasks.pop()


async def test_an_answer_is_told_from_its_arrival_to_its_charge(gateway: Gateway) -> None:
    told = await explain(gateway, header(await gateway.chat(max_tokens=5)))
    assert told.state == RequestState.REQUEST_STATE_ENDED
    assert kinds(told) == [
        *("ARRIVED", "RESERVED", "ENQUEUED", "DISPATCHED", "FIRST_TOKEN", "ENDED", "SETTLED")
    ]
    names = ["intake", "reserve", "queue", "dispatch", "decode", "settle"]
    assert [name for name in phases(told) if name != "prefill"] == names
    times = [phase.start_time.ToMicroseconds() for phase in told.phases]
    assert times == sorted(times)
    for one, after in zip(told.phases, told.phases[1:], strict=False):
        assert one.end_time == after.start_time
    assert told.subject.tenant_id == "acme"
    assert told.lifecycle.outcome == Outcome.OUTCOME_OK
    assert told.charge.usage.completion_tokens == 5
    assert not told.HasField("refusal")
    assert "5 output tokens" in said(told)
    assert "The ledger charges" in said(told)
    assert "0.007" in said(told)


async def test_a_refusal_by_limits_keeps_every_violation(gateway: Gateway) -> None:
    gateway.limiter.refuse = refusal
    response = await gateway.chat(max_tokens=5)
    assert response.status_code == 429
    told = await explain(gateway, header(response))
    assert told.state == RequestState.REQUEST_STATE_REFUSED
    assert kinds(told) == ["ARRIVED", "REFUSED"]
    assert phases(told) == ["intake", "reserve"]
    assert told.refusal.error_reason == ErrorReason.ERROR_REASON_TOKEN_LIMIT_EXCEEDED
    own, cluster = told.refusal.violations
    assert (own.limit_id, own.limit, own.used, own.requested) == (
        *("tenant:acme/tpm", 60_000, 59_995, 48),
    )
    assert not cluster.HasField("limit")
    assert not cluster.HasField("used")
    assert told.refusal.retry_after.ToMilliseconds() == 9_000
    text = said(told)
    assert "allows 60000 tokens, 59995 were used and 48 asked for" in text
    assert "2023-11-14T22:13:29Z" in text
    assert "to change: `tokens` of tenant" in text
    assert "of the layer cluster was at its bound" in text
    assert "nothing is held or charged" in text


@pytest.mark.parametrize(
    ("fields", "reason", "named"),
    [
        ({"model": "no-such"}, "MODEL_NOT_FOUND", "model"),
        ({"temperature": 9}, "INVALID_FIELD", "temperature"),
        ({"messages": []}, "INVALID_FIELD", "messages"),
    ],
)
async def test_what_is_refused_before_its_reservation_is_explained_too(
    gateway: Gateway, fields: dict[str, Any], reason: str, named: str
) -> None:
    told = await explain(gateway, header(await gateway.chat(**fields)))
    assert told.state == RequestState.REQUEST_STATE_REFUSED
    assert ErrorReason.Name(told.refusal.error_reason) == f"ERROR_REASON_{reason}"
    assert told.refusal.field == named
    assert f"The field to change is {named}." in told.sentences
    assert told.subject.tenant_id == "acme"


async def test_pages_and_bodies_that_are_refused_tell_an_id_that_explains_them(
    gateway: Gateway,
) -> None:
    for method, path, content in (
        ("POST", "/v1/chat/completions", b"{"),
        ("POST", "/v1/messages", b"{}"),
        ("POST", "/v1/embeddings", b"{}"),
        ("POST", "/v1/tokenize", b"{}"),
        ("GET", "/v1/models/no-such", b""),
        ("GET", "/v1/limits?model=no-such", b""),
        ("GET", "/v1/files", b""),
        ("POST", "/v1/files", b"x"),
        ("GET", "/v1/sessions", b""),
        ("POST", "/v1/jobs", b"{}"),
        ("POST", "/v1/responses", b"{}"),
        ("POST", "/v1/batches", b"{}"),
    ):
        response = await gateway.http.request(method, path, content=content)
        assert response.status_code >= 400, path
        request_id = response.headers.get("x-request-id") or response.headers["request-id"]
        told = await explain(gateway, str(request_id))
        assert told.state == RequestState.REQUEST_STATE_REFUSED, path
        assert told.refusal.message


async def test_a_refusal_over_grpc_tells_its_id(gateway: Gateway) -> None:
    gateway.limiter.refuse = refusal
    calls: list[Any] = [
        gateway.stub.Generate(question(), metadata=gateway.metadata, timeout=20),
        gateway.stub.Generate(question(max_new_tokens=0), metadata=gateway.metadata, timeout=20),
    ]
    for call in calls:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async for _ in call:
                pass
        told = await explain(gateway, request_id_of(refused.value))
        assert told.state == RequestState.REQUEST_STATE_REFUSED
        assert told.refusal.message == refused.value.details()


async def test_who_waits_is_told_why_and_where(gateway: Gateway) -> None:
    gateway.scheduler.hold = True
    request_id = await started(gateway, max_tokens=3)
    await eventually(lambda: len(gateway.scheduler.enqueued) == 1)
    told = await explain(gateway, request_id)
    assert told.state == RequestState.REQUEST_STATE_QUEUED
    assert told.queued.reason == sched.QueueReason.QUEUE_REASON_WORKER_FULL
    assert "Now it is number 1 of its tenant's queue" in said(told)
    assert "max_concurrent_requests" in said(told)
    assert not told.phases[-1].HasField("end_time")
    reason = sched.QueueReason.QUEUE_REASON_KV_FULL
    gateway.scheduler.send(queued=sched.Queued(request_id=request_id, position=1, reason=reason))
    await asyncio.sleep(0.1)
    gateway.scheduler.release()
    await finished()
    told = await explain(gateway, request_id)
    waits = [event for event in told.events if event.queue_reason]
    assert [event.queue_reason for event in waits] == [
        *(sched.QueueReason.QUEUE_REASON_WORKER_FULL, reason)
    ]
    assert waits[0].position == 1
    queue = next(phase for phase in told.phases if phase.name == "queue")
    assert queue.detail == "WORKER_FULL, KV_FULL"
    assert "no worker had enough free KV blocks" in said(told)
    assert "went into waiting for a worker" in said(told) or "KV_FULL" in queue.detail


async def test_what_the_queue_refuses_is_told_with_its_knob(gateway: Gateway) -> None:
    gateway.scheduler.reject = lambda enqueue: sched.Rejected(
        request_id=enqueue.request_id,
        error_reason=ErrorReason.ERROR_REASON_QUEUE_FULL,
        message="3 requests of tenant acme wait already and its max_queued_requests is 3",
        metadata={"limit": "max_queued_requests", "scope": "tenant"},
    )
    told = await explain(gateway, header(await gateway.chat(max_tokens=5)))
    assert told.state == RequestState.REQUEST_STATE_ENDED
    assert told.lifecycle.outcome == Outcome.OUTCOME_SHED
    assert told.refusal.error_reason == ErrorReason.ERROR_REASON_QUEUE_FULL
    assert dict(told.refusal.metadata) == {"limit": "max_queued_requests", "scope": "tenant"}
    assert "The knob is max_queued_requests of the tenant." in told.sentences
    assert "STOPPED" in kinds(told)


async def test_a_second_attempt_is_told_with_why_the_first_ended(gateway: Gateway) -> None:
    script = gateway.worker.script
    script.pieces, script.finish = [], FinishReason.FINISH_REASON_ERROR
    script.error = Reason.ENGINE_FAILED
    told = await explain(gateway, header(await gateway.chat(max_tokens=5)))
    assert kinds(told).count("DISPATCHED") == 2
    moved = next(event for event in told.events if event.attempt == 1 and event.error_reason)
    assert moved.error_reason == ErrorReason.ERROR_REASON_ENGINE_FAILED
    assert phases(told).count("queue") == 2
    assert "Attempt 1 on worker worker-0 ended with ENGINE_FAILED" in said(told)


async def test_a_pre_emption_is_told(gateway: Gateway) -> None:
    gateway.worker.script.pause_after = 0
    request_id = await started(gateway, max_tokens=3)
    await eventually(lambda: gateway.worker.running == 1)
    # For the next attempt alone: the first goes on waiting.
    gateway.worker.script = replace(gateway.worker.script, pause_after=None)
    attempt = Attempt(request_id=request_id, number=1)
    gateway.scheduler.send(
        requeued=sched.Requeued(
            request_id=request_id,
            error_reason=ErrorReason.ERROR_REASON_PREEMPTED,
            attempt=attempt,
        )
    )
    await finished()
    told = await explain(gateway, request_id)
    assert kinds(told)[3:6] == ["DISPATCHED", "PREEMPTED", "DISPATCHED"]
    assert "Attempt 1 gave its place to a more urgent request" in said(told)


async def test_a_stop_by_quota_and_the_growth_before_it_are_told(gateway: Gateway) -> None:
    gateway.limiter.reserve_output = 8
    gateway.worker.script.step_s = 0.01
    granted: list[Any] = []

    def refuse_third(extension: Any) -> WeirError | None:
        if extension.additional_output_tokens:
            granted.append(extension)
        return refusal(ReserveRequest()) if len(granted) > 1 else None

    gateway.limiter.refuse_extension = refuse_third
    response = await gateway.chat(max_tokens=190)
    told = await explain(gateway, header(response))
    assert told.lifecycle.outcome == Outcome.OUTCOME_QUOTA_STOPPED
    assert told.refusal.error_reason == ErrorReason.ERROR_REASON_QUOTA_STOPPED
    assert [v.limit_id for v in told.refusal.violations] == ["tenant:acme/tpm", "cluster/tpm"]
    assert {"EXTENDED", "EXTENSION_REFUSED", "STOPPED"} <= set(kinds(told))
    assert "More output was refused" in said(told)
    assert "Its reservation grew to" in said(told)


async def test_a_client_that_leaves_is_told(gateway: Gateway) -> None:
    gateway.worker.script.pause_after = 1
    call: Any = gateway.stub.Generate(question(stream=True), metadata=gateway.metadata, timeout=20)
    accepted = (await call.read()).accepted
    await eventually(lambda: gateway.worker.running == 1)
    call.cancel()
    await gateway.at_rest()
    told = await explain(gateway, accepted.request_id)
    assert told.lifecycle.outcome == Outcome.OUTCOME_CANCELLED
    assert told.state == RequestState.REQUEST_STATE_ENDED
    assert "It was stopped: the call was cancelled." in told.sentences


async def test_an_account_that_cannot_be_settled_is_told(gateway: Gateway) -> None:
    gateway.limiter.settle_failures = 10_000
    request_id = header(await gateway.chat(max_tokens=2))
    told = await explain(gateway, request_id)
    gateway.limiter.settle_failures = 0
    assert kinds(told)[-1] == "ENDED"
    assert not told.HasField("charge")
    assert "Its account is not closed yet" in said(told)
    await eventually(lambda: not gateway.limiter.open_accounts)
    told = await explain(gateway, request_id)
    assert kinds(told)[-1] == "SETTLED"
    assert told.HasField("charge")


async def test_a_lesser_form_is_told_with_what_it_stands_for(gateway: Gateway) -> None:
    await set_policy(gateway, degradations=["smaller_model"])
    gateway.limiter.refuse = lambda r: None if r.subject.model == SMALL else _own_limit(r)
    try:
        response = await gateway.chat(max_tokens=5)
        assert response.status_code == 200, response.text
        told = await explain(gateway, header(response))
    finally:
        await gateway.reload(gateway.document)
    assert kinds(told)[:4] == ["ARRIVED", "REFUSED", "DEGRADED", "RESERVED"]
    changed = told.events[2]
    assert list(changed.degradations) == [f"smaller_model={SMALL}"]
    assert changed.error_reason == ErrorReason.ERROR_REASON_TOKEN_LIMIT_EXCEEDED
    assert list(told.lifecycle.degradations) == [f"smaller_model={SMALL}"]
    assert f"It ran in a lesser form (smaller_model={SMALL}) after TOKEN_LIMIT_EXCEEDED" in said(
        told
    )
    assert not told.HasField("refusal")


def _own_limit(request: ReserveRequest) -> LimitExceeded:
    violation = Violation(
        limit_id=f"model:{request.subject.model}/tpm",
        limit_type="tpm",
        resource="tokens",
        layer="model",
        limit=None,
        used=None,
        requested=48,
        reset_time_ms=NOW_MS + 1_000,
        knob="the model's tokens",
    )
    return refused_for_now([violation], NOW_MS)
