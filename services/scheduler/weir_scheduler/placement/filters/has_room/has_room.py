"""Keeps out workers without room."""

from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.fit import blocked_by
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView


class HasRoom:
    """Places, summed estimated cost and KV blocks, the scheduler's own increments included."""

    def refuses(
        self, entry: QueueEntry, view: WorkerView, context: PlacementContext
    ) -> WaitReason | None:
        """WORKER_FULL, BATCH_FULL or KV_FULL."""
        return blocked_by(entry, view)
