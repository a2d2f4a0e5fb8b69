"""The part of each limit that one of several ratelimiters may give out on its own."""

from functools import lru_cache

import msgspec

from weir_core.bucket import BucketShape
from weir_ratelimiter.domain.limit import Kind, Limit, Resource

_AT_LEAST_ONE = (Resource.REQUESTS, Resource.CONCURRENCY, Resource.STREAMS)


@lru_cache(maxsize=16_384)
def share_of(limit: Limit, replicas: int) -> Limit:
    """What one of `replicas` ratelimiters may give out of a bucket, lease set or hold.

    Capacity and refill are divided and rounded down; of requests and places at least one stays,
    so that nobody is shut out, and a bucket that refills goes on doing so. A request for more
    tokens than the share is let in when the share is whole, and leaves it in debt: on average
    no more flows out than the share's rate, in bursts of one such request.
    """
    if replicas == 1:
        return limit
    shape = limit.shape
    least = 1 if limit.resource in _AT_LEAST_ONE else 0
    return msgspec.structs.replace(
        limit,
        shape=BucketShape(
            _part(shape.capacity, replicas, least),
            _part(shape.refill, replicas, 1),
            shape.period_ms,
        ),
        max_debt=limit.max_debt // replicas,
        overdraws=limit.kind in (Kind.BUCKET, Kind.HOLD),
        knob=f"{limit.knob} (1/{replicas} of it, while the store of the limits is away)",
    )


def _part(whole: int, replicas: int, least: int) -> int:
    return max(min(whole, least), whole // replicas)
