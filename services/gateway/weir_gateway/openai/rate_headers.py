"""`x-ratelimit-*` headers: the most constrained limit of requests, of tokens and of budgets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_core.errors import LimitExceeded
from weir_core.errors.refusal import LIMITER_MODE

_FAMILIES = {"rps": "requests", "tpm": "tokens", "budget": "budget"}

RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a limit stands, in units of its resource."""

    family: str
    resource: str
    limit: int
    remaining: int
    reset_ms: int

    @property
    def share(self) -> float:
        """What is left of it."""
        return self.remaining / max(1, self.limit)


def of_statuses(statuses: Sequence[LimitStatus], *, degraded: bool, now_us: int) -> RawHeaders:
    """Headers of an admission; limits without numbers are not the caller's and stay out."""
    mode = b"degraded" if degraded else b"enforced"
    return [(b"x-ratelimit-mode", mode), *_headers(standings_of(statuses, now_us=now_us))]


def of_refusal(error: LimitExceeded, *, now_us: int) -> RawHeaders:
    """Headers of a 429."""
    mode = error.metadata.get(LIMITER_MODE, "enforced").encode()
    return [(b"x-ratelimit-mode", mode), *_headers(standings_of_refusal(error, now_us=now_us))]


def standings_of(statuses: Iterable[LimitStatus], *, now_us: int) -> list[Standing]:
    """The tightest limit of each family, of an admission."""
    return _tightest(
        _of_status(status, _FAMILIES[status.limit_type], now_us)
        for status in statuses
        if status.limit_type in _FAMILIES and not status.shadow and status.HasField("remaining")
    )


def standings_of_refusal(error: LimitExceeded, *, now_us: int) -> list[Standing]:
    """The tightest limit of each family, of a refusal."""
    return _tightest(
        Standing(
            _FAMILIES[violation.limit_type],
            violation.resource,
            violation.limit,
            violation.limit - violation.used,
            violation.reset_time_ms - now_us // 1_000 if violation.reset_time_ms else 0,
        )
        for violation in error.violations
        if violation.limit_type in _FAMILIES
        and violation.limit is not None
        and violation.used is not None
    )


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


def _of_status(status: LimitStatus, family: str, now_us: int) -> Standing:
    reset_us = status.reset_time.ToMicroseconds() if status.HasField("reset_time") else now_us
    reset_ms = (reset_us - now_us) // 1_000
    return Standing(family, status.resource, status.limit, status.remaining, reset_ms)


def _tightest(standings: Iterable[Standing]) -> list[Standing]:
    tightest: dict[str, Standing] = {}
    for standing in standings:
        known = tightest.get(standing.family)
        if known is None or standing.share < known.share:
            tightest[standing.family] = standing
    return list(tightest.values())


def _headers(standings: Iterable[Standing]) -> RawHeaders:
    return [header for standing in standings for header in _of(standing)]


def _of(standing: Standing) -> RawHeaders:
    values = {
        "limit": str(standing.limit),
        "remaining": str(max(0, standing.remaining)),
        "reset": go_duration(standing.reset_ms),
    }
    if standing.family == "budget":
        # Of several kinds, unlike the others: tokens a day, money a month.
        values["resource"] = standing.resource
    return [
        (f"x-ratelimit-{name}-{standing.family}".encode(), value.encode())
        for name, value in values.items()
    ]
