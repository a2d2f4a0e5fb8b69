"""How requests end: by their clients, their workers, the scheduler, the limiter and the clock.

Afterwards every reservation is closed exactly once and every request has one record.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.gateway.fake_limiter import Account
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import UsageQuality
from weir.gateway.v1 import inference_service_pb2 as pb
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXACT = UsageQuality.USAGE_QUALITY_EXACT
ESTIMATED = UsageQuality.USAGE_QUALITY_ESTIMATED
BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "max_tokens": 50,
}


async def settled(gateway: Gateway) -> tuple[Account, LifecycleRecord]:
    """The only account, once it is settled, and the record that was sent with it."""
    await eventually(lambda: gateway.limiter.accounts and not gateway.limiter.open_accounts)
    account = gateway.limiter.only()
    assert len(account.settles) == 1
    assert not account.refunds
    return account, account.settles[0].lifecycle


class OpenStream:
    """A stream of which `tokens` tokens have arrived, the worker waiting after them."""

    def __init__(self, gateway: Gateway, tokens: int) -> None:
        self._tokens = tokens
        self._context = gateway.http.stream("POST", "/v1/chat/completions", json=BODY)
        gateway.worker.script = Script(pause_after=tokens)

    async def __aenter__(self) -> "OpenStream":
        response = await self._context.__aenter__()
        assert response.status_code == 200
        # Kept: a generator that is collected closes the connection.
        self._parts: Any = response.aiter_text()
        text = ""
        while f"t{self._tokens - 1} " not in text:
            text += await anext(self._parts)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._parts.aclose()
        await self._context.__aexit__(None, None, None)


def grpc_call(gateway: Gateway, timeout: float | None = None, **fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "model": MODEL,
        "prompt": "hello",
        "max_new_tokens": 50,
        "stream": True,
    }
    request = pb.GenerateRequest(**(defaults | fields))
    return gateway.stub.Generate(request, metadata=gateway.metadata, timeout=timeout)


async def read_until(call: AsyncIterator[Any], kind: str, times: int = 1) -> list[Any]:
    seen = []
    async for message in call:
        seen.append(message)
        times -= message.WhichOneof("event") == kind
        if times == 0:
            break
    return seen


# The client leaves.


@pytest.mark.parametrize("tokens", [1, 3])
async def test_a_client_that_leaves_mid_stream_stops_the_worker(
    gateway: Gateway, tokens: int
) -> None:
    """Reported elsewhere as BerriAI/litellm#34147: the upstream went on and nobody paid."""
    async with OpenStream(gateway, tokens):
        assert gateway.worker.running == 1
    account, record = await settled(gateway)
    settle = account.settles[0]
    assert settle.outcome == Outcome.OUTCOME_CLIENT_GONE
    assert settle.usage.completion_tokens == tokens
    assert settle.usage.prompt_tokens == len(gateway.worker.specs[0].prompt_token_ids)
    assert settle.usage_quality == EXACT
    assert record.outcome == Outcome.OUTCOME_CLIENT_GONE
    assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
    assert [a.number for a in gateway.worker.aborts][:1] == [1]
    await eventually(lambda: gateway.scheduler.finished)
    assert gateway.scheduler.withdrawn == [record.request_id]
    assert record.gpu_id == "gpu-of-worker-0"


async def test_a_client_that_leaves_while_it_waits_is_refunded(gateway: Gateway) -> None:
    gateway.scheduler.hold = True
    task = asyncio.create_task(gateway.http.post("/v1/chat/completions", json=BODY))
    await eventually(lambda: gateway.scheduler.enqueued)
    task.cancel()
    await eventually(lambda: not gateway.limiter.open_accounts)
    account = gateway.limiter.only()
    assert not account.settles
    assert account.refunds[0].outcome == Outcome.OUTCOME_CLIENT_GONE
    assert gateway.scheduler.withdrawn == [account.request.request_id]
    assert not gateway.worker.specs


