"""Requests per minute and client as the only isolation; who is refused does not try again."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from weir_core.bucket import BucketShape, BucketState
from weir_sim.workload import SimRequest, Workload

_MINUTE_S = 60.0
_MINUTE_MS = 60_000


def by_window(workload: Workload, requests_per_minute: int) -> Workload:
    """At most so many of a client in any minute, as the VTC artifact limits."""
    recent: dict[str, deque[float]] = {}

    def admits(request: SimRequest) -> bool:
        times = recent.setdefault(request.tenant_id, deque())
        while times and times[0] <= request.arrival_s - _MINUTE_S:
            times.popleft()
        if len(times) >= requests_per_minute:
            return False
        times.append(request.arrival_s)
        return True

    return _filtered(workload, admits)


def by_bucket(workload: Workload, requests_per_minute: int) -> Workload:
    """By the product's own bucket, which lets a client save up one minute's number."""
    shape = BucketShape.of(requests_per_minute, requests_per_minute, _MINUTE_MS)
    states: dict[str, BucketState] = {}

    def admits(request: SimRequest) -> bool:
        now_ms = round(request.arrival_s * 1000)
        before = states.get(request.tenant_id) or shape.full(now_ms)
        states[request.tenant_id], wait_ms = shape.take(before, 1, now_ms)
        return wait_ms == 0

    return _filtered(workload, admits)


def _filtered(workload: Workload, admits: Callable[[SimRequest], bool]) -> Workload:
    admitted = tuple(request for request in workload.requests if admits(request))
    return replace(workload, requests=admitted)
