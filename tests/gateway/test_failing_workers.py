"""Workers that fail, refuse and are lost: tried again until the first token, settled after it."""

import asyncio
from typing import Any

import pytest

from tests.gateway.endings import (
    EXACT,
    OpenStream,
    grpc_call,
    read_until,
    settled,
)
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import UsageQuality
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir_core.errors import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_worker_lost_before_the_first_token_is_not_noticed(
    gateway: Gateway, stream: bool
) -> None:
    gateway.worker.script = Script(pause_after=0)
    gateway.workers[1].script = Script(pieces=["second"], finish=FinishReason.FINISH_REASON_STOP)
    task = asyncio.create_task(gateway.chat(stream=stream))
    await eventually(lambda: gateway.worker.running)
    gateway.worker.drop_streams()
    response = await task
    assert response.status_code == 200
    assert "second" in response.text
    _, record = await settled(gateway)
    assert (record.attempts, record.worker_id) == (2, "worker-1")
    (failed,) = gateway.scheduler.failed
    assert failed.worker_fault
    assert failed.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST


async def test_a_worker_lost_after_the_first_token_ends_the_stream_in_band(
    gateway: Gateway,
) -> None:
    gateway.worker.script = Script(pause_after=3)
    task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
    await eventually(lambda: gateway.scheduler.first_tokens)
    await eventually(lambda: gateway.worker.tokens == 3)
    gateway.worker.drop_streams()
    response = await task
    assert response.status_code == 200
    assert "worker_lost" in response.text
    assert response.text.count("t2 ") == 1
    assert response.text.endswith("data: [DONE]\n\n")
    account, record = await settled(gateway)
    # The worker lives and was asked for its record.
    assert (account.settles[0].usage.completion_tokens, record.usage_quality) == (3, EXACT)
    assert record.outcome == Outcome.OUTCOME_ERROR
    assert record.error_reason == ErrorReason.ERROR_REASON_WORKER_LOST


async def test_an_answer_that_is_not_streamed_survives_the_loss_of_its_worker(
    gateway: Gateway,
) -> None:
    gateway.worker.script = Script(pieces=["first", "half"], pause_after=2)
    gateway.workers[1].script = Script(pieces=["whole"], finish=FinishReason.FINISH_REASON_STOP)
    task = asyncio.create_task(gateway.chat())
    await eventually(lambda: gateway.worker.tokens == 2)
    gateway.worker.drop_streams()
    response = await task
    assert response.json()["choices"][0]["message"]["content"] == "whole"
    account, _ = await settled(gateway)
    assert account.settles[0].usage.completion_tokens == 1
    assert not gateway.scheduler.first_tokens


@pytest.mark.parametrize(
    "finish", [FinishReason.FINISH_REASON_ERROR, FinishReason.FINISH_REASON_REJECTED]
)
async def test_a_worker_that_fails_or_refuses_is_replaced(gateway: Gateway, finish: Any) -> None:
    gateway.worker.script = Script(pieces=[], finish=finish, error=Reason.ENGINE_FAILED)
    gateway.workers[1].script = Script(pieces=["ok"], finish=FinishReason.FINISH_REASON_STOP)
    if finish == FinishReason.FINISH_REASON_REJECTED:
        gateway.worker.script.error = Reason.DRAINING

        def move_on(failed: sched.AttemptFailed) -> None:
            gateway.scheduler.failed.append(failed)
            request_id = failed.attempt.request_id
            gateway.scheduler.requeue(request_id)
            gateway.scheduler.dispatch(request_id, gateway.workers[1])

        gateway.scheduler._on_failed = move_on  # type: ignore[method-assign]
    try:
        response = await gateway.chat()
        assert response.json()["choices"][0]["message"]["content"] == "ok"
        (failed,) = gateway.scheduler.failed
        assert failed.worker_fault == (finish == FinishReason.FINISH_REASON_ERROR)
    finally:
        vars(gateway.scheduler).pop("_on_failed", None)


