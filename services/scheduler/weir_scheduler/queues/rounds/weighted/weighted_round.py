"""Isolation strength B: the tenant with the least weighted service goes first."""

from collections.abc import Callable, Iterable

from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.keyed_heap import KeyedHeap
from weir_scheduler.queues.rounds.tenant_queues import TenantQueues
from weir_scheduler.queues.rounds.weighted.service_counters import ServiceCounters
from weir_scheduler.queues.tenant_queue import TenantQueue

_REBASE_FROM = 1 << 62


class WeightedRound:
    """A queue per tenant under weighted virtual token counters (`TenantRound`).

    A tenant that is blocked by a limit of its own counts as not waiting: its counter neither
    holds the others' lift down nor earns credit meanwhile.

    Args:
        policy: order within a tenant.
        weight_of: a tenant's weight.
    """

    def __init__(self, policy: OrderingPolicy, weight_of: Callable[[str], int]) -> None:
        self._queues = TenantQueues(policy)
        self._counters = ServiceCounters(weight_of)
        self._blocked: set[str] = set()
        self._turn: KeyedHeap[str] = KeyedHeap()

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, entry: QueueEntry) -> None:
        """Adds a request; a tenant that did not wait is lifted."""
        self._queues.add(entry)
        self._take_part(entry.tenant_id)

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out; the counter of its tenant stays."""
        self._queues.remove(entry)
        self._left(entry.tenant_id)

    def head(self, now_us: int) -> QueueEntry | None:
        """The head of the tenant with the smallest counter."""
        tenant_id = self._turn.peek()
        return None if tenant_id is None else self._queues.of(tenant_id).head(now_us)

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes the head out and counts the dispatch for the tenant's aging."""
        self._queues.dispatched(entry, now_us)
        self._left(entry.tenant_id)

    def charge(self, tenant_id: str, service: int) -> None:
        """Moves a tenant's counter."""
        counter = self._counters.charge(tenant_id, service, self._turn.peek_key())
        if tenant_id in self._turn:
            self._turn.put(tenant_id, counter)
        if counter >= _REBASE_FROM:
            self._rebase()

    def block(self, tenant_id: str) -> None:
        """Takes a tenant out of the round, its requests stay."""
        self._blocked.add(tenant_id)
        if self._turn.discard(tenant_id):
            self._counters.leave(tenant_id)

    def unblock(self, tenant_id: str) -> None:
        """Puts a tenant back, lifted like one that arrives."""
        self._blocked.discard(tenant_id)
        if tenant_id in self._queues:
            self._take_part(tenant_id)

    def ready(self) -> bool:
        """Whether some waiting tenant is not blocked."""
        return len(self._turn) > 0

    def queue_of(self, tenant_id: str) -> TenantQueue | None:
        """The queue of a tenant; None when nothing of it waits."""
        return self._queues.get(tenant_id)

    def tenants(self) -> Iterable[str]:
        """Tenants of which something waits."""
        return self._queues.tenants()

    def counter(self, tenant_id: str) -> int:
        """The tenant's counter, in 1/`service_counters.SCALE` weighted tokens."""
        return self._counters.value(tenant_id)

    def _take_part(self, tenant_id: str) -> None:
        if tenant_id in self._turn or tenant_id in self._blocked:
            return
        self._turn.put(tenant_id, self._counters.arrive(tenant_id, self._turn.peek_key()))

    def _left(self, tenant_id: str) -> None:
        if tenant_id in self._queues:
            return
        if self._turn.discard(tenant_id):
            self._counters.leave(tenant_id)
        self._counters.prune(self._turn.peek_key(), self._turn.__contains__)

    def _rebase(self) -> None:
        """Keeps the integers short: all counters go down by the smallest that waits.

        O(n log n), once in 2^62 / SCALE weighted tokens.
        """
        least: int | None = self._turn.peek_key()
        if least is None or least <= 0:
            return
        self._counters.rebase(least)
        for tenant_id in sorted(self._turn, key=self._turn.key_of):
            self._turn.put(tenant_id, self._counters.value(tenant_id))
