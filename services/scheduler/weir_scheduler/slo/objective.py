"""What a target is about."""

from dataclasses import dataclass
from enum import StrEnum

from weir_scheduler.rules.slo_targets import SloTargets


class Objective(StrEnum):
    """Time to the first token, mean time between tokens, time to the end."""

    TTFT = "ttft"
    ITL = "itl"
    E2E = "e2e"


def target_us(targets: SloTargets, objective: Objective) -> int:
    """The target, microseconds; 0 for none."""
    return {
        Objective.TTFT: targets.ttft_us,
        Objective.ITL: targets.itl_us,
        Objective.E2E: targets.e2e_us,
    }[objective]


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """One sliding window.

    Attributes:
        length_us: of the window.
        good: requests that kept the target.
        total: all that ended in it.
        allowed_miss: part of them that may miss the target, above 0 to 1.
    """

    length_us: int
    good: int
    total: int
    allowed_miss: float

    @property
    def attainment(self) -> float:
        """Part that kept the target; 1 when there were none."""
        return self.good / self.total if self.total else 1.0

    @property
    def burn_rate(self) -> float:
        """Part that missed over the part that may: above 1 the target is being missed."""
        return (1.0 - self.attainment) / self.allowed_miss


@dataclass(frozen=True, slots=True)
class SloStatus:
    """How one target of one tenant is kept."""

    tenant_id: str
    objective: Objective
    target_us: int
    attainment_millis: int
    windows: tuple[WindowStatus, ...]
