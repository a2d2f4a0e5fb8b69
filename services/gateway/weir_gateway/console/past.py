"""Samples of the past, joined once for all who ask for the same."""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_core.clock import Clock

_WINDOWS_S = (60, 300, 900, 3_600, 21_600, 86_400)
_STEPS_S = (5, 10, 30, 60, 120, 300, 600, 3_600)
_MOST_POINTS = 720
_MOST_KEPT = 8

Read = Callable[[float, float], list[HistorySample]]


class Past:
    """Reads the history by a few lengths of window and step, and keeps what it read for a moment.

    To join a day of samples takes most of a second of the loop that serves requests; whoever may
    look may ask for it again and again.

    Args:
        read: samples of a window in steps, both in seconds.
        clock: time.
    """

    def __init__(self, read: Read, clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._kept: OrderedDict[tuple[int, int], tuple[int, list[HistorySample]]] = OrderedDict()

    def samples(self, window_s: int, step_s: int) -> tuple[int, Sequence[HistorySample]]:
        """The step that is told, and samples of about a window, the oldest first."""
        window = next(one for one in _WINDOWS_S if one >= window_s)
        least = max(step_s, window / _MOST_POINTS)
        step = next(one for one in _STEPS_S if one >= least)
        samples = self._fresh(window, step)
        return step, samples[-max(1, -(-window_s // step)) :]

    def _fresh(self, window: int, step: int) -> list[HistorySample]:
        now_us = self._clock.monotonic_us()
        known = self._kept.get((window, step))
        if known is not None and now_us - known[0] < step * 500_000:
            return known[1]
        samples = self._read(window, step)
        self._kept[window, step] = (now_us, samples)
        self._kept.move_to_end((window, step))
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return samples