async def test_no_worker_left_is_told_and_what_ran_is_settled(gateway: Gateway) -> None:
    for worker in gateway.workers:
        worker.script = Script(
            pieces=[], finish=FinishReason.FINISH_REASON_ERROR, error=Reason.ENGINE_FAILED
        )
    response = await gateway.chat()
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "no_worker"
    _, record = await settled(gateway)
    assert (record.outcome, record.attempts) == (Outcome.OUTCOME_SHED, 2)


async def test_nothing_of_an_attempt_that_was_given_up_is_streamed(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["old"] * 9, pause_after=0)
    gateway.workers[1].script = Script(pieces=["new", "er"], pause_after=1)
    task = asyncio.create_task(gateway.chat(stream=True))
    await eventually(lambda: gateway.worker.running)
    request_id = gateway.scheduler.enqueued[0].request_id
    gateway.scheduler.requeue(request_id)
    gateway.scheduler.dispatch(request_id, gateway.workers[1])
    await eventually(lambda: gateway.workers[1].running)
    gateway.worker.resume.set()
    await eventually(lambda: not gateway.worker.running)
    gateway.workers[1].resume.set()
    response = await task
    assert "old" not in response.text
    assert "new" in response.text
    assert [a.number for a in gateway.worker.aborts] == [1]
    account, record = await settled(gateway)
    assert (account.settles[0].usage.completion_tokens, record.attempts) == (2, 2)


async def test_a_scheduler_that_moves_what_has_streamed_ends_it(gateway: Gateway) -> None:
    async with OpenStream(gateway, 2):
        request_id = gateway.scheduler.enqueued[0].request_id
        gateway.scheduler.requeue(request_id)
        account, record = await settled(gateway)
    assert record.outcome == Outcome.OUTCOME_ERROR
    assert account.settles[0].usage.completion_tokens == 2
    assert gateway.scheduler.withdrawn == [request_id]


async def test_a_worker_that_the_scheduler_has_lost_is_replaced(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=0)
    gateway.workers[1].script = Script(pieces=["ok"], finish=FinishReason.FINISH_REASON_STOP)
    task = asyncio.create_task(gateway.chat(stream=True))
    await eventually(lambda: gateway.worker.running)
    gateway.scheduler.workers = gateway.workers[1:]
    try:
        lose_worker(gateway)
        response = await task
    finally:
        gateway.scheduler.workers = gateway.workers
    assert "ok" in response.text
    assert [e.attempts for e in gateway.scheduler.enqueued] == [0, 1]
    assert len({e.request_id for e in gateway.scheduler.enqueued}) == 1
    await settled(gateway)


async def test_a_lost_worker_ends_what_has_streamed(gateway: Gateway) -> None:
    async with OpenStream(gateway, 2) as stream:
        lose_worker(gateway)
        assert "nothing was heard of it" in await stream.rest()
        await settled(gateway)
    assert len(gateway.scheduler.enqueued) == 1


def lose_worker(gateway: Gateway) -> None:
    gateway.scheduler.send(
        attempt_lost=sched.AttemptLost(
            attempt=gateway.worker.specs[0].attempt,
            error_reason=ErrorReason.ERROR_REASON_WORKER_LOST,
            message="nothing was heard of it for 5 s",
        )
    )


async def test_a_worker_that_never_answers_an_abort_is_not_waited_for_long(
    gateway: Gateway,
) -> None:
    gateway.worker.script = Script(silent=True)
    call = grpc_call(gateway)
    await read_until(call, "accepted")
    await eventually(lambda: gateway.worker.running)
    call.cancel()
    _, record = await settled(gateway)
    assert record.usage_quality == UsageQuality.USAGE_QUALITY_UNKNOWN
    assert record.usage.prompt_tokens == len(gateway.worker.specs[0].prompt_token_ids)
    gateway.worker._running.clear()
