"""Random failovers, broken streams and dying workers: each request ends once, and as it should."""

from collections import Counter

import pytest

from tests.scheduler.failover_world import State, World
from tests.scheduler.support import SECOND

STEPS = 250


@pytest.mark.parametrize("seed", range(8))
def test_every_request_ends_once_whatever_is_lost(seed: int) -> None:
    _live(World(seed))


@pytest.mark.soak
def test_many_more_failovers() -> None:
    for seed in range(1_000):
        _live(World(seed))


@pytest.mark.parametrize("seed", range(4))
def test_failovers_alone_fail_no_request(seed: int) -> None:
    """Nothing but schedulers is lost: every request is answered in full, at its first attempt."""
    world = World(seed)
    for _ in range(3):
        world.new_worker()
    for step in range(STEPS):
        if step < STEPS // 2 and world.dice.random() < 0.4:
            world.arrive()
        if world.dice.random() < 0.03:
            world.fail_over()
        _reconnect_some(world)
        _work(world)
    _settle(world)
    ends = Counter(end for request in world.requests() for end in request.ends)
    assert set(ends) == {"answered"}
    assert {request.attempt for request in world.requests()} == {1}


def _live(world: World) -> None:
    for _ in range(2):
        world.new_worker()
    for step in range(STEPS):
        _event(world, fresh=step < STEPS * 2 // 3)
        _reconnect_some(world)
        _work(world)
        world.check()
    _settle(world)


def _event(world: World, *, fresh: bool) -> None:
    dice = world.dice
    match dice.randrange(40):
        case 0:
            world.fail_over()
        case 1:
            world.lose_stream(dice.choice(list(world.gateways.values())))
        case 2 if world.workers:
            world.crash_worker(dice.choice(list(world.workers.values())))
        case 3 if len(world.workers) < 4:
            world.new_worker()
        case 4 if world.workers:
            worker = dice.choice(list(world.workers.values()))
            if worker.connected:
                worker.connected = False
                world.scheduler.worker_disconnected(worker.name)
        case _ if fresh and dice.random() < 0.5:
            world.arrive()


def _reconnect_some(world: World) -> None:
    for gateway in world.gateways.values():
        if not gateway.connected and world.dice.random() < 0.3:
            gateway.connect()
    for worker in world.workers.values():
        if not worker.connected and world.dice.random() < 0.3:
            worker.connect()


def _work(world: World) -> None:
    for worker in list(world.workers.values()):
        if world.dice.random() < 0.5:
            worker.step()
        if world.dice.random() < 0.7:
            worker.report()
    world.pass_time(world.dice.choice([10_000, 100_000, 300_000]))


def _settle(world: World) -> None:
    """All is well for a while: everything ends, and nothing is left behind."""
    if not world.workers:
        world.new_worker()
    for _ in range(400):
        _reconnect_some(world)
        _work(world)
        world.check()
    open_ones = [request for request in world.requests() if request.state is not State.ENDED]
    assert open_ones == []
    assert all(len(request.ends) == 1 for request in world.requests())
    for request in world.requests():
        if request.ends == ["answered"]:
            assert request.streamed == {request.attempt}
    for _ in range(20):
        for worker in world.workers.values():
            worker.report()
        world.pass_time(SECOND)
    scheduler = world.scheduler
    assert (scheduler.requests, scheduler.attempts, scheduler.waiting) == (0, 0, 0)
    assert all(worker.requests == 0 for worker in scheduler.workers() if not worker.lost)
    assert not any(worker.running for worker in world.workers.values())
