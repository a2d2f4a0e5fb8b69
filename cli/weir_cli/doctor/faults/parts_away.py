"""The scheduler or the ratelimiter does not answer."""

from collections.abc import Iterable

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding


class PartsAway:
    """Seen from the gateway, whose requests need both."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        newest = evidence.newest
        if newest is None:
            return
        for part, error in (
            ("scheduler", newest.parts.scheduler_error),
            ("ratelimiter", newest.parts.ratelimiter_error),
        ):
            if error:
                yield fault(
                    f"{part}_away",
                    part,
                    (f"the {part} does not answer the gateway: {error}",),
                    f"look whether it runs and what its log says; `{part}_address` of the gateway "
                    "names it",
                )