async def test_a_client_that_leaves_while_it_is_reserved_is_refunded(gateway: Gateway) -> None:
    gateway.scheduler.hold = True
    edge = gateway.app.edge
    assert edge is not None
    for call in (
        lambda: gateway.http.post("/v1/chat/completions", json=BODY),
        lambda: read_until(grpc_call(gateway), "accepted"),
    ):
        gate = gateway.limiter.reserve_gate = asyncio.Event()
        task = asyncio.create_task(call())
        await eventually(lambda: gateway.limiter.reserving == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        gate.set()
        await eventually(lambda: len(edge.records) == 0)
    assert [len(account.refunds) for account in gateway.limiter.accounts.values()] == [1, 1]
    assert not gateway.worker.specs


async def test_a_client_that_leaves_a_whole_answer_stops_the_worker(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=2)
    body = BODY | {"stream": False}
    task = asyncio.create_task(gateway.http.post("/v1/chat/completions", json=body))
    await eventually(lambda: gateway.worker.running)
    task.cancel()
    account, _ = await settled(gateway)
    assert account.settles[0].outcome == Outcome.OUTCOME_CLIENT_GONE


async def test_a_client_that_leaves_after_the_last_token_was_answered(gateway: Gateway) -> None:
    """Reported elsewhere as vllm-project/aibrix#2224: counted as a failure."""
    async with gateway.http.stream("POST", "/v1/chat/completions", json=BODY) as response:
        async for text in response.aiter_text():
            if "[DONE]" in text:
                break
    account, _ = await settled(gateway)
    assert account.settles[0].outcome == Outcome.OUTCOME_OK


@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_grpc_call_that_ends_early_is_charged_exactly(gateway: Gateway, how: str) -> None:
    gateway.worker.script = Script(pause_after=3)
    call = grpc_call(gateway, timeout=0.6 if how == "deadline" else None)
    await read_until(call, "delta")
    if how == "cancel":
        call.cancel()
    account, record = await settled(gateway)
    expected = Outcome.OUTCOME_CANCELLED if how == "cancel" else Outcome.OUTCOME_DEADLINE_EXCEEDED
    assert record.outcome == expected
    assert account.settles[0].usage.completion_tokens == 3
    if how == "deadline":
        assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_the_servers_own_deadline_is_told(gateway: Gateway) -> None:
    edge = gateway.app.edge
    assert edge is not None
    edge._reception._most_s = 0.3
    try:
        gateway.worker.script = Script(pause_after=1)
        streamed = await gateway.chat(stream=True)
        assert "deadline_exceeded" in streamed.text
        assert streamed.text.endswith("data: [DONE]\n\n")
        gateway.scheduler.hold = True
        waiting = await gateway.chat()
        assert waiting.status_code == 504
        assert "0.3 s" in waiting.json()["error"]["message"]
    finally:
        edge._reception._most_s = 600.0


async def test_a_client_that_does_not_read_is_stopped_and_holds_up_nobody(
    gateway: Gateway,
) -> None:
    gateway.worker.script = Script(pieces=["x" * 400_000] * 50)
    body = BODY | {"max_tokens": 50}
    async with gateway.http.stream("POST", "/v1/chat/completions", json=body):
        await eventually(lambda: gateway.limiter.accounts)
        (reader,) = gateway.limiter.accounts
        gateway.workers[0].script = Script()
        assert (await gateway.chat(max_tokens=3)).status_code == 200
        await eventually(lambda: not gateway.limiter.accounts[reader].open)
        settle = gateway.limiter.accounts[reader].settles[0]
    assert settle.outcome == Outcome.OUTCOME_CLIENT_GONE
    assert 10 < settle.usage.completion_tokens <= 50
    assert settle.usage_quality == EXACT


async def test_a_client_that_stalls_is_given_up(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, stall_s=0.3) as gateway:
        body = BODY | {"max_tokens": 60}
        handlers = gateway.app._http._server.server_state.tasks
        gateway.worker.script = Script(pieces=["x" * 400_000] * 50)
        async with gateway.http.stream("POST", "/v1/chat/completions", json=body):
            await settled(gateway)
            await eventually(lambda: not handlers)
        gateway.limiter.reset()
        gateway.worker.script = Script(pieces=["x" * 15_000] * 60)
        options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536)]
        async with grpc.aio.insecure_channel(gateway.app.grpc_address, options=options) as narrow:
            gateway.channel = narrow
            call = grpc_call(gateway, max_new_tokens=60)
            await anext(aiter(call))
            await settled(gateway)
            await asyncio.sleep(1.0)  # longer than stall_s, which nothing shows from outside
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                [message async for message in call]
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert "read nothing" in (caught.value.details() or "")


