"""Two scheduler processes and one lease: a pause longer than the lease, and kill -9."""

import signal
import time
from pathlib import Path

import pytest

from tests.ratelimiter.valkey import Valkey
from tests.scheduler.leadership.processes import (
    TTL_S,
    SchedulerProcess,
    schedulers,
    the_active_one,
)
from tests.scheduler.live import TOKEN, GatewayPeer, WorkerPeer, default_snapshot, eventually
from weir.common.v1.lifecycle_pb2 import Grant
from weir.scheduler.v1.scheduler_service_pb2 import Dispatched
from weir_core.errors import Reason
from weir_core.grants import verify_grant

ONE_AT_A_TIME = default_snapshot(max_concurrent_requests=1)
# Of the ttl: a look, an answer of the store, and that other tests have the processors.
FAILOVER_S = TTL_S + 5.0


@pytest.mark.timeout(120)
async def test_a_stopped_one_says_nothing_after_its_lease_and_a_killed_one_is_replaced(
    tmp_path: Path, valkey: Valkey
) -> None:
    async with schedulers(2, tmp_path, valkey.url, snapshot=ONE_AT_A_TIME) as both:
        old = await the_active_one(both)
        [new] = [one for one in both if one is not old]
        worker, gateway = await old.worker(), await old.gateway()
        running = await _one_runs_and_one_waits(worker, gateway)
        old.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        # All that a dispatch needs; read as soon as it goes on, and nothing says how late it is.
        await worker.end(running.attempt)
        await gateway.finish(running)
        await the_active_one([new])
        assert time.monotonic() - stopped <= FAILOVER_S
        old.signal(signal.SIGCONT)
        await eventually(lambda: gateway.ended is not None and worker.ended is not None)
        assert gateway.about("waits") == []
        await eventually(lambda: _stands_by(old, new))
        await _taken_over_after_kill_9(new, old)


async def _taken_over_after_kill_9(active: SchedulerProcess, standby: SchedulerProcess) -> None:
    """What ran goes on in its place, what waited gets a grant of a newer term."""
    worker, gateway = await active.worker(), await active.gateway()
    running = await _one_runs_and_one_waits(worker, gateway)
    await active.kill()
    killed = time.monotonic()
    await the_active_one([standby])
    assert time.monotonic() - killed <= FAILOVER_S
    again = await standby.worker(running=worker.running, address=worker.registration.address)
    gateway = await standby.gateway()
    await gateway.enqueue("runs", attempts=1, running_worker_id=running.worker_id)
    await gateway.enqueue("waits")
    await gateway.news("queued", "waits")
    assert gateway.about("waits") == []
    await again.end(running.attempt)
    waits = await gateway.dispatched("waits")
    assert _epoch(waits) > _epoch(running) > 0


async def _one_runs_and_one_waits(worker: WorkerPeer, gateway: GatewayPeer) -> Dispatched:
    await gateway.enqueue("runs")
    running = await gateway.dispatched("runs")
    await worker.run(running)
    await gateway.enqueue("waits")
    await gateway.news("queued", "waits")
    return running


def _epoch(dispatched: Dispatched) -> int:
    """Of a grant that its worker would take, were it not late."""
    secret = TOKEN.get_secret_value().encode()
    expires_us = Grant.FromString(dispatched.grant.grant).expire_time.ToMicroseconds()
    grant = verify_grant(
        dispatched.grant, secret, worker_id=dispatched.worker_id, now_us=expires_us - 1
    )
    return int(grant.leader_epoch)


async def _stands_by(standby: SchedulerProcess, leader: SchedulerProcess) -> bool:
    refusal = await standby.refusal()
    return (
        refusal is not None
        and refusal.reason is Reason.NOT_LEADER
        and refusal.metadata.get("leader") == leader.address
    )
