"""There are fewer workers than before."""

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.places import left, live_workers


class WorkersGone:
    """Fewer workers take work, so that what comes waits for places or for a worker at all."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        before, now = live_workers(evidence.baseline), live_workers(evidence.recent)
        share = excess.share(Part.FULL, Part.NO_WORKER, Part.CROWDED)
        if not share or not left(evidence.baseline, evidence.recent):
            return None
        kept = {one.view.registration.worker_id for one in now}
        gone = [one.view.registration.worker_id for one in before]
        names = ", ".join(sorted(name for name in gone if name not in kept))
        return Finding(
            cause="workers_gone",
            symptom=excess.symptom,
            share=share,
            subject=evidence.recent.model,
            evidence=(f"{len(now)} workers take work, {len(before)} before; gone: {names}",),
            remedy=(
                "look why they left (`weir workers ls`, their logs) and start as many again, or "
                "raise `min_workers` of the pool"
            ),
        )
