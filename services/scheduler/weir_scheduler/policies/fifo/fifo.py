"""First come, first served."""

from weir_scheduler.policies.ordering import OrderKey
from weir_scheduler.policies.overtaking import Overtaking
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.rules.ordering_parameters import OrderingParameters

_DEFAULTS = OrderingParameters()


class Fifo:
    """By first arrival at a gateway; a requeued request takes its old place.

    Args:
        parameters: none of them matters here.
    """

    name = "fifo"
    overtaking: Overtaking | None = None

    def __init__(self, parameters: OrderingParameters = _DEFAULTS) -> None:
        del parameters

    def key(self, entry: QueueEntry) -> OrderKey:
        """Arrival."""
        return (entry.arrival_us, entry.sequence)

    def band(self, entry: QueueEntry) -> int:
        """All alike."""
        return 0
