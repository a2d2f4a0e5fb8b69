"""Bounds of pre-emption by policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """How far urgent requests may take places back (see `dispatch.preemption`).

    Attributes:
        max_overtakings: times that one request may be overtaken by pre-empting ones.
        max_preemptions: times that one request may lose its place.
        max_overtake_ratio_millis: share of a lane's dispatches that may pre-empt, thousandths.
        place_wait_us: longest wait for the place of a victim, microseconds.
    """

    max_overtakings: int = 4
    max_preemptions: int = 2
    max_overtake_ratio_millis: int = 250
    place_wait_us: int = 1_000_000
