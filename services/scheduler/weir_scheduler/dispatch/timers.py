"""Moments at which something is due, by kind and id."""

from enum import StrEnum
from typing import NamedTuple

from weir_scheduler.queues.keyed_heap import KeyedHeap


class TimerKind(StrEnum):
    """What is due."""

    WAIT_ENDS = "wait_ends"
    NO_WORKER = "no_worker"
    RETRY_EXCLUDED = "retry_excluded"
    ARRIVAL = "arrival"
    LINGER = "linger"
    WINDOW = "window"
    SILENCE = "silence"
    FORGET_WORKER = "forget_worker"
    BREAKER = "breaker"
    ANNOUNCE = "announce"
    CLAIM_ENDS = "claim_ends"
    SESSION_WAIT = "session_wait"
    GATEWAY_AWAY = "gateway_away"
    UNCLAIMED = "unclaimed"
    HOLD_ENDS = "hold_ends"


class Timer(NamedTuple):
    """One pending moment; setting the same kind and id again moves it."""

    kind: TimerKind
    id: object


class Timers:
    """Timers on the monotonic axis; each operation O(log n) amortised."""

    def __init__(self) -> None:
        self._heap: KeyedHeap[Timer] = KeyedHeap()

    def set(self, kind: TimerKind, id_: object, at_us: int) -> None:
        """Sets or moves a timer."""
        self._heap.put(Timer(kind, id_), at_us)

    def set_earlier(self, kind: TimerKind, id_: object, at_us: int) -> None:
        """Sets a timer unless it is due earlier anyway."""
        timer = Timer(kind, id_)
        if timer not in self._heap or self._heap.key_of(timer) > at_us:
            self._heap.put(timer, at_us)

    def cancel(self, kind: TimerKind, id_: object) -> None:
        """Removes a timer, if it is set."""
        self._heap.discard(Timer(kind, id_))

    def clear(self) -> None:
        """Nothing is due any more."""
        self._heap = KeyedHeap()

    def next_us(self) -> int | None:
        """When the earliest is due; None when none is set."""
        at_us: int | None = self._heap.peek_key()
        return at_us

    def pop_due(self, now_us: int) -> Timer | None:
        """Takes the earliest timer if it is due."""
        at_us = self.next_us()
        if at_us is None or at_us > now_us:
            return None
        timer = self._heap.peek()
        assert timer is not None
        self._heap.discard(timer)
        return timer
