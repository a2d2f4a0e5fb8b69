"""Events of jobs."""

from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.kind import FOR_CALLERS
from weir_gateway.webhooks.outbox import Outbox

_TYPES = {
    JobState.SUCCEEDED: "job.completed",
    JobState.FAILED: "job.failed",
    JobState.CANCELLED: "job.cancelled",
    JobState.EXPIRED: "job.expired",
}


class JobEvents:
    """Queues an event for each job that ends, but for lines of batches.

    Args:
        outbox: see there.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def on_end(self, connection: AsyncConnection, job: Job) -> None:
        """A job has ended; see `JobEnds`."""
        if job.batch_id or job.kind not in FOR_CALLERS:
            return
        data = {
            "id": job.id,
            "object": "job",
            "status": job.state.value,
            "model": job.model,
            "request_id": job.request_id,
            "error_reason": job.error_reason or None,
        }
        await self._outbox.enqueue(
            connection, job.tenant_id, _TYPES[job.state], data, job.webhook_url
        )
