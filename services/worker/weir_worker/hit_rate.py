"""Hit rate of a cache over the last minutes, from counters that only grow."""

from collections import deque

from weir_core.clock import Clock

WINDOW_S = 300.0


class HitRate:
    """Hits by queries between now and `window_s` ago.

    Args:
        clock: its monotonic reading places the samples.
        window_s: seconds; a reading is taken each time that `read` is called.
    """

    def __init__(self, clock: Clock, window_s: float = WINDOW_S) -> None:
        self._clock = clock
        self._window_us = round(window_s * 1e6)
        self._samples = deque([(clock.monotonic_us(), 0, 0)])

    def read(self, queries: int, hits: int) -> float:
        """0 to 1 from the counters of now; 0 when nothing was asked in the window."""
        now_us = self._clock.monotonic_us()
        self._samples.append((now_us, queries, hits))
        while len(self._samples) > 1 and self._samples[1][0] <= now_us - self._window_us:
            self._samples.popleft()
        _, old_queries, old_hits = self._samples[0]
        asked = queries - old_queries
        return (hits - old_hits) / asked if asked > 0 else 0.0
