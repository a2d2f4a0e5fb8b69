"""How many workers there should be: hysteresis under noise, steps, bursts and blindness."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_scheduler.scaling.autoscaler import Autoscaler
from weir_scheduler.scaling.recommendation import Recommendation, ScalingReason
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scaling.signals import ScalingSignals

SECOND = 1_000_000
SLOTS, TOKENS = 10_000, 10_000
RULES = ScalingRules(min_workers=1, max_workers=20, target_use=0.5, startup_us=10 * SECOND)


def reading(now_us: int, load: float, workers: int, **fields: Any) -> ScalingSignals:
    """So many workers, and a load that asks for `load` of them at a target of 0.5."""
    values: dict[str, Any] = {
        "workers": workers,
        "running": round(load * SLOTS * 0.5),
        "slots": workers * SLOTS,
        "token_slots": workers * TOKENS,
    }
    return ScalingSignals(measured_us=now_us, **(values | fields))


@dataclass
class Plant:
    """Workers that follow the recommendation after `startup_s`; they end at once."""

    rules: ScalingRules = RULES
    workers: int = 1
    startup_s: int = 0
    interval_s: int = 1
    now_us: int = 0
    starting: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    last: Recommendation | None = None

    def __post_init__(self) -> None:
        self.autoscaler = Autoscaler(self.rules)

    def run(self, seconds: int, load: Callable[[int], float], **fields: Any) -> None:
        """Lets time pass; `load` gets seconds since the call."""
        for second in range(0, seconds, self.interval_s):
            self.now_us += self.interval_s * SECOND
            self.workers += sum(at_us <= self.now_us for at_us in self.starting)
            self.starting = [at_us for at_us in self.starting if at_us > self.now_us]
            seen = reading(self.now_us, load(second), self.workers, **fields)
            self.last = self.autoscaler.decide(seen, self.now_us)
            self.wanted.append(self.last.workers)
            self._follow(self.last.workers)

    def _follow(self, wanted: int) -> None:
        missing = wanted - self.workers - len(self.starting)
        self.starting += [self.now_us + self.startup_s * SECOND] * max(0, missing)
        if missing < 0:
            self.workers = max(wanted, self.workers + missing)

    @property
    def events(self) -> int:
        return sum(a != b for a, b in zip(self.wanted, self.wanted[1:], strict=False))

    def reason(self) -> ScalingReason:
        assert self.last is not None
        return self.last.reason


def settled(load: float, workers: int, **rules: Any) -> Plant:
    """A plant that has had this load for so long that its windows know nothing else."""
    plant = Plant(replace(RULES, **rules), workers=workers)
    plant.run(400, lambda _: load)
    plant.wanted = plant.wanted[-1:]
    return plant


@given(
    workers=st.integers(1, 20),
    noise=st.lists(st.floats(0.8, 1.1), min_size=1, max_size=300),
    interval_s=st.sampled_from([1, 5, 15]),
)
@settings(max_examples=25, deadline=None)
def test_noise_within_the_band_never_changes_anything(
    workers: int, noise: Sequence[float], interval_s: int
) -> None:
    plant = Plant(workers=workers, interval_s=interval_s)
    plant.run(len(noise) * interval_s, lambda second: workers * noise[second // interval_s])
    assert set(plant.wanted) == {workers}


def test_without_band_and_windows_the_same_noise_flaps() -> None:
    """The control: what the property above would look like without hysteresis."""
    bare = replace(
        RULES, up_tolerance=0, down_tolerance=0, stable_us=1, panic_us=1, down_window_us=0,
        startup_us=0, up_period_us=0, down_period_us=0, panic_threshold=100,
    )  # fmt: skip
    plant = Plant(bare, workers=10)
    plant.run(300, lambda second: 10 * (0.8 if second % 2 else 1.1))
    assert plant.events > 250


@given(loads=st.lists(st.floats(0, 60), min_size=1, max_size=400), startup_s=st.integers(0, 60))
@settings(max_examples=25, deadline=None)
def test_any_load_keeps_the_bounds_and_the_number_of_changes_small(
    loads: Sequence[float], startup_s: int
) -> None:
    rules = replace(RULES, min_workers=2, max_workers=9)
    plant = Plant(rules, workers=3, startup_s=startup_s)
    plant.run(len(loads), lambda second: loads[second])
    assert all(2 <= wanted <= 9 for wanted in plant.wanted)
    downs = [
        number for number, (a, b) in enumerate(zip(plant.wanted, plant.wanted[1:], strict=False))
        if b < a
    ]  # fmt: skip
    # After each time of growing, fewer come only a whole window later.
    for down in downs:
        window = plant.wanted[max(0, down - RULES.down_window_us // SECOND + 5) : down + 1]
        assert window == sorted(window, reverse=True)
    # 2 to 9, by doubling at most: each climb is a few steps.
    assert plant.events <= 8 * (1 + len(loads) * SECOND // RULES.down_window_us) + len(downs)


@given(
    load=st.floats(1.2, 20), startup_s=st.integers(0, 120), interval_s=st.sampled_from([1, 2, 10])
)
@settings(max_examples=25, deadline=None)
def test_a_step_up_is_followed_within_a_bound(load: float, startup_s: int, interval_s: int) -> None:
    plant = Plant(workers=1, startup_s=startup_s, interval_s=interval_s)
    plant.run(120, lambda _: 1.0)
    began = len(plant.wanted)
    doublings = 5  # 1 to 20
    windows = (RULES.stable_us + doublings * RULES.up_period_us) // SECOND + 3 * interval_s
    plant.run(windows + startup_s, lambda _: load)
    wanted = plant.wanted[-1]
    assert load / (1 + RULES.up_tolerance) <= wanted <= load + 1
    assert plant.workers == wanted
    # Never beyond, while the new ones started: what is asked for does not depend on who is there.
    assert max(plant.wanted[began:]) == wanted


def test_a_burst_is_noticed_in_the_short_window_and_nothing_is_taken_away_meanwhile() -> None:
    plant = settled(4.0, workers=4)
    plant.run(8, lambda _: 40.0)
    assert plant.wanted[-1] == 8
    assert plant.reason() in (ScalingReason.RATE, ScalingReason.BURST)
    plant.run(20, lambda _: 0.0)
    assert plant.wanted[-1] >= 8


def test_half_as_much_again_is_no_burst_and_takes_the_long_window() -> None:
    plant = settled(4.0, workers=4)
    plant.run(10, lambda _: 6.0)
    assert plant.wanted[-1] == 4
    plant.run(60, lambda _: 6.0)
    assert plant.wanted[-1] == 6


def test_growing_can_be_made_to_wait_as_well() -> None:
    plant = settled(4.0, workers=4, up_window_us=100 * SECOND)
    plant.run(150, lambda _: 6.0)
    assert plant.wanted.index(5) > 100
    assert plant.reason() in (ScalingReason.UP, ScalingReason.STEADY, ScalingReason.STABILISING)


def test_it_shrinks_only_after_the_window_and_by_half_at_most() -> None:
    plant = settled(16.0, workers=16)
    plant.run(300, lambda _: 0.0)
    assert plant.wanted[-1] == 16
    assert plant.reason() is ScalingReason.STABILISING
    plant.run(100, lambda _: 0.0)
    assert plant.wanted[-1] == 6
    assert plant.reason() is ScalingReason.RATE
    plant.run(200, lambda _: 0.0)
    assert sorted(set(plant.wanted), reverse=True) == [16, 13, 6, 3, 1]


def test_a_worker_that_starts_slowly_is_not_given_up_quickly() -> None:
    plant = Plant(workers=4)
    plant.run(60, lambda _: 4.0)
    plant.run(800, lambda _: 0.0, startup_us=900 * SECOND)
    assert plant.wanted[-1] == 4


def test_an_idle_pool_may_end_all_its_workers_and_one_request_brings_one_back() -> None:
    plant = Plant(replace(RULES, min_workers=0), workers=1)
    plant.run(500, lambda _: 0.0)
    assert plant.wanted[-1] == plant.workers == 0
    plant.run(1, lambda _: 0.0, queued=1)
    assert plant.wanted[-1] == 1


def test_case_21_dynamo_10528_queue_time_asks_for_more_while_use_is_within_its_target() -> None:
    """A load at its target, and requests that wait all the same: the wait is what counts."""
    plant = settled(2.0, workers=2)
    plant.run(60, lambda _: 2.0, queued=0, oldest_wait_us=0)
    assert plant.wanted[-1] == 2
    plant.run(15, lambda _: 2.0, queued=1, oldest_wait_us=20 * SECOND)
    assert plant.wanted[-1] == 4
    assert plant.last is not None
    assert plant.last.driver == "wait"


def test_case_21_the_wait_of_before_does_not_ask_again_for_the_workers_that_came() -> None:
    plant = Plant(replace(RULES, startup_us=30 * SECOND), workers=2, startup_s=30)
    plant.run(120, lambda _: 2.0)
    plant.run(30, lambda _: 2.0, queued=1, oldest_wait_us=20 * SECOND, queue_p95_us=30 * SECOND)
    assert plant.wanted[-1] == 4
    # All four come now; what ended its wait lately had waited for them.
    plant.run(30, lambda _: 2.0, queued=1, oldest_wait_us=SECOND // 2, queue_p95_us=30 * SECOND)
    assert plant.wanted[-1] == 4
    # And what has waited since then is theirs.
    plant.run(60, lambda _: 2.0, queued=1, oldest_wait_us=20 * SECOND, queue_p95_us=30 * SECOND)
    assert plant.wanted[-1] >= 8


@pytest.mark.parametrize(
    ("fields", "driver"),
    [
        ({"queued": 20_000}, "requests"),
        ({"queued_tokens": 40_000}, "tokens"),
        ({"tokens_in_flight": 40_000}, "tokens"),
        ({"kv_use": 1.0}, "kv"),
    ],
)
def test_each_signal_can_be_the_one_that_asks(fields: dict[str, Any], driver: str) -> None:
    plant = Plant(workers=4)
    plant.run(100, lambda _: 1.0, **fields)
    assert plant.wanted[-1] > 4
    assert plant.last is not None
    assert plant.last.driver == driver


def test_what_is_unknown_or_old_changes_nothing() -> None:
    plant = settled(4.0, workers=4)
    plant.run(600, lambda _: 0.0, known=False)
    assert set(plant.wanted) == {4}
    assert plant.reason() is ScalingReason.UNKNOWN
    old = reading(plant.now_us, 40.0, 4)
    later = plant.now_us + RULES.max_age_us + 1
    assert plant.autoscaler.decide(old, later).workers == 4
    assert plant.autoscaler.decide(old, later).reason is ScalingReason.UNKNOWN


def test_after_a_start_it_begins_with_what_is_there() -> None:
    """A scheduler that was restarted must not take workers away before a window has passed."""
    autoscaler = Autoscaler(RULES)
    assert autoscaler.decide(reading(0, 0, 0, known=False), 0).reason is ScalingReason.UNKNOWN
    for second in range(1, 290):
        now_us = second * SECOND
        assert autoscaler.decide(reading(now_us, 0, 7), now_us).workers == 7


def test_other_rules_hold_at_once() -> None:
    plant = settled(4.0, workers=4)
    plant.autoscaler.use(replace(RULES, max_workers=3))
    plant.run(1, lambda _: 4.0)
    assert plant.wanted[-1] == 3
    assert plant.reason() is ScalingReason.BOUND


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"min_workers": -1}, "min_workers is -1; it must be 0 or more"),
        ({"min_workers": 5, "max_workers": 4}, "max_workers is 4; it must be at least 5"),
        ({"target_use": 0}, "target_use is 0; it must be above 0 and at most 1"),
        ({"down_tolerance": 1}, "down_tolerance is 1; it must be 0 to below 1"),
        ({"max_up_factor": 1}, "max_up_factor is 1; it must be above 1"),
        ({"stable_us": 0}, "stable_us is 0; it must be above 0"),
        ({"down_window_us": -1}, "down_window_us is -1; it must be 0 or more"),
    ],
)
def test_rules_that_cannot_be_are_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ScalingRules(**fields)
