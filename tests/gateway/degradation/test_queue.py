"""Requests that wait too long, run on their model's fallback."""

import asyncio

import grpc
import pytest

from tests.gateway.degradation.site import SMALL, SMALLEST, set_policy
from tests.gateway.endings import grpc_call
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.scheduler.v1.scheduler_service_pb2 import Enqueue, Rejected

pytestmark = pytest.mark.asyncio(loop_scope="module")


def shed(enqueue: Enqueue) -> Rejected:
    return Rejected(
        request_id=enqueue.request_id,
        error_reason=ErrorReason.ERROR_REASON_OVERLOADED,
        message="busy",
    )


def id_on(gateway: Gateway, model: str) -> str:
    """Of the request that waits for a model."""
    found = [e.request_id for e in gateway.scheduler.enqueued if e.subject.model == model]
    return found[-1]


def waits_for(gateway: Gateway, *models: str) -> bool:
    return [e.subject.model for e in gateway.scheduler.enqueued] == list(models)


async def test_what_a_queue_refuses_goes_to_the_next_model(gateway: Gateway) -> None:
    gateway.scheduler.reject = lambda e: shed(e) if e.subject.model == MODEL else None
    response = await gateway.chat(max_tokens=3)
    assert response.status_code == 200
    assert response.headers["x-weir-degraded"] == f"smaller_model={SMALL}"
    await eventually(lambda: not gateway.limiter.open_accounts)
    first, second = gateway.limiter.accounts.values()
    assert first.refunds[0].outcome == Outcome.OUTCOME_SHED
    assert second.request.subject.model == SMALL
    assert len(second.settles) == 1


async def test_when_every_queue_refuses_the_first_refusal_is_told(gateway: Gateway) -> None:
    gateway.scheduler.reject = shed
    response = await gateway.chat(max_tokens=3)
    assert response.status_code == 503
    assert "x-weir-degraded" not in response.headers
    assert waits_for(gateway, MODEL, SMALL, SMALLEST)
    await eventually(lambda: not gateway.limiter.open_accounts)
    assert all(account.refunds for account in gateway.limiter.accounts.values())


async def test_what_nobody_waits_for_is_not_changed_for_a_wait(gateway: Gateway) -> None:
    gateway.scheduler.reject = shed
    response = await gateway.chat(max_tokens=3, **{"class": "batch"})
    assert response.status_code == 503
    assert waits_for(gateway, MODEL)


async def waiting(gateway: Gateway) -> asyncio.Task[object]:
    """A request that waits for both models."""
    await set_policy(gateway, degradations=["smaller_model"], degradation={"max_wait_ms": 50})
    gateway.scheduler.hold = True
    call = asyncio.create_task(gateway.chat(max_tokens=3))
    await eventually(lambda: waits_for(gateway, MODEL, SMALL, SMALLEST))
    return call


async def test_a_fallback_that_is_free_earlier_runs_alone(gateway: Gateway) -> None:
    call = await waiting(gateway)
    gateway.scheduler.dispatch(id_on(gateway, SMALL))
    response = await call
    assert response.headers["x-weir-degraded"] == f"smaller_model={SMALL}"  # type: ignore[attr-defined]
    assert len(gateway.worker.specs) == 1
    await eventually(lambda: not gateway.limiter.open_accounts)
    settled = [a for a in gateway.limiter.accounts.values() if a.settles]
    assert [a.request.subject.model for a in settled] == [SMALL]
    assert set(gateway.scheduler.withdrawn) >= {id_on(gateway, MODEL), id_on(gateway, SMALLEST)}


async def test_a_request_whose_turn_comes_after_all_is_not_changed(gateway: Gateway) -> None:
    call = await waiting(gateway)
    gateway.scheduler.dispatch(id_on(gateway, MODEL))
    response = await call
    assert "x-weir-degraded" not in response.headers  # type: ignore[attr-defined]
    await eventually(lambda: not gateway.limiter.open_accounts)
    settled = [a for a in gateway.limiter.accounts.values() if a.settles]
    assert [a.request.subject.model for a in settled] == [MODEL]


async def test_two_that_are_placed_at_once_run_once(gateway: Gateway) -> None:
    """The frame of the scheduler holds both; the second finds that it has lost."""
    gateway.worker.script = Script(pieces=["a", "b", "c"])
    call = await waiting(gateway)
    for model in (SMALL, MODEL, SMALLEST):
        gateway.scheduler.dispatch(id_on(gateway, model))
    await call
    await eventually(lambda: not gateway.limiter.open_accounts)
    settled = [a for a in gateway.limiter.accounts.values() if a.settles]
    assert [a.request.subject.model for a in settled] == [SMALL]
    assert len(gateway.worker.specs) == 1


async def test_a_client_that_leaves_takes_every_form_out_of_the_queues(gateway: Gateway) -> None:
    call = await waiting(gateway)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await eventually(lambda: not gateway.limiter.open_accounts)
    assert [len(a.refunds) for a in gateway.limiter.accounts.values()] == [1, 1, 1]
    assert not gateway.worker.specs


async def test_a_deadline_ends_every_form_and_is_what_is_told(gateway: Gateway) -> None:
    await set_policy(gateway, degradations=["smaller_model"], degradation={"max_wait_ms": 50})
    gateway.scheduler.hold = True
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in grpc_call(gateway, timeout=1.0)]
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await eventually(lambda: not gateway.limiter.open_accounts)
    assert not any(account.settles for account in gateway.limiter.accounts.values())
    assert not gateway.worker.specs
