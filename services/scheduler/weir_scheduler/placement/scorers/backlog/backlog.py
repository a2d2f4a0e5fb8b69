"""What a worker has still to do before, or beside, the request."""

from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.queues.entry import QueueEntry


class Backlog:
    """Prompt tokens that wait to be computed, and tokens expected to be produced."""

    def cost(self, entry: QueueEntry, candidate: Candidate, context: PlacementContext) -> float:
        """Tokens."""
        return float(candidate.view.backlog)
