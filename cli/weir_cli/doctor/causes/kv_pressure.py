"""KV blocks are short, or held without use."""

from weir.gateway.v1.history_service_pb2 import WorkerSample
from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess, Part
from weir_cli.doctor.finding import Finding
from weir_cli.doctor.waiting import Blocked

AGAIN = 0.05
"""Share of the computed tokens that were computed before a pre-emption; a few are normal."""
WAIT = 0.5
"""Requests that wait for blocks on average; fewer come and go with single long ones."""
STRANDED = 0.3
"""Share of the places in held blocks that no token fills."""
PINNED = 0.3
"""Share of all blocks that sessions keep which nobody uses."""


class KvPressure:
    """Requests wait for KV blocks or lose theirs, so that fewer run at once."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """See `Cause`."""
        recent, waiting = evidence.recent, evidence.waiting
        waits = waiting.of(Blocked.KV) >= WAIT
        if not waits and recent.work.recomputed_share < AGAIN:
            return None
        parts = [Part.RECOMPUTED, Part.KV]
        if waits and waiting.of(Blocked.KV) >= waiting.of(Blocked.FULL):
            parts += [Part.SMALL_STEPS, Part.FULL]
        share = excess.share(*parts)
        if not share:
            return None
        stranded, pinned = recent.mean_of_workers(_stranded), recent.mean_of_workers(_pinned)
        work = recent.work
        return Finding(
            cause="kv_pressure",
            symptom=excess.symptom,
            share=share,
            subject=recent.model,
            evidence=(
                f"{waiting.of(Blocked.KV):.1f} requests wait for KV blocks on average, "
                f"{evidence.waited.of(Blocked.KV):.1f} before",
                f"{percent(recent.mean_of_workers(_held))} of the blocks are held, "
                f"{percent(pinned)} by idle sessions; {percent(stranded)} of the places in held "
                "blocks are empty",
                f"{work.preemptions} pre-emptions, {percent(work.recomputed_share)} of the tokens "
                f"computed again; {work.evictions} cached blocks given up",
            ),
            remedy=_remedy(stranded, pinned),
        )


def _remedy(stranded: float, pinned: float) -> str:
    if pinned >= PINNED:
        return "let sessions end sooner: `idle_ttl` of sessions, or delete those that are done"
    if stranded >= STRANDED:
        return (
            "blocks are larger than what they hold: a smaller `block_size` of the worker; it "
            "strands half a block for each sequence"
        )
    return (
        "give it more blocks: `num_blocks` or `kv_memory_bytes` of the worker, or further workers; "
        "or lower `max_batch_size` so that fewer requests compete"
    )


def _held(worker: WorkerSample) -> float:
    total = worker.view.registration.total_kv_blocks
    return worker.view.load.held_kv_blocks / total if total else 0.0


def _pinned(worker: WorkerSample) -> float:
    total = worker.view.registration.total_kv_blocks
    return worker.view.load.pinned_kv_blocks / total if total else 0.0


def _stranded(worker: WorkerSample) -> float:
    held = worker.view.load.held_kv_blocks * worker.view.registration.block_size
    return min(1.0, worker.view.load.stranded_kv_tokens / held) if held else 0.0
