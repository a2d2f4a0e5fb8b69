"""Others use the device, or it has become slower."""

from weir.gateway.v1.history_service_pb2 import WorkerSample
from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.step_growth import same_work, step_growth
from weir_cli.doctor.window import Window
from weir_cli.doctor.work import Work

SLOWER = 1.25
"""Times that a step takes longer with as many tokens; steps vary by less at equal load."""
SLOWER_AND_SEEN = 1.1
"""Likewise, where others are seen to use more of the device or to keep the engine waiting."""
MORE_CONTEXT = 1.5
"""Times the tokens that a sequence reads; so many more may take that time themselves."""
MORE_FOREIGN = 0.1
"""Of the device; others' use drifts by less."""
WAITED = 0.25
"""Of the time that a step takes longer: so much of it the engine waited for a processor."""


class DeviceTaken:
    """Steps of equal size take longer."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        before, after = evidence.baseline, evidence.recent
        growth = step_growth(before, after)
        old, new = same_work(before, after)
        share = excess.share(Part.SLOW_STEPS)
        foreign = _grown(old.foreign_share, new.foreign_share, MORE_FOREIGN)
        waits = _waits(old, new)
        if not share or growth < (SLOWER_AND_SEEN if foreign or waits else SLOWER):
            return None
        more = _context(after) / _context(before) if _context(before) else 1.0
        if more >= MORE_CONTEXT and not (foreign or waits):
            return None
        return Finding(
            cause="device_taken",
            symptom=excess.symptom,
            share=share,
            subject=evidence.recent.model,
            evidence=(
                f"a step takes {new.step_seconds * 1e3:.1f} ms for "
                f"{new.rows_per_step:.1f} tokens, {old.step_seconds * 1e3:.1f} ms "
                f"for {old.rows_per_step:.1f} before",
                _told(old, new),
            ),
            remedy=_remedy(foreign or waits, evidence.workers),
        )


def _told(before: Work, after: Work) -> str:
    told = []
    if before.foreign_share is not None and after.foreign_share is not None:
        told.append(
            f"other processes use {percent(after.foreign_share)} of the device, "
            f"{percent(before.foreign_share)} before"
        )
    old, new = before.wait_per_step, after.wait_per_step
    if old is not None and new is not None:
        told.append(
            f"the engine waits {1e3 * new:.1f} ms for a processor in each step, "
            f"{1e3 * old:.1f} ms before"
        )
    return "; ".join(told) or "who else uses the device is not known"


def _remedy(taken: bool, workers: list[WorkerSample]) -> str:
    devices = ", ".join(sorted({one.view.registration.gpu_id for one in workers}))
    if taken:
        return (
            f"end or move what else runs on {devices} (`top` or `nvidia-smi` names it), or give "
            "the worker processors of its own: cpuset, CPU limits, a GPU of its own"
        )
    return (
        f"look at clock and temperature of {devices}, at the limits of its container, and whether "
        "`threads` or the kernels of the worker have changed since"
    )


def _waits(before: Work, after: Work) -> bool:
    """Whether waits for a processor are much of what a step takes longer."""
    old, new = before.wait_per_step, after.wait_per_step
    longer = after.step_seconds - before.step_seconds
    return old is not None and new is not None and 0 < WAITED * longer <= new - old


def _grown(before: float | None, after: float | None, by: float) -> bool:
    return before is not None and after is not None and after - before >= by


def _context(window: Window) -> float:
    """Tokens that a running sequence holds."""
    held = sum(
        max(0, one.view.load.held_kv_blocks - one.view.load.pinned_kv_blocks)
        * one.view.registration.block_size
        for one in window.workers()
    )
    running = sum(one.view.load.running_requests for one in window.workers())
    return held / running if running else 0.0
