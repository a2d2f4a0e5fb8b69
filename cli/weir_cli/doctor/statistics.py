"""Whether two sets of requests differ, from counts in buckets; no guess where there are few."""

import math
from collections.abc import Iterable

from weir.gateway.v1.history_service_pb2 import Distribution

FEWEST = 20
"""Requests of each window, below which nothing is said of them: with fewer, a median of times
that vary by half of their mean is off by a quarter."""
SURE = 3.3
"""Standard deviations: one false alarm in a thousand, as about ten comparisons are made."""

_PER_OCTAVE = 4


def joined(parts: Iterable[Distribution]) -> Distribution:
    """All of them as one."""
    whole = Distribution()
    buckets: dict[int, int] = {}
    for part in parts:
        whole.count += part.count
        whole.sum += part.sum
        for bucket, count in zip(part.buckets, part.counts, strict=True):
            buckets[bucket] = buckets.get(bucket, 0) + count
    whole.buckets.extend(sorted(buckets))
    whole.counts.extend(buckets[bucket] for bucket in sorted(buckets))
    return whole


def mean(values: Distribution) -> float:
    """Exact; 0 of nothing."""
    return values.sum / values.count if values.count else 0.0


def quantile(values: Distribution, share: float) -> float:
    """Within a tenth of the true one, as buckets are; 0 of nothing."""
    wanted, seen = share * values.count, 0
    for bucket, count in zip(values.buckets, values.counts, strict=True):
        if seen + count >= wanted and count:
            within = (wanted - seen) / count
            return float(2.0 ** ((bucket - 1 + within) / _PER_OCTAVE))
        seen += count
    return 0.0


def median(values: Distribution) -> float:
    """See `quantile`."""
    return quantile(values, 0.5)


def shift(before: Distribution, after: Distribution) -> float:
    """By how many standard deviations `after` lies above `before` (Mann and Whitney, with ties).

    0 where either has fewer than `FEWEST` values.
    """
    n, m = before.count, after.count
    if n < FEWEST or m < FEWEST:
        return 0.0
    old = dict(zip(before.buckets, before.counts, strict=True))
    new = dict(zip(after.buckets, after.counts, strict=True))
    below, above, ties = 0, 0.0, 0.0
    for bucket in sorted(old.keys() | new.keys()):
        here, later = old.get(bucket, 0), new.get(bucket, 0)
        above += later * (below + here / 2)
        below += here
        ties += float(here + later) ** 3 - (here + later)
    both = n + m
    variance = n * m / 12 * (both + 1 - ties / (both * (both - 1)))
    return (above - n * m / 2) / math.sqrt(variance) if variance > 0 else 0.0


def grew(before: Distribution, after: Distribution, times: float) -> bool:
    """Whether the median grew to `times` or more, for sure."""
    return shift(before, after) >= SURE and median(after) >= times * median(before)
