"""The end of a request: its lease, its extensions, its record.

Afterwards every reservation is closed exactly once and every request has one record.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.gateway.endings import (
    BODY,
    EXACT,
    OpenStream,
    grpc_call,
    read_until,
    settled,
)
from tests.gateway.fake_limiter import Account
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir.gateway.v1 import inference_service_pb2 as pb
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


async def test_reservations_are_kept_alive_with_progress(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, lease_s=3.0) as gateway, OpenStream(gateway, 2):
        account = gateway.limiter.only()
        await eventually(lambda: len(account.extensions) >= 3)
        first, last = account.extensions[0], account.extensions[-1]
        assert first.dispatched
        assert last.output_tokens == 2
        assert last.prompt_tokens == len(gateway.worker.specs[0].prompt_token_ids)
        assert last.lifecycle.worker_id == "worker-0"
        assert last.additional_output_tokens == 0
        assert last.ttl.ToMilliseconds() == 3000


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
    async with running_gateway(tmp_path, lease_s=3.0) as gateway:
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


@pytest.mark.parametrize("what", ["key", "tenant"])
async def test_a_revocation_ends_open_streams(gateway: Gateway, what: str) -> None:
    gateway.worker.script = Script(pause_after=2)
    task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
    await eventually(lambda: gateway.scheduler.first_tokens and gateway.worker.tokens == 2)
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
