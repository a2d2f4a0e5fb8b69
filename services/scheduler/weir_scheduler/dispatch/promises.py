"""Every Retry-After is a promise: whoever obeys it finds a place."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

from weir_scheduler.queues.drain_rate import LONGEST_S, SHORTEST_S

_SECOND_US = 1_000_000
_SHORTEST_GRACE_US = 2 * _SECOND_US
_MOST = 1_000
_SWEEP_FROM = 1_024


@dataclass(frozen=True, slots=True)
class Promise:
    """From `due_us` until `until_us` (monotonic) whoever comes is let in."""

    due_us: int
    until_us: int


class Promises:
    """Places that refused clients were told of, by whatever limit had refused them.

    Were they all told the same moment, they would all come back at it and find one place.
    Each is told a moment of its own, as far from the last as a request takes to leave the
    queue; and who comes without having been told finds the told ones counted before it.

    Bounded: what nobody came for lapses, and no key holds more than 1,000.
    """

    def __init__(self) -> None:
        self.kept = 0
        """Let in because they had been told."""
        self.broken = 0
        """Came when they had been told to, and were refused again."""
        self._by_key: dict[Hashable, deque[Promise]] = {}
        self._sweep_at = _SWEEP_FROM

    def outstanding(self, key: Hashable, now_us: int) -> int:
        """Promises that somebody may still come for."""
        promises = self._by_key.get(key)
        if promises is None:
            return 0
        while promises and promises[0].until_us < now_us:
            promises.popleft()
        if not promises:
            del self._by_key[key]
        return len(promises)

    def redeem(self, key: Hashable, now_us: int, *, room: bool) -> bool:
        """Whether somebody who comes now was told to, and there is room as promised."""
        if not self.outstanding(key, now_us) or self._by_key[key][0].due_us > now_us:
            return False
        self._by_key[key].popleft()
        self.kept += room
        self.broken += not room
        return room

    def book(self, key: Hashable, now_us: int, wait_s: float, each_s: float) -> float:
        """Promises the next free place.

        Args:
            key: of the limit.
            now_us: monotonic.
            wait_s: until there will be room, seconds.
            each_s: between two places, seconds.

        Returns:
            Seconds from now, 1 to 300. At 300 nothing is promised: it is too far away to tell.
        """
        due_us = now_us + _micros(max(SHORTEST_S, wait_s))
        told = self.outstanding(key, now_us)
        if told:
            due_us = max(due_us, self._by_key[key][-1].due_us + _micros(each_s))
        if due_us - now_us >= LONGEST_S * _SECOND_US or told >= _MOST:
            return LONGEST_S
        grace_us = max(_SHORTEST_GRACE_US, (due_us - now_us) // 4)
        self._by_key.setdefault(key, deque()).append(Promise(due_us, due_us + grace_us))
        self._sweep(now_us)
        return (due_us - now_us) / _SECOND_US

    def _sweep(self, now_us: int) -> None:
        """Drops the keys that nobody has asked about since theirs lapsed."""
        if len(self._by_key) < self._sweep_at:
            return
        for key in list(self._by_key):
            self.outstanding(key, now_us)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(self._by_key))


def _micros(seconds: float) -> int:
    return round(min(seconds, LONGEST_S) * _SECOND_US)