# The lease is free before the reply ends.


@pytest.mark.parametrize("stream", [False, True])
async def test_the_place_is_free_before_the_reply_ends(gateway: Gateway, stream: bool) -> None:
    """Reported elsewhere as BerriAI/litellm#40846."""
    gateway.limiter.concurrency = 1
    for _ in range(10):
        response = await gateway.chat(stream=stream, max_tokens=3)
        assert response.status_code == 200, response.text


async def test_a_stream_holds_its_place_to_its_end(gateway: Gateway) -> None:
    """Reported elsewhere as api7/aisix#688: the place was free as soon as the stream began."""
    gateway.limiter.concurrency = 1
    async with OpenStream(gateway, 2):
        assert (await gateway.chat()).status_code == 429
        gateway.worker.resume.set()
        await settled(gateway)
    gateway.limiter.concurrency = 2
    assert (await gateway.chat(max_tokens=1)).status_code == 200


async def test_a_settlement_that_fails_is_repeated_and_counted_once(gateway: Gateway) -> None:
    gateway.limiter.settle_failures = 3
    assert (await gateway.chat()).status_code == 200
    await settled(gateway)


async def test_settlement_survives_the_client(gateway: Gateway) -> None:
    gateway.limiter.settle_failures = 4
    async with OpenStream(gateway, 2):
        pass
    account, _ = await settled(gateway)
    assert account.settles[0].usage.completion_tokens == 2


# Workers.


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
    await eventually(lambda: _tokens(gateway) == 3)
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
    await eventually(lambda: _tokens(gateway) == 2)
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


@pytest.mark.parametrize("tokens", [0, 2])
async def test_a_worker_that_the_scheduler_has_lost(gateway: Gateway, tokens: int) -> None:
    gateway.worker.script = Script(pause_after=tokens)
    gateway.workers[1].script = Script(pieces=["ok"], finish=FinishReason.FINISH_REASON_STOP)
    task = asyncio.create_task(gateway.chat(stream=True))
    await eventually(lambda: gateway.worker.running and _tokens(gateway) == tokens)
    request_id = gateway.scheduler.enqueued[0].request_id
    gateway.scheduler.workers = gateway.workers[1:]
    try:
        gateway.scheduler.send(
            attempt_lost=sched.AttemptLost(
                attempt=gateway.worker.specs[0].attempt,
                error_reason=ErrorReason.ERROR_REASON_WORKER_LOST,
                message="nothing was heard of it for 5 s",
            )
        )
        response = await task
    finally:
        gateway.scheduler.workers = gateway.workers
    if tokens:
        assert "nothing was heard of it" in response.text
    else:
        assert "ok" in response.text
        assert [e.attempts for e in gateway.scheduler.enqueued] == [0, 1]
    assert gateway.scheduler.enqueued[-1].request_id == request_id
    await settled(gateway)


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


# The process around it.


def _tokens(gateway: Gateway) -> int:
    return sum(run.tokens for run in gateway.worker._running.values())


async def test_a_worker_that_dies_mid_stream_is_settled_from_progress(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=4)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
        await eventually(lambda: gateway.scheduler.first_tokens and _tokens(gateway) == 4)
        gateway.worker._running.clear()
        await gateway.worker.server.stop()
        response = await task
        assert "worker_lost" in response.text
        account, record = await settled(gateway)
        assert account.settles[0].usage.completion_tokens == 4
        assert account.settles[0].usage_quality == ESTIMATED
        assert record.outcome == Outcome.OUTCOME_ERROR


