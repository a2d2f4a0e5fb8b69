"""Everything that waits for one kind of worker."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from weir_scheduler.queues.backlog import Amount, Backlog, rank_of
from weir_scheduler.queues.batch_window import BatchWindow, Gathered
from weir_scheduler.queues.drain_rate import BusyClock, DrainRate
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.fast_lane import FastLane
from weir_scheduler.queues.forecast import Ahead, Forecast, Rates, forecast
from weir_scheduler.queues.group import GROUPS, Group, group_of
from weir_scheduler.queues.group_turns import GroupTurns
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.recent_service import RecentService
from weir_scheduler.queues.rounds.locality.cached_pieces import PrefixReader
from weir_scheduler.queues.rounds.named import new_round
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.queues.tenant_queue import TenantQueue
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import Isolation, PoolRules, WorkerRules

_FOR_ROOM = frozenset(
    {
        WaitReason.WORKER_FULL,
        WaitReason.BATCH_FULL,
        WaitReason.KV_FULL,
        WaitReason.LONG_CAP,
        WaitReason.PREEMPTING,
    }
)


class Lane:
    """Queues of one (model, version, owner, pool): class, then length, tenant, policy.

    Args:
        key: which workers serve it.
        pool: isolation, policy and shares.
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
        self.blocked: tuple[str, WaitReason] | None = None
        """Request id of the head at which the last pass ended, and why."""
        self.served = 0
        """Number of the last dispatch from it, counted over all lanes."""
        self.no_worker_since_us: int | None = None
        """Since when no live worker serves the lane; None while one does."""
        self._weight_of = weight_of
        self._prefixes = prefixes
        self._blocked_tenants: set[str] = set()
        self._fast_lane = FastLane()
        self._turns = GroupTurns(pool.shares)
        self._rounds = {group: self._new_round() for group in GROUPS}
        self._backlogs = {group: Backlog() for group in GROUPS}
        self._windows = {request_class: BatchWindow() for request_class in RequestClass}
        self._busy = BusyClock()
        self._drain = DrainRate(began_us=0)
        self._recent = RecentService()

    def __len__(self) -> int:
        return sum(len(tenants) for tenants in self._rounds.values())

    def add(self, entry: QueueEntry, now_us: int, window_us: int = 0) -> None:
        """Adds a request, held back for at most `window_us` to gather a batch.

        Raises ValueError when it waits already.
        """
        group = group_of(entry)
        self._rounds[group].add(entry)
        self._backlogs[group].add(
            entry,
            rank_of(self.pool.policy, entry),
            self._weight_of(entry.tenant_id),
            self._busy.at(now_us),
        )
        self._windows[entry.request_class].add(entry, window_us)
        self._sync(group)

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out. Raises KeyError when it does not wait."""
        self._rounds[group_of(entry)].remove(entry)
        self._removed(entry)

    def holds(self, entry: QueueEntry) -> bool:
        """Whether a request waits in it."""
        queue = self._rounds[group_of(entry)].queue_of(entry.tenant_id)
        return queue is not None and entry.request_id in queue

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes the head out because it goes to a worker."""
        group = group_of(entry)
        self._rounds[group].dispatched(entry, now_us)
        if self._busy.running:
            self._count_drained(group, entry, self._busy.at(now_us))
        self._fast_lane.dispatched(group)
        self._removed(entry)

    def begin_pass(self) -> None:
        """Heads are about to be tried: none has been found without room yet."""
        self._fast_lane.begin_pass()

    def end_pass(self, blocked: tuple[str, WaitReason] | None, now_us: int) -> None:
        """Everything that could go has gone; `blocked`: the head at which that ended."""
        self.blocked = blocked
        reasons = [reason for _, reason in self._fast_lane.passed.values()]
        if blocked is not None:
            reasons.append(blocked[1])
        self._busy.set(busy=not _FOR_ROOM.isdisjoint(reasons), now_us=now_us)

    def head(self, now_us: int, only: RequestClass | None = None) -> QueueEntry | None:
        """The request to be placed next; None when nothing waits that may run.

        `only`: of this class, while a static worker fills a batch that must not be mixed.
        """
        groups = [
            group
            for group in self._turns.ready
            if group not in self._fast_lane.passed and only in (None, group.request_class)
        ]
        if not groups:
            return None
        owed = [group for group in groups if self._fast_lane.is_owed(group, self.pool.shares)]
        return self._rounds[self._turns.next(owed or groups)].head(now_us)

    def pass_over(self, entry: QueueEntry, reason: WaitReason) -> bool:
        """The head found no room: whether others may be tried in this pass.

        A window that is open on a static worker holds up its own class alone, and a long request
        nobody (see `FastLane`). Behind any other the lane waits: what is passed over again and
        again by smaller ones starves.
        """
        if not entry.long and reason is not WaitReason.BATCH_WINDOW:
            return False
        self._fast_lane.passes(group_of(entry), entry.request_id, reason)
        return True

    def is_owed(self, entry: QueueEntry) -> bool:
        """Whether so many have got past a head that room must be kept for it now."""
        return self._fast_lane.is_owed(group_of(entry), self.pool.shares)

    def waiting_heads(self) -> dict[str, WaitReason]:
        """Heads that found no room in the last pass, by request id, and why."""
        heads = dict(self._fast_lane.passed.values())
        if self.blocked is not None:
            heads[self.blocked[0]] = self.blocked[1]
        return heads

    def passed(self, group: Group) -> WaitReason | None:
        """Why the head of a group was passed over in the last pass; None if it was not."""
        known = self._fast_lane.passed.get(group)
        return None if known is None else known[1]

    def window_closes_us(
        self, entry: QueueEntry, rules: WorkerRules, max_requests: int, *, static: bool
    ) -> int | None:
        """Until when an idle worker waits for more than this head; None: not at all."""
        classes = [entry.request_class] if static else list(RequestClass)
        gathered = Gathered()
        for group in GROUPS:
            if group.request_class in classes:
                gathered.include(self._backlogs[group].ready)
        if gathered.fills(rules, max_requests):
            return None
        closes = [self._windows[request_class].closes_us() for request_class in classes]
        return min(closes_us for closes_us in closes if closes_us is not None)

    def charge(
        self,
        request_class: RequestClass,
        tenant_id: str,
        service: int,
        *,
        long: bool = False,
        now_us: int = 0,
    ) -> None:
        """Adds weighted tokens of service; negative gives back."""
        if service:
            self._recent.add(tenant_id, service, now_us)
            group = Group(request_class, long)
            self._turns.charge(group, service)
            self._rounds[group].charge(tenant_id, service)

    def set_blocked(self, tenant_id: str, *, blocked: bool) -> bool:
        """Passes over a tenant that is at its cap, or no longer; whether that is a change."""
        if blocked == (tenant_id in self._blocked_tenants):
            return False
        (self._blocked_tenants.add if blocked else self._blocked_tenants.discard)(tenant_id)
        for group, tenants in self._rounds.items():
            (tenants.block if blocked else tenants.unblock)(tenant_id)
            self._backlogs[group].set_blocked(tenant_id, blocked=blocked)
            self._sync(group)
        return True

    def is_blocked(self, tenant_id: str) -> bool:
        """Whether a tenant is passed over."""
        return tenant_id in self._blocked_tenants

    def queue_of(
        self, request_class: RequestClass, tenant_id: str, *, long: bool = False
    ) -> TenantQueue | None:
        """The queue of a tenant; None when nothing of it waits."""
        return self._rounds[Group(request_class, long)].queue_of(tenant_id)

    def queues(self) -> Iterator[tuple[Group, str, TenantQueue]]:
        """Every queue in which something waits."""
        for group, tenants in self._rounds.items():
            for tenant_id in list(tenants.tenants()):
                queue = tenants.queue_of(tenant_id)
                if queue is not None:
                    yield group, tenant_id, queue

    def backlog(self, group: Group) -> Backlog:
        """Counts of what waits in a group."""
        return self._backlogs[group]

    def served_lately(self, now_us: int) -> Mapping[str, int]:
        """Weighted tokens of service by tenant, lately; see `RecentService`."""
        return self._recent.totals(now_us)

    def counter(self, group: Group, tenant_id: str) -> int:
        """What the turns of a group have counted for a tenant; see `TenantRound`."""
        return self._rounds[group].counter(tenant_id)

    def weight_of(self, tenant_id: str) -> int:
        """A tenant's weight."""
        return self._weight_of(tenant_id)

    def share(self, group: Group) -> float:
        """Part of the service that a group has beside what waits now."""
        return self._turns.share(group)

    def tokens_per_second(self, now_us: int) -> float:
        """Estimated cost that left the lane per second while its workers were full."""
        return self._drain.amount_per_second(self._busy.at(now_us))

    def forecast(self, entry: QueueEntry, now_us: int, extra: int = 0) -> Forecast | None:
        """How long a request that comes now would wait; see `forecast`."""
        if not self._drain.seen:
            return None
        rank = rank_of(self.pool.policy, entry)
        ahead = self._ahead(group_of(entry), entry.tenant_id, rank, entry.estimated_cost)
        return forecast(ahead, self._rates(group_of(entry), entry.tenant_id, now_us), extra)

    def forecast_newcomer(self, group: Group, now_us: int) -> Forecast | None:
        """Likewise for an average request of a tenant of weight 1 of which nothing waits."""
        waiting = self._backlogs[group].everyone.whole
        cost = max(1, waiting.cost // max(1, waiting.requests))
        return forecast(self._ahead(group, "", 0, cost), self._rates(group, "", now_us))

    def _ahead(self, group: Group, tenant_id: str, rank: int, cost: int) -> Ahead:
        backlog, share = self._backlogs[group], 1.0
        if self.pool.isolation is Isolation.SHARED:
            own = backlog.everyone.ahead_of(rank)
        else:
            tenant = backlog.tenant(tenant_id)
            own = tenant.ahead_of(rank) if tenant is not None else Amount()
            share = backlog.share_of(tenant_id, self._weight_of(tenant_id))
        return Ahead(
            cost=cost,
            own=own,
            group_cost=backlog.ready.cost,
            lane_cost=sum(other.ready.cost for other in self._backlogs.values()),
            tenant_share=share,
            group_share=self._turns.share(group),
        )

    def _rates(self, group: Group, tenant_id: str, now_us: int) -> Rates:
        busy_us = self._busy.at(now_us)
        lane = Rates(self._drain.amount_per_second(busy_us), self._drain.seen)
        tenant = self._backlogs[group].tenant(tenant_id)
        if tenant is None or self.pool.isolation is Isolation.SHARED:
            return lane
        return replace(lane, own_per_s=tenant.drain.per_second(busy_us), own_seen=tenant.drain.seen)

    def entries(self) -> list[QueueEntry]:
        """Every waiting request."""
        return [entry for _, _, queue in self.queues() for entry in queue.entries()]

    def reconfigure(self, pool: PoolRules, now_us: int) -> None:
        """Moves what waits into queues of another isolation or policy; counters start anew."""
        entries = self.entries()
        windows = self._windows
        self.pool = pool
        self._turns = GroupTurns(pool.shares)
        self._rounds = {group: self._new_round() for group in GROUPS}
        self._backlogs = {group: Backlog() for group in GROUPS}
        blocked, self._blocked_tenants = self._blocked_tenants, set()
        for tenant_id in blocked:
            self.set_blocked(tenant_id, blocked=True)
        for entry in sorted(entries, key=lambda entry: (entry.arrival_us, entry.sequence)):
            window_us = windows[entry.request_class].wait_us(entry)
            self.add(entry, now_us, window_us)

    def _new_round(self) -> TenantRound:
        return new_round(self.pool, self._weight_of, self._prefixes)

    def _removed(self, entry: QueueEntry) -> None:
        group = group_of(entry)
        self._backlogs[group].remove(entry, rank_of(self.pool.policy, entry))
        self._windows[entry.request_class].discard(entry)
        self._sync(group)

    def _count_drained(self, group: Group, entry: QueueEntry, busy_us: int) -> None:
        self._drain.add(busy_us, entry.estimated_cost)
        tenant = self._backlogs[group].tenant(entry.tenant_id)
        if tenant is not None:
            tenant.drain.add(busy_us, entry.estimated_cost)

    def _sync(self, group: Group) -> None:
        self._turns.set_ready(group, ready=self._rounds[group].ready())
