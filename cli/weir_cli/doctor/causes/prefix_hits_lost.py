"""Prompts are read from the cache less than before."""

from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.tokens_for_each import TokensForEach

LOST = 0.1
"""Of all prompt tokens; the share of hits drifts by less with the mix of requests."""
MORE_EVICTIONS = 1.5
"""Times as many blocks a second are given up: then it is for want of room."""


class PrefixHitsLost:
    """Beginnings of prompts are computed again that were read from the cache before."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        before, after = TokensForEach.of(evidence.baseline), TokensForEach.of(evidence.recent)
        share = excess.share(Part.HITS)
        if not share or before.hits - after.hits < LOST:
            return None
        told, remedy = self._why(evidence)
        return Finding(
            cause="prefix_hits_lost",
            symptom=excess.symptom,
            share=share,
            subject=evidence.recent.model,
            evidence=(
                f"{percent(after.hits)} of the prompt tokens come from the cache, "
                f"{percent(before.hits)} before",
                told,
            ),
            remedy=remedy,
        )

    def _why(self, evidence: Evidence) -> tuple[str, str]:
        rates = [
            window.work.evictions / window.seconds if window.seconds else 0.0
            for window in (evidence.baseline, evidence.recent)
        ]
        told = f"{rates[1]:.1f} cached blocks a second are given up, {rates[0]:.1f} before"
        if rates[1] > MORE_EVICTIONS * rates[0] and rates[1] > 0:
            return told, (
                "give the cache more room: `num_blocks` or `kv_memory_bytes` of the worker; keep "
                "what is shared with `weir prefixes put`; or give the tenant that fills it a pool "
                "of its own"
            )
        old, new = (
            {one.view.registration.worker_id for one in window.workers()}
            for window in (evidence.baseline, evidence.recent)
        )
        if new - old:
            started = ", ".join(sorted(new - old))
            return f"{told}; {started} started with an empty cache", (
                "wait until it is filled, or fill it with `weir prefixes warm`"
            )
        return told, (
            "look whether the beginnings of prompts have changed (a date, a name or an id at "
            "their start makes each one new), whether conversations carry their session_id, and "
            "whether `kv.share_private` of the tenant's policy is as it was"
        )
