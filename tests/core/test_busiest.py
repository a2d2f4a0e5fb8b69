"""Labels of the busiest: who has a name, and that no counter runs backwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter

from weir_core.telemetry.busiest import Busiest


class Timed:
    """A clock that is set, a counter by tenant, and its labels."""

    def __init__(self, limit: int) -> None:
        self.now_s = 0.0
        registry = CollectorRegistry()
        self.counter = Counter("used", "Used", ("tenant", "kind"), registry=registry)
        self.tenants = Busiest(limit, now_s=lambda: self.now_s)
        self.tenants.bind(self.counter)

    def count(self, tenant: str, use: float) -> None:
        self.counter.labels(self.tenants.label(tenant, use), "x").inc(use)

    def read(self) -> dict[str, float]:
        (family,) = self.counter.collect()
        return {
            sample.labels["tenant"]: sample.value
            for sample in family.samples
            if sample.name == "used_total"
        }


@pytest.fixture
def two() -> Timed:
    return Timed(2)


def test_the_first_ones_are_named_at_once_and_later_ones_are_other(two: Timed) -> None:
    for tenant in ("a", "b", "c", "d", "a"):
        two.count(tenant, 1)
    assert two.read() == {"a": 2, "b": 1, "other": 2}


def test_a_busier_one_gets_the_name_of_the_least_busy_after_a_minute(two: Timed) -> None:
    for tenant, use in (("a", 100), ("b", 1), ("c", 50)):
        two.count(tenant, use)
    two.now_s = 59
    two.count("c", 5)
    assert two.read() == {"a": 100, "b": 1, "other": 55}
    two.now_s = 61
    two.count("c", 7)
    two.count("b", 1)
    assert two.read() == {"a": 100, "c": 7, "other": 56}


def test_a_little_busier_is_not_enough(two: Timed) -> None:
    for tenant, use in (("a", 100), ("b", 10), ("c", 19)):
        two.count(tenant, use)
    two.now_s = 61
    two.count("c", 1)
    assert two.read() == {"a": 100, "b": 10, "other": 20}


def test_old_use_is_forgotten(two: Timed) -> None:
    two.count("a", 1000)
    two.count("b", 1000)
    for minute in range(1, 12):
        two.now_s = 61.0 * minute
        two.count("c", 3)
        two.count("b", 10)
    assert set(two.read()) == {"b", "c", "other"}


def test_who_is_told_forgets_the_series_of_both(two: Timed) -> None:
    changed: list[str] = []
    two.tenants.on_change(changed.append)
    for tenant, use in (("a", 100), ("b", 1), ("c", 50)):
        two.count(tenant, use)
    two.now_s = 61
    two.count("a", 1)
    assert sorted(changed) == ["b", "c"]


def test_a_gauge_asks_for_the_label_and_counts_no_use(two: Timed) -> None:
    assert [two.tenants.known(t) for t in ("a", "b", "c")] == ["a", "b", "other"]
    two.count("c", 1)
    two.now_s = 61
    assert two.tenants.known("c") == "c"


Steps = st.lists(
    st.tuples(st.sampled_from("abcdefghijkl"), st.integers(0, 100), st.integers(0, 90)),
    max_size=80,
)


@given(steps=Steps, limit=st.integers(1, 4))
def test_whatever_comes_no_counter_runs_backwards_and_nothing_is_lost(
    steps: list[tuple[str, int, int]], limit: int
) -> None:
    timed = Timed(limit)
    total = gone = 0.0
    before: dict[str, float] = {}
    for tenant, use, passed_s in steps:
        timed.now_s += passed_s
        timed.count(tenant, use)
        total += use
        now = timed.read()
        assert len(set(now) - {"other"}) <= limit
        gone += sum(value for name, value in before.items() if name not in now)
        for name, value in now.items():
            assert value >= before.get(name, 0.0)
        before = now
    assert sum(before.values()) + gone == total


def test_memory_is_bounded_and_a_heavy_one_among_many_still_rises() -> None:
    timed = Timed(2)
    for number in range(2_000):
        timed.count(f"light-{number}", 1)
        if number % 10 == 0:
            timed.count("heavy", 50)
    assert len(timed.tenants._others) <= 8
    timed.now_s = 61
    timed.count("heavy", 1)
    assert "heavy" in timed.read()
