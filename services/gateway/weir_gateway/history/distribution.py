"""Values in buckets that grow by a constant factor: small, and joined by adding."""

import math
from collections.abc import Iterable, Mapping

from weir.gateway.v1.history_service_pb2 import Distribution

_PER_OCTAVE = 4
_SMALLEST, _LARGEST = -80, 160
"""From a microsecond in seconds to a million million tokens."""


class Tally:
    """Counts values; see the message `Distribution`."""

    __slots__ = ("_buckets", "_count", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        """Counts a value; what is below zero counts as zero."""
        bucket = bucket_of(value)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self._count += 1
        self._sum += max(0.0, value)

    def message(self) -> Distribution:
        """Everything that was counted."""
        return _message(self._count, self._sum, self._buckets)


def bucket_of(value: float) -> int:
    """Number of the bucket that holds a value."""
    if value <= 0:
        return _SMALLEST
    bucket = math.ceil(_PER_OCTAVE * math.log2(value))
    return min(_LARGEST, max(_SMALLEST, bucket))


def joined(parts: Iterable[Distribution]) -> Distribution:
    """All of them as one."""
    count, total = 0, 0.0
    buckets: dict[int, int] = {}
    for part in parts:
        count += part.count
        total += part.sum
        for bucket, held in zip(part.buckets, part.counts, strict=True):
            buckets[bucket] = buckets.get(bucket, 0) + held
    return _message(count, total, buckets)


def _message(count: int, total: float, buckets: Mapping[int, int]) -> Distribution:
    if not count:
        return Distribution()
    order = sorted(buckets)
    return Distribution(
        count=count, sum=total, buckets=order, counts=[buckets[bucket] for bucket in order]
    )
