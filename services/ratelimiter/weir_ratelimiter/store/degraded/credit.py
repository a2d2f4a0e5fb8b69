"""What may be spent of a budget while nobody can say how far it was used."""

from collections.abc import Iterable

import msgspec

from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.store.base import LimitState

_MOST_WINDOWS = 100_000


class _Known(msgspec.Struct, frozen=True, gc=False):
    window: str
    remaining: int


class Credit:
    """Remembers what was last seen free in each window, and lends a bounded part of it.

    Args:
        percent: of a window's capacity, lent at most by each ratelimiter.
    """

    def __init__(self, percent: float) -> None:
        self._per_million = round(percent * 10_000)
        self._known: dict[str, _Known] = {}

    def note(self, states: Iterable[LimitState]) -> None:
        """Take note of what the shared store said."""
        for state in states:
            if state.limit.kind is Kind.WINDOW and state.unseeded is None:
                if len(self._known) >= _MOST_WINDOWS:
                    self._known.clear()
                self._known[state.limit.key] = _Known(state.window, state.remaining)

    def lent(self, limit: Limit, replicas: int, now_ms: int) -> Limit:
        """The window as one of `replicas` ratelimiters may use it on its own.

        Nothing is lent of a window that was never seen. One that has begun since is unused.
        """
        bound = limit.capacity * self._per_million // 1_000_000
        capacity = min(bound, self._free(limit, now_ms) // replicas)
        shape = msgspec.structs.replace(limit.shape, capacity=capacity)
        return msgspec.structs.replace(limit, shape=shape)

    def _free(self, limit: Limit, now_ms: int) -> int:
        known = self._known.get(limit.key)
        if known is None or limit.calendar is None:
            return 0
        if known.window != limit.calendar.window(now_ms).id:
            return limit.capacity
        return max(0, min(known.remaining, limit.capacity))
