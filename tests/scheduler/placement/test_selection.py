"""A large fleet is not looked at whole, and nothing is decided differently for that."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scheduler.support import SECOND, Bench, FixedRules
from weir_core.clock import ManualClock
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.fit import blocked_by
from weir_scheduler.placement.placement import Blocked, Placed
from weir_scheduler.placement.placer import Placer
from weir_scheduler.placement.selection import Selection
from weir_scheduler.placement.shortlist import SMALL, shortlist
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.workers.worker_report import WorkerLoad, WorkerReport

WORKERS = 40
CHAIN = tuple(number.to_bytes(32, "big") for number in range(1, 13))


def random_fleet(seed: int) -> tuple[Bench, Scheduler]:
    """40 workers in a state of their own each, and requests on them."""
    rng = random.Random(seed)
    bench = Bench(FixedRules(workers=WorkerRules(3, 3_000, 512, 3)))
    for number in range(WORKERS):
        bench.worker(f"w{number}")
        held = CHAIN[: rng.choice([0, 0, 0, 2, 12])]
        load = WorkerLoad(free_kv_blocks=rng.choice([100, 100, 60, 10]))
        bench.scheduler.worker_report(f"w{number}", WorkerReport(load, prefix_blocks_added=held))
    for number in range(rng.randint(0, 140)):
        bench.enqueue(f"r{number}", prompt_tokens=rng.randint(20, 500))
    for number in rng.sample(range(WORKERS), rng.randint(0, 4)):
        bench.scheduler.drain_worker(f"w{number}")
    return bench, bench.scheduler


@given(
    seed=st.integers(0, 10_000),
    prompt=st.integers(1, 900),
    pieces=st.integers(0, 12),
    home=st.integers(0, WORKERS - 1),
)
@example(seed=2883, prompt=103, pieces=0, home=0)  # the 12 least loaded are all out of KV
@settings(max_examples=10, deadline=None)
def test_few_workers_tell_the_same_as_all(seed: int, prompt: int, pieces: int, home: int) -> None:
    """Placed where it costs as little as anywhere; blocked only when all are without room."""
    bench, scheduler = random_fleet(seed)
    bench.enqueue("probe", prompt_tokens=prompt, prefix_hashes=CHAIN[:pieces])
    now_us = bench.clock.monotonic_us()
    fleet, (key,) = scheduler._state.fleet, scheduler._state.lanes
    record = scheduler._state.requests.get("probe")
    assert record is not None
    index = fleet.index(key, now_us)
    index.refresh(now_us)
    context = PlacementContext(now_us=now_us, session_worker=f"w{home}", mean_recent=1e9)
    placer = Placer(rng=random.Random(1))
    selection = Selection(placer, index, fleet.prefixes("m"), set())
    fast = selection.place(record.entry, context)
    whole = placer.place(record.entry, list(index.views.values()), context)
    assert type(fast) is type(whole)
    if isinstance(fast, Placed) and isinstance(whole, Placed):
        cost = placer._cost(record.entry, fast.candidate, context)
        assert cost <= placer._cost(record.entry, whole.candidate, context)
    if isinstance(fast, Blocked):
        assert selection.place(record.entry, context) == fast, "and again, from memory"


def test_a_shortlist_is_short_and_holds_home_holders_and_the_least_loaded() -> None:
    bench, scheduler = random_fleet(1)
    bench.worker("home", total_kv_blocks=100)
    fleet, (key,) = scheduler._state.fleet, scheduler._state.lanes
    now_us = bench.clock.monotonic_us()
    index = fleet.index(key, now_us)
    bench.enqueue("probe", prompt_tokens=100, prefix_hashes=CHAIN)
    record = scheduler._state.requests.get("probe")
    assert record is not None
    index.refresh(now_us)
    few = shortlist(record.entry, index, fleet.prefixes("m"), "home")
    names = [view.info.worker_id for view in few]
    assert "home" in names
    assert len(names) == len(set(names)) <= 25 < SMALL < len(index)
    roomy = (view for view in index.least_loaded() if blocked_by(record.entry, view) is None)
    assert next(roomy).info.worker_id in names


def test_a_head_without_room_is_tried_again_where_something_has_changed() -> None:
    """1 place each, all taken: what frees one is enough to see, and what does not, is not."""
    bench = Bench(FixedRules(workers=WorkerRules(1, 65_536, 512, 1)))
    for number in range(WORKERS):
        bench.worker(f"w{number}")
    for number in range(WORKERS + 2):
        bench.enqueue(f"r{number}")
    assert len(bench.out.dispatches) == WORKERS
    [first, _] = bench.scheduler.queued()
    assert bench.scheduler.place(first)[1] is WaitReason.WORKER_FULL
    for dispatch in bench.out.dispatches[:2]:
        bench.end(dispatch)
    assert len(bench.out.dispatches) == WORKERS + 2
    bench.advance(SECOND)
    assert isinstance(bench.clock, ManualClock)
