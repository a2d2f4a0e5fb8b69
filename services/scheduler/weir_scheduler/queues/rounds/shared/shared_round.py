"""Isolation strength A: one queue across tenants, in the order of the policy alone."""

from collections.abc import Iterable

from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.policies.promotion import Promotion
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.keyed_heap import KeyedHeap
from weir_scheduler.queues.tenant_queue import TenantQueue


class SharedRound:
    """One order over the requests of all tenants (`TenantRound`).

    Kept as a queue per tenant, merged by their first (and oldest) requests, so that a tenant
    at its cap is passed over in O(log n) without holding up the others.

    Args:
        policy: the order across tenants.
    """

    def __init__(self, policy: OrderingPolicy) -> None:
        self._policy = policy
        self._promotion = Promotion(policy.overtaking)
        self._queues: dict[str, TenantQueue] = {}
        self._blocked: set[str] = set()
        self._by_first: KeyedHeap[str] = KeyedHeap()
        self._by_oldest: KeyedHeap[str] = KeyedHeap()
        self._by_mark: KeyedHeap[str] = KeyedHeap()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, entry: QueueEntry) -> None:
        """Adds a request."""
        queue = self._queues.get(entry.tenant_id)
        if queue is None:
            queue = TenantQueue(self._policy, self._promotion)
            self._queues[entry.tenant_id] = queue
        queue.add(entry)
        self._length += 1
        self._refresh(entry.tenant_id)

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out."""
        queue = self._queues[entry.tenant_id]
        queue.remove(entry.request_id)
        self._length -= 1
        if not queue:
            del self._queues[entry.tenant_id]
        self._refresh(entry.tenant_id)

    def head(self, now_us: int) -> QueueEntry | None:
        """The policy's first of all, or the oldest of all when its turn has come."""
        oldest = self._oldest()
        mark = self._by_mark.peek_key()
        if oldest is not None and self._promotion.due(oldest.arrival_us, mark, now_us):
            return oldest
        tenant_id = self._by_first.peek()
        return None if tenant_id is None else self._queues[tenant_id].first()

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes the head out and counts the dispatch for aging."""
        oldest = self._oldest()
        is_oldest = oldest is not None and oldest.request_id == entry.request_id
        self._promotion.dispatched(oldest=is_oldest)
        self.remove(entry)

    def charge(self, tenant_id: str, service: int) -> None:
        """Nothing: turns do not depend on service here."""

    def block(self, tenant_id: str) -> None:
        """Passes over a tenant."""
        self._blocked.add(tenant_id)
        self._refresh(tenant_id)

    def unblock(self, tenant_id: str) -> None:
        """Lets a tenant take part again."""
        self._blocked.discard(tenant_id)
        self._refresh(tenant_id)

    def ready(self) -> bool:
        """Whether some waiting tenant is not blocked."""
        return len(self._by_first) > 0

    def queue_of(self, tenant_id: str) -> TenantQueue | None:
        """The requests of a tenant; None when nothing of it waits."""
        return self._queues.get(tenant_id)

    def counter(self, tenant_id: str) -> int:
        """Turns are not by service."""
        return 0

    def tenants(self) -> Iterable[str]:
        """Tenants of which something waits."""
        return self._queues.keys()

    def _oldest(self) -> QueueEntry | None:
        tenant_id = self._by_oldest.peek()
        return None if tenant_id is None else self._queues[tenant_id].oldest()

    def _refresh(self, tenant_id: str) -> None:
        queue = self._queues.get(tenant_id)
        if queue is None or tenant_id in self._blocked:
            self._by_first.discard(tenant_id)
            self._by_oldest.discard(tenant_id)
            self._by_mark.discard(tenant_id)
            return
        self._by_first.put(tenant_id, queue.first_key())
        oldest_key = queue.oldest_key()
        if oldest_key is not None:
            self._by_oldest.put(tenant_id, oldest_key)
            self._by_mark.put(tenant_id, queue.earliest_mark())
