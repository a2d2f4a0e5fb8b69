"""Settings of scaling: how the number of workers follows the load."""

from typing import Self

from pydantic import Field, model_validator

from weir_core.config import SettingsGroup
from weir_scheduler.scaling.scaling_rules import ScalingRules

_SECOND_US = 1_000_000


class ScalingSettings(SettingsGroup):
    """For every pool that does not say otherwise in the directory; see docs/scaling.md."""

    interval_s: float = Field(default=1, gt=0, le=300, description="between two looks at the load")
    min_workers: int = Field(
        default=1, ge=0, le=10_000, description="of each model; 0: none when idle"
    )
    max_workers: int = Field(default=100, ge=1, le=10_000, description="of each model")
    target_use: float = Field(
        default=0.7,
        gt=0,
        le=1,
        description="part of the workers' places and tokens that is to be in use",
    )
    target_kv_use: float = Field(
        default=0.85, gt=0, le=1, description="likewise of their KV blocks"
    )
    target_wait_s: float = Field(
        default=1, gt=0, le=600, description="queue time above which more workers are asked for"
    )
    up_tolerance: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="load above the target that changes nothing, part of it",
    )
    down_tolerance: float = Field(
        default=0.2,
        ge=0,
        lt=1,
        description="load below the target that changes nothing, part of it",
    )
    stable_s: float = Field(default=60, gt=0, le=3_600, description="the load is averaged over it")
    panic_s: float = Field(default=6, gt=0, le=600, description="and over it, to notice a burst")
    panic_threshold: float = Field(
        default=2,
        gt=1,
        le=100,
        description="a burst is a load of so many times what the workers can do",
    )
    up_window_s: float = Field(
        default=0,
        ge=0,
        le=3_600,
        description="more are asked for once they were needed for so long",
    )
    down_window_s: float = Field(
        default=300,
        ge=0,
        le=86_400,
        description="fewer are asked for once they sufficed for so long",
    )
    max_up_factor: float = Field(
        default=2, gt=1, le=1_000, description="of the number, in up_period_s"
    )
    up_period_s: float = Field(default=15, ge=0, le=3_600, description="see max_up_factor")
    max_down_factor: float = Field(
        default=2, gt=1, le=1_000, description="divisor of it in one step down"
    )
    down_period_s: float = Field(default=60, ge=0, le=3_600, description="between two steps down")
    startup_s: float = Field(
        default=30, ge=0, le=3_600, description="start of a worker, until one has told its own"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.rules()
        return self

    def rules(self) -> ScalingRules:
        """In the terms of the domain. Raises ValueError, which names the field."""
        return ScalingRules(
            min_workers=self.min_workers,
            max_workers=self.max_workers,
            target_use=self.target_use,
            target_kv_use=self.target_kv_use,
            target_wait_us=_us(self.target_wait_s),
            up_tolerance=self.up_tolerance,
            down_tolerance=self.down_tolerance,
            stable_us=_us(self.stable_s),
            panic_us=_us(self.panic_s),
            panic_threshold=self.panic_threshold,
            up_window_us=_us(self.up_window_s),
            down_window_us=_us(self.down_window_s),
            max_up_factor=self.max_up_factor,
            up_period_us=_us(self.up_period_s),
            max_down_factor=self.max_down_factor,
            down_period_us=_us(self.down_period_s),
            startup_us=_us(self.startup_s),
            max_age_us=_us(max(15.0, 3 * self.interval_s)),
        )


def _us(seconds: float) -> int:
    return round(seconds * _SECOND_US)
