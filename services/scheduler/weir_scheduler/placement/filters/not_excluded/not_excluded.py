"""Keeps out workers that have failed the request."""

from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView


class NotExcluded:
    """Workers on which an attempt of the request failed."""

    def refuses(
        self, entry: QueueEntry, view: WorkerView, context: PlacementContext
    ) -> WaitReason | None:
        """NO_WORKER for a worker that the request has tried."""
        return WaitReason.NO_WORKER if view.info.worker_id in entry.excluded else None
