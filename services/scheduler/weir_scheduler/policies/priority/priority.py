"""Most urgent first, with aging and a cap on overtakings."""

from weir_scheduler.policies.ordering import OrderKey
from weir_scheduler.policies.overtaking import Overtaking
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.rules.ordering_parameters import OrderingParameters

_DEFAULTS = OrderingParameters()
_BOUNDS = Overtaking(promote_after_us=5_000_000, promote_every=4, max_overtaken=1_000)


class Priority:
    """Strictly by priority, by arrival within one; the aged overtake at a bounded rate.

    Not by a priority that grows with age: under a long backlog everything old would end up
    above everything urgent. See `Promotion` for the bounds.

    Args:
        parameters: `promote_after_us`, `promote_every` and `max_overtaken` replace defaults.
    """

    name = "priority"

    def __init__(self, parameters: OrderingParameters = _DEFAULTS) -> None:
        self.overtaking: Overtaking | None = _BOUNDS.adjusted(parameters)

    def key(self, entry: QueueEntry) -> OrderKey:
        """Priority downwards, then arrival."""
        return (-entry.priority, entry.arrival_us, entry.sequence)

    def band(self, entry: QueueEntry) -> int:
        """The priority: locality orders equals alone."""
        return -entry.priority
