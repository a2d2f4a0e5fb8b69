"""Pools and targets of the file, as the directory's."""

from weir.directory.v1.directory_pb2 import (
    Pool,
    PromptLength,
    ShedCurve,
    SloTargets,
    WhenGone,
)
from weir_gateway.directory.document import PoolEntry
from weir_gateway.directory.pool_entries import SloEntry


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
