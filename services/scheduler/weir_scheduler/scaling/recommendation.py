"""How many workers there should be, and why."""

from dataclasses import dataclass
from enum import StrEnum


class ScalingReason(StrEnum):
    """Why the number is what it is."""

    STEADY = "steady"
    """The load is within the band around its target."""
    UP = "up"
    DOWN = "down"
    BURST = "burst"
    """Panic: the short window asks for much more; nothing is taken away meanwhile."""
    STABILISING = "stabilising"
    """Another number is asked for, but not for long enough yet."""
    RATE = "rate"
    """Another number is asked for, and only a part of the way is allowed at once."""
    BOUND = "bound"
    """`min_workers` or `max_workers` stands in the way."""
    UNKNOWN = "unknown"
    """The signals are missing or too old: nothing is changed."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Answer of `Autoscaler.decide`.

    Attributes:
        workers: how many there should be.
        needed: what the load asks for, averaged, before band, windows, rates and bounds.
        reason: why `workers` is not simply that.
        driver: the signal that asks for most; empty when nothing is known.
    """

    workers: int
    needed: float
    reason: ScalingReason
    driver: str = ""
