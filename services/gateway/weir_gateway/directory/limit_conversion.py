"""Limits of the directory file as messages of the snapshot."""

from collections.abc import Iterable

from weir.directory.v1.directory_pb2 import Limit, LimitKind, LimitResource
from weir_gateway.directory.entries import CONTEXT, IN_FLIGHT, LEASED, LimitEntry


def to_limits(entries: Iterable[LimitEntry]) -> list[Limit]:
    """The limits of one owner, in order."""
    return [_to_limit(entry) for entry in entries]


def _to_limit(entry: LimitEntry) -> Limit:
    limit = Limit(
        id=entry.effective_id,
        kind=_kind(entry),
        resource=LimitResource.Value(f"LIMIT_RESOURCE_{entry.resource.upper()}"),
        model=entry.model or "",
        shadow=entry.shadow,
        max_debt=entry.max_debt or 0,
        window=entry.window or "",
        time_zone=entry.time_zone or "",
    )
    if entry.rate is not None:
        limit.capacity = entry.burst or entry.rate.amount
        limit.refill = entry.rate.amount
        limit.period.FromMilliseconds(entry.rate.period_ms)
    else:
        limit.capacity = entry.limit or 0
    return limit


def _kind(entry: LimitEntry) -> "LimitKind.ValueType":
    if entry.window is not None:
        return LimitKind.LIMIT_KIND_WINDOW
    if entry.resource in LEASED:
        return LimitKind.LIMIT_KIND_LEASE
    if entry.resource == IN_FLIGHT:
        return LimitKind.LIMIT_KIND_HOLD
    if entry.resource in CONTEXT:
        return LimitKind.LIMIT_KIND_CONTEXT
    return LimitKind.LIMIT_KIND_BUCKET
