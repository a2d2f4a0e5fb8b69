"""First come, first served."""

from weir_scheduler.policies.ordering import OrderKey
from weir_scheduler.queues.entry import QueueEntry


class Fifo:
    """By first arrival at a gateway; a requeued request takes its old place."""

    name = "fifo"
    promote_after_us: int | None = None

    def key(self, entry: QueueEntry) -> OrderKey:
        """Arrival."""
        return (entry.arrival_us, entry.sequence)
