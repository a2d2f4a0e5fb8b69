"""Requests take longer before they reach the queue."""

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.statistics import mean, median

LATER_S = 0.05
"""Seconds on average; a reservation takes a few milliseconds."""


class SlowIntake:
    """The ratelimiter or its store answers late, or the gateway itself is busy."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        old, new = (window.values("intake_time") for window in (evidence.baseline, evidence.recent))
        share = excess.share(Part.INTAKE)
        if not share or mean(new) - mean(old) < LATER_S:
            return None
        return Finding(
            cause="slow_intake",
            symptom=excess.symptom,
            share=share,
            evidence=(
                f"a reservation takes {1e3 * median(new):.0f} ms (median), {1e3 * median(old):.0f} "
                "ms before",
            ),
            remedy=(
                "look at the ratelimiter and its store (`weir ledger status`; latency and load of "
                "Redis), and at the processor time of the gateway: run more gateways"
            ),
        )
