"""Where a limit stands, out of the levels of any store."""

from weir_ratelimiter.domain.admission import HOLD_WAIT_MS
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.change import Count
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.store.base import LimitState


def limit_state(limit: Limit, levels: Levels, held: int, now_ms: int) -> LimitState:
    """The state of a counted limit at `now_ms`; `held` are the units held in its bucket."""
    if limit.kind is Kind.LEASE:
        taken = levels.leases_held(limit.key, now_ms)
        wait_ms = levels.lease_wait_ms(limit.key, now_ms) if taken else 0
        return LimitState(limit, limit.capacity - taken, taken, wait_ms)
    if limit.kind is Kind.HOLD:
        units = levels.units_held(limit.key)
        return LimitState(limit, limit.capacity - units, units, HOLD_WAIT_MS if units else 0)
    if limit.calendar is not None:
        return _window_state(limit, levels, limit.calendar.window(now_ms), now_ms)
    bucket = levels.bucket(limit, now_ms)
    whole_ms = bucket.shape.wait_ms(bucket.state, limit.capacity) or 0
    return LimitState(limit, bucket.level, held, whole_ms)


def _window_state(limit: Limit, levels: Levels, window: Window, now_ms: int) -> LimitState:
    known = levels.window(limit.key, window.id)
    count = known or Count()
    return LimitState(
        limit,
        remaining=limit.capacity - count.used - count.held,
        held=count.held,
        whole_in_ms=window.end_ms - now_ms,
        window=window.id,
        unseeded=window if known is None else None,
    )
