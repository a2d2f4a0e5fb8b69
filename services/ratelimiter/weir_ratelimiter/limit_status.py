"""Where limits stand, as messages."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.store.base import LimitState
from weir_ratelimiter.wire import write_time

_MOST_KNOWN = 100_000
_NONE: Mapping[str, int] = MappingProxyType({})


class StatusWriter:
    """Writes statuses, with numbers only of limits that are the caller's own.

    What never changes of a limit is made once and copied from then on: to make eight of them
    took a third of a Reserve.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Limit, LimitStatus, bool]] = {}

    def write(
        self,
        states: Sequence[LimitState],
        into: RepeatedCompositeFieldContainer[LimitStatus],
        now_ms: int,
        violated: Collection[str] = (),
        used_last_minute: Mapping[str, int] = _NONE,
    ) -> None:
        """Append one status a state.

        Args:
            states: of the limits.
            into: the field of the answer.
            now_ms: wall time, Unix milliseconds.
            violated: keys of limits that a hypothetical request does not fit in.
            used_last_minute: units by key of the limit, where known.
        """
        for state in states:
            key = state.limit.key
            status = self.fill(state, into.add(), now_ms)
            if key in violated:
                status.violated = True
            if key in used_last_minute:
                status.used_last_minute = used_last_minute[key]

    def fill(self, state: LimitState, status: LimitStatus, now_ms: int) -> LimitStatus:
        """Write one state into an empty status; return it."""
        limit = state.limit
        fixed, own = self._fixed(limit)
        status.CopyFrom(fixed)
        if own:
            _write_numbers(state, status, now_ms)
        if state.window:
            status.window = state.window
        return status

    def _fixed(self, limit: Limit) -> tuple[LimitStatus, bool]:
        """What never changes, and whether the numbers are the caller's own."""
        known = self._known.get(limit.key)
        if known is not None and known[0] is limit:
            return known[1], known[2]
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        own = limit.numbers_are_own
        fixed = LimitStatus(
            limit_id=limit.key,
            limit_type=limit.limit_type,
            resource=limit.resource_name,
            layer=limit.layer.label,
            limit=limit.capacity if own else None,
            shadow=limit.shadow,
        )
        self._known[limit.key] = limit, fixed, own
        return fixed, own


def _write_numbers(state: LimitState, status: LimitStatus, now_ms: int) -> None:
    if state.unseeded is None:
        status.remaining = state.remaining
        status.held = state.held
    write_time(now_ms + state.whole_in_ms, status.reset_time)