async def test_what_waits_survives_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.scheduler.hold = True
        task = asyncio.create_task(gateway.chat(stream=True))
        await eventually(lambda: gateway.scheduler.enqueued)
        first = gateway.scheduler.enqueued[0]
        await gateway.scheduler.server.stop()
        gateway.scheduler.reset()
        await gateway.scheduler.server.start()
        response = await task
        assert response.status_code == 200
        (again,) = gateway.scheduler.enqueued
        assert again.request_id == first.request_id
        assert again.arrival_time == first.arrival_time
        await gateway.at_rest()


async def test_what_runs_survives_the_loss_of_the_scheduler(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, OpenStream(gateway, 2):
        await gateway.scheduler.server.stop()
        gateway.worker.resume.set()
        _, record = await settled(gateway)
        assert record.outcome == Outcome.OUTCOME_OK
        assert record.usage.completion_tokens == 50
        await gateway.scheduler.server.start()
        await eventually(lambda: len(gateway.scheduler.gateways) == 1)


async def test_without_a_scheduler_requests_are_shed_in_bounded_time(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, scheduler_wait_s=0.2) as gateway:
        await gateway.scheduler.server.stop()
        response = await gateway.chat()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "scheduler_unavailable"
        await gateway.at_rest()
        (account,) = gateway.limiter.accounts.values()
        assert account.refunds
        ready = await gateway.http.get("/healthz/ready")
        assert (ready.status_code, ready.json()["reason"]) == (
            503,
            "the scheduler is not connected",
        )


async def test_a_gateway_that_stops_settles_what_runs(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=2)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
        await eventually(lambda: gateway.scheduler.first_tokens and _tokens(gateway) == 2)
        draining = asyncio.create_task(gateway.app.drain())
        edge = gateway.app.edge
        assert edge is not None
        await eventually(lambda: edge.desk.draining)
        refused = await gateway.chat()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert not draining.done()
        await gateway.app.stop()
        await draining
        assert "draining" in (await task).text
        account, _ = await settled(gateway)
        assert account.settles[0].usage.completion_tokens == 2


async def test_a_drain_waits_for_the_last_answer(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=1)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=3))
        await eventually(lambda: gateway.scheduler.first_tokens)
        draining = asyncio.create_task(gateway.app.drain())
        await eventually(lambda: gateway.worker.running)
        gateway.worker.resume.set()
        await draining
        assert "t2 " in (await task).text


# Extensions.


async def test_reservations_are_kept_alive_with_progress(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, lease_s=1.0) as gateway, OpenStream(gateway, 2):
        account = gateway.limiter.only()
        await eventually(lambda: len(account.extensions) >= 3)
        first, last = account.extensions[0], account.extensions[-1]
        assert first.dispatched
        assert last.output_tokens == 2
        assert last.prompt_tokens == len(gateway.worker.specs[0].prompt_token_ids)
        assert last.lifecycle.worker_id == "worker-0"
        assert last.additional_output_tokens == 0
        assert last.ttl.ToMilliseconds() == 1000


async def test_an_estimated_reservation_grows_with_the_answer(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, extend_lookahead=16) as gateway:
        gateway.limiter.reserve_output = 10
        gateway.worker.script = Script(pause_after=9)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=60))
        account = (await _account(gateway)).extensions
        await eventually(lambda: any(e.additional_output_tokens for e in account))
        await eventually(lambda: max(gateway.limiter.reserved_output.values()) >= 20)
        gateway.worker.resume.set()
        response = await task
        assert "t59 " in response.text
        assert "error" not in response.text
        await gateway.at_rest()


async def test_a_reservation_that_is_gone_stops_its_request(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, lease_s=1.0) as gateway:
        expired = WeirError(Reason.RESERVATION_EXPIRED, "its lease ran out")
        gateway.limiter.refuse_extension = lambda e: expired if e.output_tokens == 2 else None
        gateway.worker.script = Script(pause_after=2)
        response = await gateway.chat(stream=True, max_tokens=50)
        assert "reservation_expired" in response.text
        account, _ = await settled(gateway)
        assert account.settles[0].usage.completion_tokens == 2


