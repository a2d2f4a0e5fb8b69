"""Requests wait for a static batch to fill."""

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.waiting import Blocked


class BatchWindow:
    """The window in which a worker with static batches gathers one."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        share = excess.share(Part.BATCH_WINDOW)
        if not share:
            return None
        return Finding(
            cause="batch_window",
            symptom=excess.symptom,
            share=share,
            subject=evidence.recent.model,
            evidence=(
                f"{evidence.waiting.of(Blocked.BATCH_WINDOW):.1f} requests wait for a batch to "
                f"fill on average, {evidence.waited.of(Blocked.BATCH_WINDOW):.1f} before",
            ),
            remedy="lower `batch_wait_ms` of the model's parameters, or for the class batch "
            "`offline_batch_wait_ms`; or use continuous batching",
        )
