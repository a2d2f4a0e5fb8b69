"""Every Retry-After is a promise: whoever obeys it finds a place."""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass

SHORTEST_S = 1.0
LONGEST_S = 300.0
"""No Retry-After is below the one or above the other, seconds."""

_SECOND_US = 1_000_000
_SHORTEST_GRACE_US = 2 * _SECOND_US
_EARLY_US = 50_000
"""Rounding on the way, and clocks that differ, may bring somebody that much too early."""

_CAUTION = 1.15
"""Rates are known from the past alone: a place is told of that much later than it should be free.
What is free until then goes to others."""

_MOST = 1_000
_SWEEP_FROM = 1_024


@dataclass(slots=True)
class Promise:
    """One refused request was told to come at `due_us`; its place is kept until `until_us`.

    Attributes:
        print: what the same request looks like when it comes again.
        due_us, until_us: monotonic.
        open: it has not come yet.
    """

    print: Hashable
    due_us: int
    until_us: int
    open: bool = True

    def is_due(self, now_us: int) -> bool:
        """Whether it was told to come by now."""
        return self.due_us <= now_us + _EARLY_US


class PromiseBook:
    """The promises of one limit, in the order of their moments."""

    def __init__(self) -> None:
        self.outstanding = 0
        self._ordered: deque[Promise] = deque()
        self._by_print: dict[Hashable, deque[Promise]] = {}

    @property
    def last_due_us(self) -> int:
        """The latest moment that was promised; 0 for none."""
        return self._ordered[-1].due_us if self._ordered else 0

    def add(self, promise: Promise) -> None:
        """Adds one, not earlier than the last."""
        self._ordered.append(promise)
        self._by_print.setdefault(promise.print, deque()).append(promise)
        self.outstanding += 1

    def find(self, print_: Hashable) -> Promise | None:
        """The first promise to requests that look so."""
        mine = self._by_print.get(print_)
        return mine[0] if mine else None

    def close(self, promise: Promise) -> None:
        """It has come, or will not."""
        promise.open = False
        self.outstanding -= 1
        mine = self._by_print[promise.print]
        mine.remove(promise)
        if not mine:
            del self._by_print[promise.print]

    def lapse(self, now_us: int) -> None:
        """Closes what nobody came for."""
        ordered = self._ordered
        while ordered and (not ordered[0].open or ordered[0].until_us < now_us):
            promise = ordered.popleft()
            if promise.open:
                self.close(promise)


class Promises:
    """Places that refused requests were told of, by the limit that had refused them.

    Were they all told the same moment, they would all come back at it and find one place.
    Each is told a moment of its own, behind all that were told before; who comes without
    having been told finds the told ones counted before it; and who comes too early is told
    the same moment again.

    Bounded: what nobody came for lapses, and no limit holds more than 1,000.
    """

    def __init__(self) -> None:
        self.kept = 0
        """Let in when they came as they had been told to."""
        self.broken = 0
        """Refused again when they came so."""
        self._books: dict[Hashable, PromiseBook] = {}
        self._sweep_at = _SWEEP_FROM

    def outstanding(self, key: Hashable, now_us: int) -> int:
        """Promises that somebody may still come for."""
        book = self._current(key, now_us)
        return book.outstanding if book is not None else 0

    def find(self, key: Hashable, print_: Hashable, now_us: int) -> Promise | None:
        """What a request that looks so was told, if it was."""
        book = self._current(key, now_us)
        return book.find(print_) if book is not None else None

    def settle(self, key: Hashable, promise: Promise, now_us: int, *, kept: bool) -> None:
        """Whom a promise was made to is here, and is let in or not."""
        self._books[key].close(promise)
        if promise.is_due(now_us):
            self.kept += kept
            self.broken += not kept

    def book(
        self, key: Hashable, print_: Hashable, now_us: int, wait_s: float, each_s: float
    ) -> float:
        """Promises the next free place.

        Args:
            key: of the limit.
            print_: what the request will look like when it comes again.
            now_us: monotonic.
            wait_s: until there will be room, seconds, everybody counted that was told before.
            each_s: between two places, seconds.

        Returns:
            Seconds from now, 1 to 300. At 300 nothing is promised: it is too far away to tell.
        """
        due_us = now_us + _micros(max(SHORTEST_S, wait_s * _CAUTION))
        book = self._current(key, now_us)
        if book is not None:
            due_us = max(due_us, book.last_due_us + _micros(each_s / 2))
        told = book.outstanding if book is not None else 0
        if due_us - now_us >= LONGEST_S * _SECOND_US or told >= _MOST:
            return LONGEST_S
        if book is None:
            book = self._books[key] = PromiseBook()
        grace_us = max(_SHORTEST_GRACE_US, (due_us - now_us) // 4)
        book.add(Promise(print_, due_us, due_us + grace_us))
        self._sweep(now_us)
        return (due_us - now_us) / _SECOND_US

    def _current(self, key: Hashable, now_us: int) -> PromiseBook | None:
        book = self._books.get(key)
        if book is None:
            return None
        book.lapse(now_us)
        if book.outstanding:
            return book
        del self._books[key]
        return None

    def _sweep(self, now_us: int) -> None:
        """Drops the limits that nobody has come to since their promises lapsed."""
        if len(self._books) < self._sweep_at:
            return
        for key in list(self._books):
            self._current(key, now_us)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(self._books))


def _micros(seconds: float) -> int:
    return round(min(seconds, LONGEST_S) * _SECOND_US)
