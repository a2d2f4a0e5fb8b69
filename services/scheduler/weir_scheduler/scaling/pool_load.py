"""What waits for one pool, and what has waited lately."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from weir_scheduler.queues.drain_rate import DrainRate
from weir_scheduler.queues.entry import QueueEntry, RequestClass

WAIT_WINDOW_US = 30_000_000
_MOST_WAITS = 2_048


class TenantWaits:
    """Waiting requests of one tenant: begin of each wait, in order; their summed cost."""

    def __init__(self) -> None:
        self.tokens = 0
        self._began_us: dict[str, int] = {}
        self._interactive: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._began_us)

    def enter(self, entry: QueueEntry) -> None:
        """A wait begins; never before one that began earlier."""
        self._began_us[entry.request_id] = entry.enqueued_us
        if entry.request_class is RequestClass.INTERACTIVE:
            self._interactive[entry.request_id] = None
        self.tokens += entry.estimated_cost

    def leave(self, entry: QueueEntry) -> bool:
        """A wait ends; False if it was not known."""
        if self._began_us.pop(entry.request_id, None) is None:
            return False
        self._interactive.pop(entry.request_id, None)
        self.tokens -= entry.estimated_cost
        return True

    def oldest_us(self) -> int | None:
        """Begin of the oldest interactive wait."""
        first = next(iter(self._interactive), None)
        return None if first is None else self._began_us[first]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Requests that wait for a place, their summed cost, and the begin of their oldest wait.

    `capped`: requests that wait for their own tenant's cap, and are not among them.
    """

    queued: int
    tokens: int
    capped: int
    oldest_us: int | None


class PoolLoad:
    """Waits of one pool by tenant, and the interactive ones that ended lately."""

    def __init__(self) -> None:
        self._tenants: dict[str, TenantWaits] = {}
        self._ended: deque[tuple[int, int]] = deque(maxlen=_MOST_WAITS)
        self._drain_rate = DrainRate()

    def enter(self, entry: QueueEntry) -> None:
        """A request waits."""
        self._tenants.setdefault(entry.tenant_id, TenantWaits()).enter(entry)

    def leave(self, entry: QueueEntry) -> None:
        """It waits no longer. Idempotent."""
        waits = self._tenants.get(entry.tenant_id)
        if waits is not None and waits.leave(entry) and not len(waits):
            del self._tenants[entry.tenant_id]

    def ended(self, entry: QueueEntry, now_us: int) -> None:
        """A wait ended in a way that says how long one waits here."""
        if entry.request_class is RequestClass.INTERACTIVE:
            self._ended.append((now_us, max(0, now_us - entry.enqueued_us)))

    def dispatched(self, now_us: int) -> None:
        """One more has gone to a worker."""
        self._drain_rate.add(now_us)

    def waiting(self, at_cap: Callable[[str], bool]) -> Waiting:
        """What waits now; O(tenants that wait)."""
        queued = tokens = capped = 0
        oldest_us: int | None = None
        for tenant_id, waits in self._tenants.items():
            if at_cap(tenant_id):
                capped += len(waits)
                continue
            queued += len(waits)
            tokens += waits.tokens
            began_us = waits.oldest_us()
            if began_us is not None and (oldest_us is None or began_us < oldest_us):
                oldest_us = began_us
        return Waiting(queued, tokens, capped, oldest_us)

    def p95_us(self, now_us: int) -> int:
        """95th percentile of the waits that ended within the window; 0 when none did."""
        while self._ended and self._ended[0][0] < now_us - WAIT_WINDOW_US:
            self._ended.popleft()
        waits = sorted(wait_us for _, wait_us in self._ended)
        return waits[min(len(waits) - 1, len(waits) * 95 // 100)] if waits else 0

    def predicted_wait_us(self, queued: int, now_us: int) -> int | None:
        """Until `queued` requests have gone, at the speed of the last seconds."""
        if not queued:
            return 0
        per_second = self._drain_rate.per_second(now_us)
        return round(queued / per_second * 1_000_000) if per_second >= 0.01 else None
