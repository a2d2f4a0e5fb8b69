"""What a queue policy is."""

from typing import Protocol

from weir_scheduler.queues.entry import QueueEntry

OrderKey = tuple[int, ...]


class OrderingPolicy(Protocol):
    """Order of the waiting requests of one queue.

    The key is fixed while a request waits, so that a heap can hold it: policies whose order
    changes with age use a key that is linear in the arrival time, or `promote_after_us`.
    """

    @property
    def name(self) -> str:
        """Its name in the configuration."""

    @property
    def promote_after_us(self) -> int | None:
        """Age from which a request counts as aged (see `Promotion`); None: never."""

    def key(self, entry: QueueEntry) -> OrderKey:
        """Smallest goes first; unique, ending in `entry.sequence`."""
