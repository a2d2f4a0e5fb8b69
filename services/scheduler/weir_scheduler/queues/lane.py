"""Everything that waits for one kind of worker."""

from collections.abc import Callable, Iterator

from weir_scheduler.queues.batch_window import BatchWindow
from weir_scheduler.queues.drain_rate import DrainRate
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.rounds.locality.cached_pieces import PrefixReader
from weir_scheduler.queues.rounds.named import new_round
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.queues.rounds.weighted.service_counters import ServiceCounters
from weir_scheduler.queues.tenant_queue import TenantQueue
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import PoolRules

CLASS_WEIGHTS = {RequestClass.INTERACTIVE: 9, RequestClass.BATCH: 1}
"""Shares of service while both classes wait: neither starves the other."""


class Lane:
    """Queues of one (model, version, owner): class, then tenant, then policy.

    Args:
        key: which workers serve it.
        pool: isolation and policy.
        weight_of: a tenant's weight.
        prefixes: what the caches of its workers hold.
    """

    def __init__(
        self,
        key: LaneKey,
        pool: PoolRules,
        weight_of: Callable[[str], int],
        prefixes: PrefixReader | None = None,
    ) -> None:
        self.key = key
        self.pool = pool
        self.window = BatchWindow()
        self.drain_rate = DrainRate()
        self.queued_cost = 0
        self.blocked: tuple[str, WaitReason] | None = None
        """Request id of the head that could not be placed, and why."""
        self.no_worker_since_us: int | None = None
        """Since when no live worker serves the lane; None while one does."""
        self._weight_of = weight_of
        self._prefixes = prefixes
        self._blocked_tenants: set[str] = set()
        self._class_share = ServiceCounters(lambda name: CLASS_WEIGHTS[RequestClass(name)])
        self._classes_ready: set[RequestClass] = set()
        self._rounds = {request_class: self._new_round() for request_class in RequestClass}

    def __len__(self) -> int:
        return sum(len(tenants) for tenants in self._rounds.values())

    def add(self, entry: QueueEntry) -> None:
        """Adds a request. Raises ValueError when it waits already."""
        self._rounds[entry.request_class].add(entry)
        self.queued_cost += entry.estimated_cost
        self._sync(entry.request_class)

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out. Raises KeyError when it does not wait."""
        self._rounds[entry.request_class].remove(entry)
        self._removed(entry)

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes the head out because it goes to a worker."""
        self._rounds[entry.request_class].dispatched(entry, now_us)
        self.drain_rate.add(now_us)
        self._removed(entry)

    def head(self, now_us: int, only: RequestClass | None = None) -> QueueEntry | None:
        """The request to be placed next; None when nothing waits that may run.

        `only`: of this class, while a static worker fills a batch that must not be mixed.
        """
        classes = self._classes_ready if only is None else self._classes_ready & {only}
        if not classes:
            return None
        return self._rounds[min(classes, key=self._class_turn)].head(now_us)

    def charge(self, request_class: RequestClass, tenant_id: str, service: int) -> None:
        """Adds weighted tokens of service; negative gives back."""
        if service:
            self._class_share.charge(request_class.value, service)
            self._rounds[request_class].charge(tenant_id, service)

    def set_blocked(self, tenant_id: str, *, blocked: bool) -> bool:
        """Passes over a tenant that is at its cap, or no longer; whether that is a change."""
        if blocked == (tenant_id in self._blocked_tenants):
            return False
        (self._blocked_tenants.add if blocked else self._blocked_tenants.discard)(tenant_id)
        for request_class, tenants in self._rounds.items():
            (tenants.block if blocked else tenants.unblock)(tenant_id)
            self._sync(request_class)
        return True

    def is_blocked(self, tenant_id: str) -> bool:
        """Whether a tenant is passed over."""
        return tenant_id in self._blocked_tenants

    def queue_of(self, request_class: RequestClass, tenant_id: str) -> TenantQueue | None:
        """The queue of a tenant; None when nothing of it waits."""
        return self._rounds[request_class].queue_of(tenant_id)

    def queues(self) -> Iterator[tuple[RequestClass, str, TenantQueue]]:
        """Every queue in which something waits."""
        for request_class, tenants in self._rounds.items():
            for tenant_id in list(tenants.tenants()):
                queue = tenants.queue_of(tenant_id)
                if queue is not None:
                    yield request_class, tenant_id, queue

    def retry_after_s(self, entry: QueueEntry, now_us: int, ahead: int) -> float | None:
        """Seconds until `ahead` requests of its tenant have left, at the present speed.

        Of the tenant's own queue, else of the lane; None when nothing moves.
        """
        queue = self.queue_of(entry.request_class, entry.tenant_id)
        own = queue.drain_rate.seconds_for(ahead, now_us) if queue is not None else None
        return own or self.drain_rate.seconds_for(max(ahead, len(self)), now_us)

    def entries(self) -> list[QueueEntry]:
        """Every waiting request."""
        return [entry for _, _, queue in self.queues() for entry in queue.entries()]

    def reconfigure(self, pool: PoolRules) -> None:
        """Moves what waits into queues of another isolation or policy; counters start anew."""
        entries = self.entries()
        self.pool = pool
        self._rounds = {request_class: self._new_round() for request_class in RequestClass}
        for tenants in self._rounds.values():
            for tenant_id in self._blocked_tenants:
                tenants.block(tenant_id)
        for entry in sorted(entries, key=lambda entry: (entry.arrival_us, entry.sequence)):
            self._rounds[entry.request_class].add(entry)
        for request_class in RequestClass:
            self._sync(request_class)

    def _new_round(self) -> TenantRound:
        return new_round(self.pool, self._weight_of, self._prefixes)

    def _removed(self, entry: QueueEntry) -> None:
        self.queued_cost -= entry.estimated_cost
        self._sync(entry.request_class)

    def _class_turn(self, request_class: RequestClass) -> tuple[int, int]:
        share = self._class_share.value(request_class.value)
        return share, 0 if request_class is RequestClass.INTERACTIVE else 1

    def _sync(self, request_class: RequestClass) -> None:
        """Lets the class begin or cease to compete, with the lift of the counters."""
        ready = self._rounds[request_class].ready()
        if ready == (request_class in self._classes_ready):
            return
        name = request_class.value
        if ready:
            waiting = [self._class_share.value(other.value) for other in self._classes_ready]
            self._class_share.arrive(name, min(waiting, default=None))
            self._classes_ready.add(request_class)
        else:
            self._classes_ready.discard(request_class)
            self._class_share.leave(name)
