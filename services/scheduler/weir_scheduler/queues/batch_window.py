"""The short wait in which the batch of an idle worker gathers.

A window closes at the first of: the time of the most impatient request in it, a full batch, or
more waiting cost than one batch may have. Then all that fits goes at once, and what did not fit
is what the next window consists of. On a continuous worker there is a window only while it is
idle; on a static one each batch has one, of one class.
"""

from dataclasses import dataclass

from weir_scheduler.queues.entry import LatencySla, QueueEntry, RequestClass
from weir_scheduler.queues.keyed_heap import KeyedHeap
from weir_scheduler.rules.rules import RequestRules, WorkerRules

OFFLINE_FACTOR = 10
"""Batch-class windows are longer by this where no other length is set: 5 ms is 50 ms offline."""

SHORTEST_US = {RequestClass.INTERACTIVE: 2_000, RequestClass.BATCH: 20_000}
"""Windows of the latency SLA low."""

_THROUGHPUT_TIMES = 2


def window_us(entry: QueueEntry, rules: RequestRules) -> int:
    """How long a request may be held back to gather a batch, microseconds.

    With the defaults of 5 ms and 50 ms: low 2, normal 5, throughput 10; ten times that for the
    class batch. A request that has been dispatched before is not held back again.
    """
    if entry.attempts:
        return 0
    wait_us = rules.batch_wait_us
    if entry.request_class is RequestClass.BATCH:
        offline_us = rules.offline_batch_wait_us
        wait_us = OFFLINE_FACTOR * wait_us if offline_us is None else offline_us
    if entry.latency_sla is LatencySla.LOW:
        return min(wait_us, SHORTEST_US[entry.request_class])
    if entry.latency_sla is LatencySla.THROUGHPUT:
        return _THROUGHPUT_TIMES * wait_us
    return wait_us


def is_offline(entry: QueueEntry) -> bool:
    """Whether larger batches are right for it: of the class batch, or for throughput."""
    return entry.request_class is RequestClass.BATCH or entry.latency_sla is LatencySla.THROUGHPUT


@dataclass(slots=True)
class Gathered:
    """What waits and may run: answers at once, and summed estimated cost in tokens."""

    places: int = 0
    cost: int = 0
    offline_cost: int = 0

    def add(self, entry: QueueEntry, sign: int) -> None:
        """Counts a request in, or out."""
        self.places += sign * entry.choices
        self.cost += sign * entry.estimated_cost
        if is_offline(entry):
            self.offline_cost += sign * entry.estimated_cost

    def include(self, other: "Gathered", sign: int = 1) -> None:
        """Counts what was gathered elsewhere in, or out."""
        self.places += sign * other.places
        self.cost += sign * other.cost
        self.offline_cost += sign * other.offline_cost

    def fills(self, rules: WorkerRules, max_requests: int) -> bool:
        """Whether a worker that has nothing would be full with it, or overfull."""
        largest = max(rules.max_batch_tokens, rules.offline_max_batch_tokens)
        return (
            self.places >= min(rules.max_batch_size, max_requests)
            or self.cost >= largest
            or self.cost - self.offline_cost >= rules.max_batch_tokens
        )


class BatchWindow:
    """When the gathering of the waiting requests of one class ends; O(log n) each."""

    __slots__ = ("_closes",)

    def __init__(self) -> None:
        self._closes: KeyedHeap[str] = KeyedHeap()

    def add(self, entry: QueueEntry, wait_us: int) -> None:
        """A request waits: the window closes no later than its own does."""
        self._closes.put(entry.request_id, entry.enqueued_us + wait_us)

    def wait_us(self, entry: QueueEntry) -> int:
        """The own wait of a request that is in it. Raises KeyError."""
        closes_us: int = self._closes.key_of(entry.request_id)
        return closes_us - entry.enqueued_us

    def discard(self, entry: QueueEntry) -> None:
        """It waits no more."""
        self._closes.discard(entry.request_id)

    def closes_us(self) -> int | None:
        """When the window closes, or has closed; None while nothing waits."""
        closes_us: int | None = self._closes.peek_key()
        return closes_us
