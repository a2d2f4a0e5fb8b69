"""Most urgent first, with aging."""

from weir_scheduler.policies.ordering import OrderKey
from weir_scheduler.queues.entry import QueueEntry


class Priority:
    """Strictly by priority, by arrival within one; the aged overtake at a bounded rate.

    Not by a priority that grows with age: under a long backlog everything old would end up
    above everything urgent. See `Promotion` for both bounds.
    """

    name = "priority"

    def __init__(self, promote_after_us: int = 5_000_000) -> None:
        self.promote_after_us: int | None = promote_after_us

    def key(self, entry: QueueEntry) -> OrderKey:
        """Priority downwards, then arrival."""
        return (-entry.priority, entry.arrival_us, entry.sequence)
