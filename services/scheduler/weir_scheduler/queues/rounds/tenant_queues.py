"""A queue for each tenant of which something waits."""

from collections.abc import Iterable

from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.policies.promotion import Promotion
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.tenant_queue import TenantQueue


class TenantQueues:
    """Queues by tenant, each with its own aging; made and dropped as requests come and go.

    Args:
        policy: order within a tenant.
    """

    def __init__(self, policy: OrderingPolicy) -> None:
        self._policy = policy
        self._queues: dict[str, TenantQueue] = {}
        self._promotions: dict[str, Promotion] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, tenant_id: str) -> bool:
        return tenant_id in self._queues

    def get(self, tenant_id: str) -> TenantQueue | None:
        """The queue of a tenant; None when nothing of it waits."""
        return self._queues.get(tenant_id)

    def of(self, tenant_id: str) -> TenantQueue:
        """The queue of a tenant. Raises KeyError when nothing of it waits."""
        return self._queues[tenant_id]

    def tenants(self) -> Iterable[str]:
        """Tenants of which something waits."""
        return self._queues.keys()

    def add(self, entry: QueueEntry) -> None:
        """Adds a request. Raises ValueError when it waits already."""
        queue = self._queues.get(entry.tenant_id)
        if queue is None:
            queue = self._opened(entry.tenant_id)
        queue.add(entry)
        self._length += 1

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out. Raises KeyError when it does not wait."""
        queue = self._queues[entry.tenant_id]
        queue.remove(entry.request_id)
        self._length -= 1
        if not queue:
            del self._queues[entry.tenant_id]
            del self._promotions[entry.tenant_id]

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes a request out and counts the dispatch for the tenant's aging."""
        queue = self._queues[entry.tenant_id]
        oldest = queue.oldest()
        is_oldest = oldest is not None and oldest.request_id == entry.request_id
        self._promotions[entry.tenant_id].dispatched(oldest=is_oldest)
        self.remove(entry)

    def _opened(self, tenant_id: str) -> TenantQueue:
        promotion = Promotion(self._policy.overtaking)
        self._promotions[tenant_id] = promotion
        queue = self._queues[tenant_id] = TenantQueue(self._policy, promotion)
        return queue
