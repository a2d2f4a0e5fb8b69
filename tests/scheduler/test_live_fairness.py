"""A light tenant beside one with ten times the load and prompts twenty times as long.

Over real gRPC with two workers, by the order of dispatches; what it costs in time is measured
by `make bench-fairness`.
"""

import asyncio

import pytest

from tests.scheduler.live import (
    GatewayPeer,
    WorkerPeer,
    default_snapshot,
    eventually,
    live_scheduler,
)
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.usage_pb2 import Usage
from weir.directory.v1.directory_pb2 import FAIR_QUEUE_LOCALITY, ISOLATION_SHARED, Snapshot
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.worker_report_pb2 import AttemptEnd

PLACES = 2
LENGTHS = {
    "heavy": Usage(prompt_tokens=200, completion_tokens=10),
    "light": Usage(prompt_tokens=10, completion_tokens=5),
}


def snapshot(**pool: int) -> Snapshot:
    made = default_snapshot(max_concurrent_requests=PLACES)
    made.models[0].pool = "fair"
    made.pools.add(name="fair", **pool)
    return made


class Site:
    """Two workers whose places are all taken, and what was dispatched in order."""

    def __init__(self, gateway: GatewayPeer, workers: dict[str, WorkerPeer]) -> None:
        self._gateway = gateway
        self._workers = workers
        self._started = 0

    def order(self) -> list[wire.Dispatched]:
        return [e.dispatched for e in self._gateway.events if e.WhichOneof("event") == "dispatched"]

    async def fill(self, count: int) -> None:
        await eventually(lambda: len(self.order()) >= count)
        for dispatched in self.order()[self._started :]:
            await self._workers[dispatched.worker_id].run(dispatched, output=1)
        self._started = len(self.order())

    async def end_one(self) -> str:
        """The oldest that runs ends; the request that gets its place."""
        ended = self.order()[self._started - 2 * PLACES]
        worker, key = self._workers[ended.worker_id], ended.attempt
        del worker.running[key.request_id, key.number]
        usage = LENGTHS[key.request_id.rstrip("0123456789")]
        worker.finished.append(AttemptEnd(attempt=key, usage=usage))
        await worker.report()
        finish = wire.Finish(attempt=key, usage=usage, outcome=Outcome.OUTCOME_OK)
        await self._gateway.send(finish=finish)
        await self.fill(self._started + 1)
        return self.order()[-1].attempt.request_id


async def places_until_served(made: Snapshot) -> list[int]:
    """For each of the light tenant's requests: places that became free until it had one."""
    async with live_scheduler(made) as live:
        workers = {name: await live.worker(name) for name in ("w1", "w2")}
        gateway = await live.gateway()
        for number in range(60):
            await gateway.enqueue(f"heavy{number}", "other", prompt_tokens=200, max_new_tokens=20)
        site = Site(gateway, workers)
        await site.fill(2 * PLACES)
        waits = []
        for number in range(4):
            await gateway.enqueue(f"light{number}", "acme", prompt_tokens=10, max_new_tokens=5)
            await asyncio.wait_for(gateway.news("queued", f"light{number}"), 20)
            places = 1
            while await site.end_one() != f"light{number}":
                places += 1
            waits.append(places)
        return waits


@pytest.mark.parametrize("pool", [{}, {"fair_queue": FAIR_QUEUE_LOCALITY, "quantum_tokens": 50}])
async def test_the_light_tenant_has_the_next_place(pool: dict[str, int]) -> None:
    assert await places_until_served(snapshot(**pool)) == [1, 1, 1, 1]


async def test_in_one_queue_it_waits_behind_all_that_came_before() -> None:
    """Control."""
    waits = await places_until_served(snapshot(isolation=ISOLATION_SHARED))
    assert waits[0] == 60 - 2 * PLACES + 1
