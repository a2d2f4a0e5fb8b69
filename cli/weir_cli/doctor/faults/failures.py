"""Accepted requests fail."""

from collections.abc import Iterable

from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding

SHARE = 0.05
"""Of those that ended; below it single requests fail for reasons of their own."""
FEWEST = 5
"""Failed requests; fewer are told with `weir explain`."""

_REMEDIES = {
    "error": "the reason stands in the gateway's log and in `weir explain` of a request; look at "
    "the logs of the workers",
    "shed": "more is queued than may: add workers, or raise `max_queued_requests` and "
    "`queue_timeout_ms` of the model's parameters",
    "deadline_exceeded": "requests take longer than their deadline: `weir doctor ttft` and "
    "`weir doctor throughput` say why; `request_timeout_s` of the gateway bounds them all",
    "expired": "gateways end without a word: look whether they are killed, and why",
}


class Failures:
    """By how they ended."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        ended = evidence.recent.ended
        counts: dict[str, int] = {}
        for flow in evidence.recent.flows:
            for one in flow.ended:
                counts[one.outcome] = counts.get(one.outcome, 0) + one.count
        for outcome, remedy in _REMEDIES.items():
            count = counts.get(outcome, 0)
            if count >= FEWEST and count >= SHARE * ended:
                told = (
                    f"{count} of {ended} requests ended with {outcome} ({percent(count / ended)})"
                )
                yield fault(f"requests_{outcome}", "requests", (told,), remedy)
