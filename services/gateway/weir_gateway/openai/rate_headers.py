"""`x-ratelimit-*` headers: the most constrained limit of requests and of tokens."""

from collections.abc import Sequence

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_core.errors import LimitExceeded

_RESOURCES = {"rps": "requests", "tpm": "tokens"}


def of_statuses(
    statuses: Sequence[LimitStatus], *, degraded: bool, now_us: int
) -> list[tuple[bytes, bytes]]:
    """Headers of an admission; limits without numbers are not the caller's and stay out."""
    headers = [(b"x-ratelimit-mode", b"degraded" if degraded else b"enforced")]
    tightest: dict[str, LimitStatus] = {}
    for status in statuses:
        resource = _RESOURCES.get(status.limit_type)
        if resource is None or status.shadow or not status.HasField("limit"):
            continue
        known = tightest.get(resource)
        if known is None or _share(status) < _share(known):
            tightest[resource] = status
    for resource, status in tightest.items():
        reset_us = status.reset_time.ToMicroseconds() if status.HasField("reset_time") else now_us
        headers += _triple(resource, status.limit, status.remaining, (reset_us - now_us) // 1_000)
    return headers


def of_refusal(error: LimitExceeded, *, now_us: int) -> list[tuple[bytes, bytes]]:
    """Headers of a 429."""
    headers = [(b"x-ratelimit-mode", b"enforced")]
    for violation in error.violations:
        resource = _RESOURCES.get(violation.limit_type)
        if resource is None or violation.limit is None or violation.used is None:
            continue
        wait_ms = violation.reset_time_ms - now_us // 1_000 if violation.reset_time_ms else 0
        headers += _triple(resource, violation.limit, violation.limit - violation.used, wait_ms)
        break
    return headers


def go_duration(milliseconds: int) -> str:
    """A duration as Go writes it: `120ms`, `1.5s`, `6m0s`, `1h0m0s`."""
    if milliseconds <= 0:
        return "0s"
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    seconds = f"{rest / 1_000:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes == 0:
        return seconds
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{seconds}" if hours else f"{minutes}m{seconds}"


def _share(status: LimitStatus) -> float:
    return status.remaining / max(1, status.limit)


def _triple(resource: str, limit: int, remaining: int, reset_ms: int) -> list[tuple[bytes, bytes]]:
    values = {
        "limit": str(limit),
        "remaining": str(max(0, remaining)),
        "reset": go_duration(reset_ms),
    }
    return [
        (f"x-ratelimit-{name}-{resource}".encode(), value.encode())
        for name, value in values.items()
    ]
