"""Charts of the past, drawn up once for all who ask for the same."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from weir_core.clock import Clock

_WINDOWS_S = (60, 300, 900, 3_600, 21_600, 86_400)
_STEPS_S = (5, 10, 30, 60, 120, 300, 600, 3_600)
_MOST_POINTS = 720
_MOST_KEPT = 64

_Key = tuple[str, int, int]
_Series = dict[str, Any]

Read = Callable[[float, float, str], Awaitable[_Series]]
"""The series of a window in steps, both in seconds, of a tenant or of all; see `series_json`."""


class Past:
    """Reads the history by a few lengths of window and step, and keeps what it read for a moment.

    To join a day of samples takes a second; whoever may look may ask for it again and again.

    Args:
        read: see there.
        clock: time.
    """

    def __init__(self, read: Read, clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._kept: OrderedDict[_Key, tuple[int, _Series]] = OrderedDict()

    async def series(self, tenant_id: str, window_s: int, step_s: int) -> _Series:
        """The step that is told, and about a window of the past, the oldest first.

        Raises:
            WeirError: RATE_LIMIT_EXCEEDED: the tenant waits for several already.
        """
        window = next(one for one in _WINDOWS_S if one >= window_s)
        least = max(step_s, window / _MOST_POINTS)
        step = next(one for one in _STEPS_S if one >= least)
        whole = await self._fresh((tenant_id, window, step))
        newest = slice(-max(1, -(-window_s // step)), None)
        return {
            "step_s": step,
            "times": whole["times"][newest],
            "series": {name: values[newest] for name, values in whole["series"].items()},
        }

    async def _fresh(self, key: _Key) -> _Series:
        tenant_id, window, step = key
        now_us = self._clock.monotonic_us()
        known = self._kept.get(key)
        if known is not None and now_us - known[0] < step * 500_000:
            return known[1]
        series = await self._read(window, step, tenant_id)
        self._kept[key] = (now_us, series)
        self._kept.move_to_end(key)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return series
