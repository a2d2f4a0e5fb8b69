"""Placement and pre-emption of the file, as the directory's."""

from weir.directory.v1.directory_pb2 import Placement, PolicyPreemption, Pool
from weir_gateway.directory.document import PoolEntry
from weir_gateway.directory.placement_entries import PlacementEntry, PreemptionEntry


def set_placement(pool: Pool, entry: PoolEntry) -> None:
    """Sets how the pool places, and whether it pre-empts."""
    if entry.placement != PlacementEntry():
        pool.placement.CopyFrom(_placement(entry.placement))
    if entry.preemption is not None:
        pool.preemption.CopyFrom(_preemption(entry.preemption))


def _placement(entry: PlacementEntry) -> Placement:
    return Placement(
        session_wait_ms=entry.session_wait_ms,
        affinity_excess_millis=_millis(entry.affinity_excess),
        affinity_slack_tokens=entry.affinity_slack_tokens,
        retry_ratio_millis=_millis(entry.retry_ratio),
        retries_per_s=entry.retries_per_s,
    )


def _preemption(entry: PreemptionEntry) -> PolicyPreemption:
    return PolicyPreemption(
        max_overtakings=entry.max_overtakings,
        max_preemptions=entry.max_preemptions,
        max_overtake_ratio_millis=_millis(entry.max_overtake_ratio),
        place_wait_ms=entry.place_wait_ms,
    )


def _millis(value: float | None) -> int | None:
    return None if value is None else round(value * 1000)
