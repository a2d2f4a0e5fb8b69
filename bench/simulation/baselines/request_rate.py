"""Requests per minute and client, by the limiter's own bucket, as the only isolation."""

from dataclasses import replace

from weir_core.bucket import BucketShape, BucketState
from weir_sim.workload import Workload

_MINUTE_MS = 60_000


def limited(workload: Workload, requests_per_minute: int) -> Workload:
    """The workload without the requests that the limit refuses; nobody tries again."""
    shape = BucketShape.of(requests_per_minute, requests_per_minute, _MINUTE_MS)
    states: dict[str, BucketState] = {}
    admitted = []
    for request in workload.requests:
        now_ms = round(request.arrival_s * 1000)
        before = states.get(request.tenant_id) or shape.full(now_ms)
        states[request.tenant_id], wait_ms = shape.take(before, 1, now_ms)
        if wait_ms == 0:
            admitted.append(request)
    return replace(workload, requests=tuple(admitted))
