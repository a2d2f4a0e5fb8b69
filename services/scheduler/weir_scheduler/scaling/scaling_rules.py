"""How many workers a pool may have, and how eagerly their number follows the load."""

from dataclasses import dataclass

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """Bounds, targets and hysteresis of one pool. Times in microseconds.

    Attributes:
        min_workers: never fewer; 0 lets an idle pool end all its workers.
        max_workers: never more.
        target_use: part of the workers' places and tokens that is to be in use, 0 to 1.
        target_kv_use: likewise of their KV blocks.
        target_wait_us: queue time above which more workers are asked for.
        up_tolerance: load above the target that changes nothing, as a part of it.
        down_tolerance: load below the target that changes nothing.
        stable_us: the load is averaged over this time.
        panic_us: and over this one, to notice a burst.
        panic_threshold: a burst is a load of so many times what the workers can do.
        up_window_us: more is asked for only once it was needed for so long.
        down_window_us: fewer are asked for only once no more were needed for so long; never
            less than the start-up time of a worker.
        max_up_factor: of the number of workers, within `up_period_us`; one more is always
            allowed.
        up_period_us: see there.
        max_down_factor: divisor of the number of workers in one step; one fewer is always allowed.
        down_period_us: time between two steps down.
        startup_us: start of a worker, until one was measured.
        max_age_us: a reading older than this is not acted on.
    """

    min_workers: int = 1
    max_workers: int = 1
    target_use: float = 0.7
    target_kv_use: float = 0.85
    target_wait_us: int = 1 * _SECOND
    up_tolerance: float = 0.1
    down_tolerance: float = 0.2
    stable_us: int = 60 * _SECOND
    panic_us: int = 6 * _SECOND
    panic_threshold: float = 2.0
    up_window_us: int = 0
    down_window_us: int = 300 * _SECOND
    max_up_factor: float = 2.0
    up_period_us: int = 15 * _SECOND
    max_down_factor: float = 2.0
    down_period_us: int = 60 * _SECOND
    startup_us: int = 30 * _SECOND
    max_age_us: int = 15 * _SECOND

    def __post_init__(self) -> None:
        """Raises ValueError, which names the field, for what cannot be."""
        _require("min_workers", self.min_workers, self.min_workers >= 0, "0 or more")
        low = max(1, self.min_workers)
        _require("max_workers", self.max_workers, self.max_workers >= low, f"at least {low}")
        for name in ("target_use", "target_kv_use"):
            share = getattr(self, name)
            _require(name, share, 0 < share <= 1, "above 0 and at most 1")
        _require("up_tolerance", self.up_tolerance, self.up_tolerance >= 0, "0 or more")
        _require(
            "down_tolerance", self.down_tolerance, 0 <= self.down_tolerance < 1, "0 to below 1"
        )
        for name in ("max_up_factor", "max_down_factor", "panic_threshold"):
            _require(name, getattr(self, name), getattr(self, name) > 1, "above 1")
        for name in ("target_wait_us", "stable_us", "panic_us", "max_age_us"):
            _require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        for name in (
            "up_window_us",
            "down_window_us",
            "up_period_us",
            "down_period_us",
            "startup_us",
        ):
            _require(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")

    def clamp(self, workers: int) -> int:
        """The nearest allowed number."""
        return max(self.min_workers, min(self.max_workers, workers))


def _require(name: str, value: float, good: bool, bound: str) -> None:
    if not good:
        raise ValueError(f"{name} is {value}; it must be {bound}")
