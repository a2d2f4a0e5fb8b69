"""Pools and targets of the file, as the directory's."""

from weir.directory.v1.directory_pb2 import (
    Pool,
    PromptLength,
    Scaling,
    ShedCurve,
    SloTargets,
    WhenGone,
)
from weir_gateway.directory.document import PoolEntry
from weir_gateway.directory.pool_entries import ScalingEntry, SloEntry


def set_scope(pool: Pool, entry: PoolEntry) -> None:
    """Sets what the pool takes, how it shares and when it refuses."""
    shares = entry.shares
    pool.profiles.extend(entry.profiles)
    pool.interactive_share = shares.interactive or 0
    pool.batch_share = shares.batch or 0
    pool.short_share = shares.short or 0
    pool.long_share = shares.long or 0
    pool.shed_curve = ShedCurve.Value(f"SHED_CURVE_{entry.shedding.curve.upper()}")
    pool.shed_from_millis = round(entry.shedding.begin * 1000)
    if entry.length is not None:
        pool.length = PromptLength.Value(f"PROMPT_LENGTH_{entry.length.upper()}")
    if entry.when_gone is not None:
        pool.when_gone = WhenGone.Value(f"WHEN_GONE_{entry.when_gone.upper()}")
    if entry.scaling != ScalingEntry():
        pool.scaling.CopyFrom(_scaling(entry.scaling))


def _scaling(entry: ScalingEntry) -> Scaling:
    return Scaling(
        min_workers=entry.min_workers,
        max_workers=entry.max_workers,
        target_use_millis=_millis(entry.target_use),
        target_kv_use_millis=_millis(entry.target_kv_use),
        target_wait_ms=entry.target_wait_ms,
        down_window_ms=entry.down_window_ms,
    )


def _millis(part: float | None) -> int | None:
    return None if part is None else round(part * 1000)


def to_targets(entry: SloEntry) -> SloTargets | None:
    """None when nothing is set: then all of it is the plan's."""
    if entry == SloEntry():
        return None
    millis = None if entry.attainment is None else round(entry.attainment * 1000)
    return SloTargets(
        ttft_ms=entry.ttft_ms,
        itl_ms=entry.itl_ms,
        e2e_ms=entry.e2e_ms,
        attainment_millis=millis,
        shed=entry.shed,
    )
