"""The short wait in which an idle worker's first batch gathers."""

from weir_scheduler.queues.entry import LatencySla, QueueEntry, RequestClass

OFFLINE_FACTOR = 10
"""Batch-class windows are longer by this: 5 ms interactive is 50 ms offline."""

_SLA_TENTHS = {LatencySla.LOW: 4, LatencySla.NORMAL: 10, LatencySla.THROUGHPUT: 20}


def window_us(entry: QueueEntry, batch_wait_us: int) -> int:
    """How long a request may be held back to gather a batch, microseconds.

    With the default of 5 ms: low 2, normal 5, throughput 10; ten times that for the class
    batch. A request that has been dispatched before is not held back again.
    """
    if entry.attempts:
        return 0
    factor = OFFLINE_FACTOR if entry.request_class is RequestClass.BATCH else 1
    return batch_wait_us * factor * _SLA_TENTHS[entry.latency_sla] // 10


class BatchWindow:
    """When the gathering of the waiting requests ends."""

    __slots__ = ("_closes_us",)

    def __init__(self) -> None:
        self._closes_us: int | None = None

    def note(self, entry: QueueEntry, wait_us: int) -> None:
        """A request begins to wait: the window closes no later than its own does."""
        closes_us = entry.enqueued_us + wait_us
        if self._closes_us is None or closes_us < self._closes_us:
            self._closes_us = closes_us

    def open_until(self, now_us: int) -> int | None:
        """When the window closes; None when it has."""
        if self._closes_us is None or self._closes_us <= now_us:
            return None
        return self._closes_us

    def reset(self) -> None:
        """What waited has been sent; the next request opens a new window."""
        self._closes_us = None
