"""Keeps out workers that take no new work."""

from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView


class TakesWork:
    """Lost, draining, silent and frozen workers, and those whose breaker is open."""

    def refuses(
        self, entry: QueueEntry, view: WorkerView, context: PlacementContext
    ) -> WaitReason | None:
        """NO_WORKER for a worker that takes no work."""
        return None if view.takes_work else WaitReason.NO_WORKER
