"""Events of batches."""

from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.batches.batch import Batch
from weir_gateway.webhooks.outbox import Outbox


class BatchNotices:
    """Queues an event for each batch that ends: `batch.completed` and the like.

    Args:
        outbox: see there.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def on_end(self, connection: AsyncConnection, batch: Batch) -> None:
        """A batch has ended in the transaction of `connection`."""
        data = {"id": batch.id, "object": "batch", "status": batch.state.value}
        await self._outbox.enqueue(
            connection, batch.tenant_id, f"batch.{batch.state.value}", data, batch.webhook_url
        )