async def _account(gateway: Gateway) -> Account:
    await eventually(lambda: gateway.limiter.accounts)
    return gateway.limiter.only()


# Revocation.


@pytest.mark.parametrize("what", ["key", "tenant"])
async def test_a_revocation_ends_open_streams(gateway: Gateway, what: str) -> None:
    gateway.worker.script = Script(pause_after=2)
    task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
    await eventually(lambda: gateway.scheduler.first_tokens and _tokens(gateway) == 2)
    tenant = gateway.document["tenants"][0]
    if what == "key":
        changed = tenant | {"keys": [tenant["keys"][0] | {"revoked": True}]}
    else:
        changed = tenant | {"suspended": True}
    await gateway.reload(gateway.document | {"tenants": [changed, gateway.document["tenants"][1]]})
    try:
        response = await task
        assert ("invalid_api_key" if what == "key" else "account_suspended") in response.text
        assert (await gateway.chat()).status_code == (401 if what == "key" else 403)
        account, _ = await settled(gateway)
        assert account.settles[0].usage.completion_tokens == 2
    finally:
        await gateway.reload(gateway.document)


# Records.


async def test_a_request_can_be_looked_up_by_its_tenant_alone(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=1)
    call = grpc_call(gateway, max_new_tokens=2)
    (accepted, *_) = await read_until(call, "delta")
    request_id = accepted.accepted.request_id
    request = pb.GetRequestRequest(request_id=request_id)
    stub: Any = gateway.stub
    running = await stub.GetRequest(request, metadata=gateway.metadata)
    assert not running.terminal
    assert running.lifecycle.usage.completion_tokens == 1
    gateway.worker.resume.set()
    finished = [message async for message in call][-1].finished
    ended = await stub.GetRequest(request, metadata=gateway.metadata)
    assert ended.terminal
    assert ended.lifecycle == finished.lifecycle
    record = ended.lifecycle
    assert record.subject.tenant_id == "acme"
    for name in ("accepted_time", "queue_enter_time", "start_time", "first_token_time", "end_time"):
        assert record.HasField(name), name
    assert record.reserved_tokens == 5 + 2
    assert len(record.trace_id) == 32
    other = (("authorization", f"Bearer {gateway.other_key.secret}"),)
    errors = []
    for metadata, wanted in ((other, request_id), (gateway.metadata, "req_unknown")):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetRequest(pb.GetRequestRequest(request_id=wanted), metadata=metadata)
        errors.append(from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL))
    assert [error.reason for error in errors] == [Reason.NOT_FOUND] * 2
    assert errors[0].message == errors[1].message


async def test_many_clients_that_come_and_go(gateway: Gateway) -> None:
    """200 requests of 20 clients with aborts at every point; afterwards all is closed once."""
    points: list[Callable[[], float]] = [lambda n=n: n * 0.004 for n in range(7)]  # type: ignore[misc]
    gateway.worker.script = gateway.workers[1].script = Script()

    async def client(number: int) -> None:
        for turn in range(10):
            leave_after = points[(number + turn) % 7]()
            body = BODY | {"max_tokens": 1 + (number * 7 + turn) % 50, "stream": turn % 2 == 0}
            call = gateway.http.post("/v1/chat/completions", json=body)
            if (number + turn) % 3:
                await asyncio.wait_for(call, 20)
                continue
            with_limit = asyncio.wait_for(call, 0.001 + leave_after)
            await asyncio.gather(with_limit, return_exceptions=True)

    await asyncio.gather(*(client(number) for number in range(20)))
    await gateway.at_rest()
    accounts = list(gateway.limiter.accounts.values())
    assert len(accounts) >= 130
    for account in accounts:
        records = [s.lifecycle for s in account.settles] + [r.lifecycle for r in account.refunds]
        assert [record.request_id for record in records] == [account.request.request_id]
        for settle in account.settles:
            assert settle.usage_quality == EXACT
