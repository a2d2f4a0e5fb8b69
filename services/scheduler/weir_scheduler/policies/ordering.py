"""What a queue policy is."""

from typing import Protocol

from weir_scheduler.policies.overtaking import Overtaking
from weir_scheduler.queues.entry import QueueEntry

OrderKey = tuple[int, ...]


class OrderingPolicy(Protocol):
    """Order of the waiting requests of one queue: a pure function of what is known of each.

    The key is fixed while a request waits, so that a heap can hold it: a policy whose order
    changes with age uses a key that is linear in the arrival time, and `overtaking`.
    """

    @property
    def name(self) -> str:
        """Its name in the configuration."""

    @property
    def overtaking(self) -> Overtaking | None:
        """Bounds on overtaking; None for a policy in order of arrival."""

    def key(self, entry: QueueEntry) -> OrderKey:
        """Smallest goes first; unique, ending in `entry.sequence`."""

    def band(self, entry: QueueEntry) -> int:
        """The part of the order that prefix locality may not change; smallest goes first."""
