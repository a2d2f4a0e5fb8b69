"""More requests come than the workers have places for."""

from weir_cli.doctor.demand import demand_growth
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.places import left, lowered
from weir_cli.doctor.waiting import Blocked

WAIT = 0.5
"""Requests that wait for a place on average; fewer come and go by chance."""


class QueueGrew:
    """Demand grew, and what came waits."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        parts = [Part.DEMAND]
        windows = (evidence.baseline, evidence.recent)
        if lowered(*windows) is None and not left(*windows):
            parts.append(Part.FULL)
        if demand_growth(evidence.baseline, evidence.recent) > 1.0:
            # What is made at once with more others takes longer.
            parts.append(Part.CROWDED)
        share = excess.share(*parts)
        waits = evidence.waiting.of(Blocked.FULL)
        if not share or (waits < WAIT and Part.CROWDED not in parts):
            return None
        before, after = evidence.baseline, evidence.recent
        return Finding(
            cause="queue_grew",
            symptom=excess.symptom,
            share=share,
            subject=after.model,
            evidence=(
                f"{waits:.1f} requests wait for a place on average, "
                f"{evidence.waited.of(Blocked.FULL):.1f} before",
                f"{after.arrival_rate:.2f} requests/s come, {before.arrival_rate:.2f} before; "
                f"{after.in_flight:.1f} live at once, {before.in_flight:.1f} before",
            ),
            remedy=_remedy(evidence),
        )


def _remedy(evidence: Evidence) -> str:
    asked = _recommended(evidence)
    more = f"; {asked} would have places for all that now runs and waits" if asked else ""
    return (
        f"add workers: `--workers` of `weir up`, `max_workers` of the pool{more}; or let less in: "
        "`max_queued_requests` of the model's parameters, requests and tokens limits of plans"
    )


def _recommended(evidence: Evidence) -> int:
    """Workers that would have places for what runs and waits now; 0 unknown."""
    newest = evidence.newest
    if newest is None:
        return 0
    wanted = 0
    for pool in newest.pools:
        signals = pool.signals
        if evidence.recent.model in ("", pool.status.model) and signals.request_slots:
            asked = signals.queued_requests + signals.running_requests
            each = signals.request_slots / max(1, signals.workers)
            wanted = max(wanted, round(asked / each + 0.5))
    return wanted
