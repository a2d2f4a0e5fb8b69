"""How a busy pool refuses interactive requests before they wait in vain."""

from dataclasses import dataclass
from enum import StrEnum


class ShedCurve(StrEnum):
    """How refusals grow with the saturation; see `dispatch.shedding`."""

    GATE = "gate"
    HOLDBACK = "holdback"
    POWER = "power"


@dataclass(frozen=True, slots=True)
class SheddingRules:
    """Shedding of one pool.

    Attributes:
        curve: how refusals grow.
        from_millis: saturation from which the least urgent are refused, thousandths, 1 to 999.
    """

    curve: ShedCurve = ShedCurve.GATE
    from_millis: int = 500
