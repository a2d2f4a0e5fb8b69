"""The ratelimiter works without its shared store."""

from collections.abc import Iterable

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding


class DegradedStore:
    """It lets a share of the rates in and knows no budgets until the store is back."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        newest = evidence.newest
        if newest is None:
            return
        parts = newest.parts
        away = parts.ledger.outbox_error
        if parts.ratelimiter_degraded or away:
            yield fault(
                "degraded_store",
                "ratelimiter",
                ("the ratelimiter works without its store, on a share of the rates", away),
                "bring the store back: look at `store` of the ratelimiter, at the memory and "
                "the log of Redis",
            )
