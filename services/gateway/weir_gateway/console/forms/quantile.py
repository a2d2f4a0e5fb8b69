"""Quantiles of values that were counted in buckets."""

from weir.gateway.v1.history_service_pb2 import Distribution

_PER_OCTAVE = 4


def quantile(of: Distribution, share: float) -> float | None:
    """The value below which a share of all lies, within the width of a bucket; None of none.

    Buckets grow by the fourth root of 2, and values are taken as evenly spread within one.
    """
    if not of.count:
        return None
    wanted, before = share * of.count, 0
    for bucket, count in zip(of.buckets, of.counts, strict=True):
        if before + count >= wanted:
            low, high = 2 ** ((bucket - 1) / _PER_OCTAVE), 2 ** (bucket / _PER_OCTAVE)
            return float(low + (high - low) * max(0.0, wanted - before) / count)
        before += count
    return float(2 ** (of.buckets[-1] / _PER_OCTAVE))


def spread_json(of: Distribution) -> dict[str, float | int | None]:
    """Median, 95th and 99th percentile of times, and how many there were."""
    return {
        "p50_s": quantile(of, 0.5),
        "p95_s": quantile(of, 0.95),
        "p99_s": quantile(of, 0.99),
        "count": of.count,
    }
