"""Two schedulers in one process with a lease between them, over real gRPC and a real store."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.ratelimiter.valkey import Valkey, running_valkey
from tests.scheduler.leadership.processes import free_the_lead
from tests.scheduler.live import LiveScheduler, eventually, live_scheduler
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_scheduler.server.servicer import SERVICE

TTL_S = 3.0


@asynccontextmanager
async def two(
    store: str, ttl_s: float = TTL_S, takeover_s: float = 0.1
) -> AsyncIterator[list[LiveScheduler]]:
    """Schedulers of one deployment; the first that is listed is active.

    Its store says that nobody is: what it does not know is waited for like a lease.
    """
    free_the_lead(store)
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                live_scheduler(leader_store=store, leader_ttl_s=ttl_s, takeover_s=takeover_s)
            )
            for _ in range(2)
        ]
        active = await the_active_one(both)
        yield [active, *(one for one in both if one is not active)]


async def test_a_standby_refuses_by_name_and_is_alive(valkey: Valkey) -> None:
    async with two(valkey.url) as (active, standby):
        await eventually(lambda: _names(standby, active))
        gateway = await standby.gateway()
        await eventually(lambda: gateway.ended is not None)
        assert "on standby" in str(gateway.ended)
        assert await _serving(standby, "")
        assert not await _serving(standby, SERVICE)
        await eventually(lambda: _serving(active, SERVICE))
        assert active.sample("weir_scheduler_active", {}) == 1
        assert standby.sample("weir_scheduler_active", {}) == 0


@pytest.mark.parametrize("kind", ["redis", "file"])
async def test_a_drained_one_hands_over_long_before_its_lease_ends(
    tmp_path: Path, valkey: Valkey, kind: str
) -> None:
    store = valkey.url if kind == "redis" else f"file://{tmp_path}/lease"
    async with two(store, ttl_s=30) as (active, standby):
        worker, gateway = await active.worker(), await active.gateway()
        await gateway.enqueue("r1")
        await worker.run(await gateway.dispatched("r1"))
        began = time.monotonic()
        await active.app.stop()
        await the_active_one([standby])
        assert time.monotonic() - began < 15
        assert gateway.ended is not None
        assert worker.aborted == []


async def test_one_that_takes_over_waits_for_those_of_the_one_before(valkey: Valkey) -> None:
    """And not for the whole time that it may wait."""
    async with two(valkey.url, takeover_s=30) as (active, standby):
        await active.worker("w1")
        await active.gateway("gw")
        await eventually(lambda: _noted(valkey) == {"w1", "gw"})
        await active.app.stop()
        await the_active_one([standby])
        gateway = await standby.gateway("gw")
        await gateway.enqueue("r1")
        await gateway.news("queued", "r1")
        assert gateway.about("r1") == []
        await standby.worker("w1")
        await gateway.dispatched("r1")


async def test_without_its_store_it_acts_for_its_lease_and_no_longer(tmp_path: Path) -> None:
    """And forgets everything: the next term begins with what it is told."""
    with running_valkey(tmp_path / "valkey") as server:
        async with two(server.url) as both:
            worker, gateway = await both[0].worker(), await both[0].gateway()
            await gateway.enqueue("r1")
            await worker.run(await gateway.dispatched("r1"))
            await gateway.enqueue("r2")
            server.pause()
            began = time.monotonic()
            assert await _refusal(both[0]) is None
            await eventually(lambda: gateway.ended is not None and worker.ended is not None)
            assert time.monotonic() - began <= TTL_S + 4
            assert [await _refusal(one) is None for one in both] == [False, False]
            await eventually(both[0].at_rest)
            assert both[0].app.scheduler.workers() == []
            server.resume()
            await _serves(await the_active_one(both))


async def test_a_store_that_forgets_costs_no_lead(tmp_path: Path) -> None:
    """Flushed, killed and restarted, with its file and without it."""
    with running_valkey(tmp_path / "valkey") as server:
        async with two(server.url, ttl_s=6.0) as (active, _):
            gateway = await active.gateway()
            server.flush()
            for empty in (False, True):
                await asyncio.to_thread(server.restart, empty=empty)
                await _passes(1.5, gateway)
            assert await _refusal(active) is None
            await eventually(lambda: "held" in str(server.client().get("weir:scheduler:leader")))


async def the_active_one(among: Sequence[LiveScheduler]) -> LiveScheduler:
    found: list[LiveScheduler] = []

    async def one() -> bool:
        found[:] = [live for live in among if await _refusal(live) is None]
        return bool(found)

    await eventually(one)
    return found[0]


async def _refusal(live: LiveScheduler) -> WeirError | None:
    try:
        await live.stub.ListWorkers(wire.ListWorkersRequest(), timeout=5)
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error, unavailable_as=Reason.SCHEDULER_UNAVAILABLE)
    return None


async def _names(standby: LiveScheduler, leader: LiveScheduler) -> bool:
    refusal = await _refusal(standby)
    assert refusal is not None
    assert refusal.reason is Reason.NOT_LEADER
    return refusal.metadata.get("leader") == leader.app.address


async def _serving(live: LiveScheduler, service: str) -> bool:
    health: Any = health_pb2_grpc.HealthStub(live.channel)
    answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def _serves(live: LiveScheduler) -> None:
    await live.worker("fresh", address="127.0.0.1:7")
    gateway = await live.gateway("fresh")
    await gateway.enqueue("fresh")
    await gateway.dispatched("fresh")


async def _passes(seconds: float, gateway: Any) -> None:
    """The gateway's stream outlives so much time."""
    with pytest.raises(TimeoutError):
        await eventually(lambda: gateway.ended is not None, seconds)


def _noted(valkey: Valkey) -> set[str]:
    with valkey.client() as client:
        return set(json.loads(str(client.get("weir:scheduler:leader:note") or "[]")))
