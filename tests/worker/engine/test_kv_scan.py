"""A look at the blocks counts each once, in its state, whatever parts it is taken in."""

from collections import Counter

import pytest

from tests.worker.engine.driver import Driver
from tests.worker.engine.test_kv_manager import filled, scopes
from weir_worker.engine.commands import ReadKv
from weir_worker.kv import KvManager
from weir_worker.kv.kv_scan import BlockState, KvScan


def counts(scan: KvScan) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    names = ["", *scan.tenants]
    for length, state, owner in zip(scan.lengths, scan.states, scan.owners, strict=True):
        found[BlockState(state).name, names[owner]] += length
    return found


@pytest.mark.parametrize("part", [1, 3, 1000])
def test_every_block_is_counted_in_its_state_and_with_its_owner(part: int) -> None:
    kv = KvManager(32, 4)
    shared = scopes(tenant_tokens=8)
    first = filled(kv, list(range(8)), shared)
    second = filled(kv, [*range(8), 9, 10], shared)
    other = filled(kv, [7] * 12, scopes("globex", tenant_tokens=12))
    kv.close(other)
    scan = KvScan(kv.pool.blocks)
    while not scan.advance(part):
        pass
    assert counts(scan) == {
        ("HELD", "acme"): kv.held_blocks,
        ("CACHED", "globex"): kv.cached_blocks,
        ("FREE", ""): kv.free_blocks,
    }
    assert sum(scan.lengths) == kv.total_blocks
    by_holders = Counter(
        {held: length for held, length in zip(scan.references, scan.lengths, strict=True) if held}
    )
    assert max(by_holders) == 2, "the shared prefix is held by both"
    assert first.indices[0] == second.indices[0]


def test_a_run_goes_on_over_the_parts_of_a_look() -> None:
    scan = KvScan(KvManager(100, 4).pool.blocks)
    assert not scan.advance(50)
    assert scan.advance(50)
    assert list(scan.lengths) == [100]


@pytest.mark.parametrize(("step_us", "most_steps"), [(1_000, 10), (100_000, 1)])
def test_a_look_takes_a_small_part_of_each_step_however_long_steps_are(
    monkeypatch: pytest.MonkeyPatch, step_us: int, most_steps: int
) -> None:
    driver = Driver(num_blocks=20_000)
    planner = driver.engine.planner
    plan = planner.plan

    def slow() -> object:
        driver.clock.advance_us(step_us)
        return plan()

    monkeypatch.setattr(planner, "plan", slow)
    driver.submit("r", [65] * 8, 40)
    driver.engine.apply(ReadKv())
    seen = [driver.step().kv for _ in range(10)]
    assert [one is not None for one in seen].index(True) == most_steps - 1
