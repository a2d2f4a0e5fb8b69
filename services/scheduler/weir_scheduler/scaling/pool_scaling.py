"""What a pool says itself about the number of its workers."""

from dataclasses import dataclass, fields, replace

from weir_scheduler.scaling.scaling_rules import ScalingRules


@dataclass(frozen=True, slots=True)
class PoolScaling:
    """Fields of `ScalingRules` that a pool sets; None: as everywhere."""

    min_workers: int | None = None
    max_workers: int | None = None
    target_use: float | None = None
    target_kv_use: float | None = None
    target_wait_us: int | None = None
    down_window_us: int | None = None

    def over(self, defaults: ScalingRules) -> ScalingRules:
        """The rules of the pool; a bound that it sets itself moves one that it does not."""
        own = {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) is not None
        }
        if self.min_workers is None and self.max_workers is not None:
            own["min_workers"] = min(defaults.min_workers, self.max_workers)
        if self.max_workers is None and self.min_workers is not None:
            own["max_workers"] = max(defaults.max_workers, self.min_workers)
        return replace(defaults, **own)
