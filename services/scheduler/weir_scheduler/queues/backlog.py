"""What waits in one group of a lane: counted, so that nothing has to be looked through."""

from collections.abc import Iterable
from dataclasses import dataclass

from weir_scheduler.queues.batch_window import Gathered
from weir_scheduler.queues.drain_rate import DrainRate
from weir_scheduler.queues.entry import QueueEntry


@dataclass(slots=True)
class Amount:
    """Requests and their summed estimated cost, tokens."""

    requests: int = 0
    cost: int = 0

    def add(self, entry: QueueEntry, sign: int) -> None:
        """Counts a request in, or out."""
        self.requests += sign
        self.cost += sign * entry.estimated_cost


class Ranked:
    """Amounts by rank; smaller ranks go first (see `rank_of`)."""

    __slots__ = ("_by_rank", "whole")

    def __init__(self) -> None:
        self.whole = Amount()
        self._by_rank: dict[int, Amount] = {}

    def add(self, entry: QueueEntry, rank: int, sign: int) -> None:
        """Counts a request in, or out."""
        self.whole.add(entry, sign)
        amount = self._by_rank.get(rank)
        if amount is None:
            amount = self._by_rank[rank] = Amount()
        amount.add(entry, sign)
        if not amount.requests:
            del self._by_rank[rank]

    def ahead_of(self, rank: int) -> Amount:
        """What goes before a request that comes now with that rank; O(ranks)."""
        before = [amount for other, amount in self._by_rank.items() if other <= rank]
        return Amount(
            sum(amount.requests for amount in before), sum(amount.cost for amount in before)
        )


class TenantBacklog(Ranked):
    """What waits of one tenant.

    Args:
        weight: its share, as it was when its first request came.
        busy_us: that moment on the lane's busy axis.

    Attributes:
        drain: its dispatches while the lane was full, on that axis.
    """

    __slots__ = ("drain", "gathered", "weight")

    def __init__(self, weight: int, busy_us: int) -> None:
        super().__init__()
        self.weight = weight
        self.gathered = Gathered()
        self.drain = DrainRate(began_us=busy_us)


class Backlog:
    """Counts of one group; every operation O(1), where it does not say otherwise.

    A tenant at a cap of its own competes with nobody: it counts in none of the `ready` numbers.
    """

    def __init__(self) -> None:
        self.ready = Gathered()
        self.ready_weight = 0
        """Summed weights of the tenants that compete."""
        self.everyone = Ranked()
        """Tenants at a cap included."""
        self._tenants: dict[str, TenantBacklog] = {}
        self._blocked: set[str] = set()

    def __len__(self) -> int:
        """Tenants of which something waits."""
        return len(self._tenants)

    def tenants(self) -> Iterable[tuple[str, TenantBacklog]]:
        """What waits of each tenant; O(tenants)."""
        return self._tenants.items()

    def is_blocked(self, tenant_id: str) -> bool:
        """Whether a tenant is at a cap of its own."""
        return tenant_id in self._blocked

    def add(self, entry: QueueEntry, rank: int, weight: int, busy_us: int) -> None:
        """Counts a request in."""
        tenant = self._tenants.get(entry.tenant_id)
        if tenant is None:
            tenant = self._tenants[entry.tenant_id] = TenantBacklog(weight, busy_us)
            if entry.tenant_id not in self._blocked:
                self.ready_weight += weight
        tenant.add(entry, rank, 1)
        tenant.gathered.add(entry, 1)
        self.everyone.add(entry, rank, 1)
        if entry.tenant_id not in self._blocked:
            self.ready.add(entry, 1)

    def remove(self, entry: QueueEntry, rank: int) -> None:
        """Counts a request out. Raises KeyError when nothing of its tenant waits."""
        tenant = self._tenants[entry.tenant_id]
        tenant.add(entry, rank, -1)
        tenant.gathered.add(entry, -1)
        self.everyone.add(entry, rank, -1)
        blocked = entry.tenant_id in self._blocked
        if not blocked:
            self.ready.add(entry, -1)
        if not tenant.whole.requests:
            del self._tenants[entry.tenant_id]
            if not blocked:
                self.ready_weight -= tenant.weight

    def set_blocked(self, tenant_id: str, *, blocked: bool) -> None:
        """A tenant has come to its cap, or left it. Not idempotent."""
        (self._blocked.add if blocked else self._blocked.discard)(tenant_id)
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            return
        sign = -1 if blocked else 1
        self.ready_weight += sign * tenant.weight
        self.ready.include(tenant.gathered, sign)

    def share_of(self, tenant_id: str, weight: int) -> float:
        """Part of the group's service that a tenant has beside those that compete."""
        tenant = self._tenants.get(tenant_id)
        if tenant is not None and tenant_id not in self._blocked:
            return tenant.weight / self.ready_weight
        return weight / (self.ready_weight + weight)

    def tenant(self, tenant_id: str) -> TenantBacklog | None:
        """What waits of a tenant; None when nothing does."""
        return self._tenants.get(tenant_id)


def rank_of(policy: str, entry: QueueEntry) -> int:
    """Coarse place of a request in the order of a policy: no higher rank goes before a lower.

    Only for predicting; aging is left out. Of `shortest_remaining` the power of two of the
    remaining tokens.
    """
    if policy == "priority":
        return -entry.priority
    if policy == "shortest_remaining":
        uncached = entry.prompt_tokens - entry.cached_tokens
        return (uncached + entry.predicted_output).bit_length()
    return 0
