"""Isolation strength B with prefix locality: deficits of tokens, spent on cached prefixes first."""

from collections.abc import Callable, Iterable

from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.keyed_heap import KeyedHeap
from weir_scheduler.queues.rounds.locality.cached_pieces import CachedPieces, PrefixReader
from weir_scheduler.queues.rounds.locality.longest_prefix import LongestPrefix
from weir_scheduler.queues.rounds.tenant_queues import TenantQueues
from weir_scheduler.queues.rounds.weighted.service_counters import SCALE, ServiceCounters
from weir_scheduler.queues.tenant_queue import TenantQueue
from weir_scheduler.rules.queue_rules import QueueRules

_MOVED = 8
_VERIFIED = 8
_REBASE_FROM = 1 << 62


class LocalityRound:
    """Deficit longest prefix match (`TenantRound`), after DLPM.

    Source: Cao et al., "Locality-aware Fair Scheduling in LLM Serving" (2025). There each
    client has a deficit that is charged as in VTC; requests go in the order of their cached
    prefixes while the deficit of their client is positive; when no waiting client has one,
    every waiting client is granted a quantum. Here a deficit is written as
    `grant - counter`: counters as in the weighted round, and one `grant` for all, a multiple
    of the quantum. Granting is one addition, and the deficit of whoever has left is dropped by
    the lift that arrivals have.

    Every call is O(log n) amortised, and each `head` does a bounded number of steps: tenants
    become choosable a few at a time, those with the least service first.

    Args:
        policy: order within a tenant, where cached prefixes are equal.
        weight_of: a tenant's weight.
        rules: the quantum, and bounds on overtaking within a tenant.
        prefixes: what the pool's caches hold.
    """

    def __init__(
        self,
        policy: OrderingPolicy,
        weight_of: Callable[[str], int],
        rules: QueueRules,
        prefixes: PrefixReader,
    ) -> None:
        self._pieces = CachedPieces(prefixes)
        self._queues = TenantQueues(LongestPrefix(policy, self._pieces.of, rules.ordering))
        self._counters = ServiceCounters(weight_of)
        self._blocked: set[str] = set()
        self._quantum = max(1, rules.quantum_tokens) * SCALE
        self._grant = self._quantum
        self._granted: KeyedHeap[str] = KeyedHeap()
        """Waiting tenants that may be chosen, by prefix; all have a positive deficit."""
        self._spent: KeyedHeap[str] = KeyedHeap()
        """The other waiting tenants, by counter."""

    def __len__(self) -> int:
        return len(self._queues)

    def add(self, entry: QueueEntry) -> None:
        """Adds a request; a tenant that did not wait gets no more than one quantum."""
        self._queues.add(entry)
        self._pieces.add(entry)
        if self._waits(entry.tenant_id):
            self._refresh(entry.tenant_id)
        else:
            self._take_part(entry.tenant_id)

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out; the counter of its tenant stays."""
        self._queues.remove(entry)
        self._left(entry)

    def head(self, now_us: int) -> QueueEntry | None:
        """Of the tenants with a positive deficit, that with the longest cached prefix."""
        for entry in self._pieces.risen():
            self._moved(entry)
        self._admit()
        for _ in range(_VERIFIED):
            tenant_id = self._granted.peek()
            first = None if tenant_id is None else self._queues.of(tenant_id).first()
            if first is None or not self._pieces.verify(first):
                break
            self._moved(first)
        tenant_id = self._granted.peek()
        return None if tenant_id is None else self._queues.of(tenant_id).head(now_us)

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes the head out and counts the dispatch for the tenant's aging."""
        self._queues.dispatched(entry, now_us)
        self._left(entry)

    def charge(self, tenant_id: str, service: int) -> None:
        """Moves a tenant's counter; who has used up its grants is chosen no more."""
        counter = self._counters.charge(tenant_id, service, self._floor)
        if tenant_id in self._spent:
            self._spent.put(tenant_id, counter)
        elif tenant_id in self._granted:
            if counter < self._grant:
                self._refresh(tenant_id)
            else:
                self._granted.discard(tenant_id)
                self._spent.put(tenant_id, counter)
        if counter >= _REBASE_FROM:
            self._rebase()

    def block(self, tenant_id: str) -> None:
        """Takes a tenant out of the round, its requests stay."""
        self._blocked.add(tenant_id)
        self._granted.discard(tenant_id)
        self._spent.discard(tenant_id)

    def unblock(self, tenant_id: str) -> None:
        """Puts a tenant back, like one that arrives."""
        self._blocked.discard(tenant_id)
        if tenant_id in self._queues and not self._waits(tenant_id):
            self._take_part(tenant_id)

    def ready(self) -> bool:
        """Whether some waiting tenant is not blocked."""
        return len(self._granted) + len(self._spent) > 0

    def queue_of(self, tenant_id: str) -> TenantQueue | None:
        """The queue of a tenant; None when nothing of it waits."""
        return self._queues.get(tenant_id)

    def tenants(self) -> Iterable[str]:
        """Tenants of which something waits."""
        return self._queues.tenants()

    def counter(self, tenant_id: str) -> int:
        """The tenant's counter, in 1/`service_counters.SCALE` weighted tokens."""
        return self._counters.value(tenant_id)

    def deficit(self, tenant_id: str) -> int:
        """What is left of a tenant's grants, in 1/`service_counters.SCALE` weighted tokens."""
        return self._grant - self._counters.value(tenant_id)

    @property
    def _floor(self) -> int:
        """Who arrives has at most one quantum."""
        return self._grant - self._quantum

    def _waits(self, tenant_id: str) -> bool:
        return tenant_id in self._granted or tenant_id in self._spent

    def _take_part(self, tenant_id: str) -> None:
        if tenant_id not in self._blocked:
            self._spent.put(tenant_id, self._counters.arrive(tenant_id, self._floor))

    def _admit(self) -> None:
        """Grants what no waiting tenant has left, and lets a few more be chosen."""
        least: int | None = self._spent.peek_key()
        if not len(self._granted) and least is not None and least >= self._grant:
            # As many quanta at once as it takes: a huge request needs no thousand rounds.
            self._grant += ((least - self._grant) // self._quantum + 1) * self._quantum
        for _ in range(_MOVED):
            tenant_id = self._spent.peek()
            if tenant_id is None or self._spent.key_of(tenant_id) >= self._grant:
                return
            self._spent.discard(tenant_id)
            self._granted.put(tenant_id, self._place(tenant_id))

    def _place(self, tenant_id: str) -> tuple[int, int]:
        first = self._queues.of(tenant_id).first()
        pieces = 0 if first is None else self._pieces.of(first)
        return -pieces, self._counters.value(tenant_id)

    def _refresh(self, tenant_id: str) -> None:
        if tenant_id in self._granted:
            self._granted.put(tenant_id, self._place(tenant_id))

    def _moved(self, entry: QueueEntry) -> None:
        """A waiting request has more or fewer cached pieces than its place says."""
        self._queues.of(entry.tenant_id).reorder(entry.request_id)
        self._refresh(entry.tenant_id)

    def _left(self, entry: QueueEntry) -> None:
        tenant_id = entry.tenant_id
        self._pieces.remove(entry)
        if tenant_id in self._queues:
            self._refresh(tenant_id)
            return
        self._granted.discard(tenant_id)
        self._spent.discard(tenant_id)
        self._counters.prune(self._floor, self._waits)

    def _rebase(self) -> None:
        """Keeps the integers short; O(n log n), once in 2^62 / SCALE weighted tokens."""
        floor = self._floor
        if floor <= 0:
            return
        self._grant -= floor
        self._counters.rebase(floor)
        for heap in (self._granted, self._spent):
            for tenant_id in sorted(heap, key=heap.key_of):
                counter = self._counters.value(tenant_id)
                heap.put(tenant_id, counter if heap is self._spent else self._place(tenant_id))
