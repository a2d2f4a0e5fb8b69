"""What waits in each pool, and how fast it goes: for operators."""

from collections import Counter
from dataclasses import dataclass
from heapq import nlargest

from weir_core.errors import WeirError
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.queues.backlog import Backlog
from weir_scheduler.queues.forecast import Forecast
from weir_scheduler.queues.group import GROUPS, Group
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.rounds.weighted.service_counters import SCALE
from weir_scheduler.rules.routing import pool_named
from weir_scheduler.rules.rules import Isolation, PoolRules

_MOST_TENANTS = 20
_MOST_SERVED = 256


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """What waits of one tenant in a class and length.

    Attributes:
        tenant_id: whose.
        weight: as it was when its first request came.
        waiting: requests.
        waiting_cost: their summed estimated cost, tokens.
        share: its part beside what waits now; 0 at a cap of its own, or where weights say nothing.
        counter: service over weight that its turns have counted, beyond the least of those here.
    """

    tenant_id: str
    weight: int
    waiting: int
    waiting_cost: int
    share: float
    counter: float = 0.0


@dataclass(frozen=True, slots=True)
class TenantService:
    """What a tenant gets of a pool.

    Attributes:
        tenant_id: whose.
        weight: its own.
        served: weighted tokens of service, lately.
        running: attempts.
    """

    tenant_id: str
    weight: int
    served: int
    running: int


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One class and length of a pool.

    Attributes:
        group: which.
        waiting: requests.
        waiting_cost: their summed estimated cost, tokens.
        tenants: of which something waits.
        share: its part of the service beside what waits now.
        newcomer: predicted wait of a request that comes now, of a tenant of which nothing waits.
        most: the tenants of which most waits, some at most.
    """

    group: Group
    waiting: int
    waiting_cost: int
    tenants: int
    share: float
    newcomer: Forecast | None
    most: tuple[TenantStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool, as it serves one version of one model.

    Attributes:
        key: model, version, owner and name of a further pool.
        rules: the pool.
        live_workers: that take work.
        workers: that are known and not lost.
        drain_per_s: estimated cost that left the queue per second while workers were full.
        groups: what waits.
        services: what tenants get, the most served first, some at most.
    """

    key: LaneKey
    rules: PoolRules
    live_workers: int
    workers: int
    drain_per_s: float
    groups: tuple[GroupStatus, ...]
    services: tuple[TenantService, ...] = ()


class PoolView:
    """Reads the lanes; changes nothing."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def pools(self) -> list[PoolStatus]:
        """Every pool that has a queue or a worker, and the other pools of the same models."""
        return [status for key in self._keys() if (status := self._status(key)) is not None]

    def _keys(self) -> list[LaneKey]:
        """A row for each; a worker that a queue's row counts already has none of its own."""
        keys = dict.fromkeys(self._state.lanes)
        versions: dict[tuple[str, str, str], set[str]] = {}
        for key in keys:
            versions.setdefault((key.model, key.owner, key.pool), set()).add(key.version)
        for worker in self._state.fleet:
            info = worker.info
            known = versions.setdefault((info.model, worker.owner, worker.pool), set())
            if not worker.lost and not any(info.serves(info.model, one) for one in known):
                known.add(info.model_version)
                key = LaneKey(info.model, info.model_version, worker.owner, worker.pool)
                keys.setdefault(key)
        for model in dict.fromkeys(key.model for key in keys):
            for key in self._configured(model):
                if not versions.get((key.model, key.owner, key.pool)):
                    keys.setdefault(key)
        return list(keys)

    def _configured(self, model: str) -> list[LaneKey]:
        """The pools of a model by its rules, of any version."""
        try:
            first = self._state.rules.pool(model)
        except WeirError:
            return []
        own = LaneKey(model, "", first.scope.tenant_id)
        further = [LaneKey(model, "", pool.scope.tenant_id, pool.name) for pool in first.further]
        return [own, *further]

    def _status(self, key: LaneKey) -> PoolStatus | None:
        now_us, lane = self._state.now_us(), self._state.lanes.get(key)
        rules = lane.pool if lane is not None else self._rules(key)
        if rules is None:
            return None
        serving = self._state.fleet.serving(key)
        return PoolStatus(
            key=key,
            rules=rules,
            live_workers=sum(worker.live(now_us) for worker in serving),
            workers=len(serving),
            drain_per_s=lane.tokens_per_second(now_us) if lane is not None else 0.0,
            groups=_groups(lane, now_us) if lane is not None else (),
            services=self._services(lane, now_us) if lane is not None else (),
        )

    def _services(self, lane: Lane, now_us: int) -> tuple[TenantService, ...]:
        """Those that were served lately, and those of which something runs or waits."""
        served = lane.served_lately(now_us)
        running = Counter(one.tenant_id for one in self._state.attempts if one.lane_key == lane.key)
        waiting = dict.fromkeys(tenant_id for _, tenant_id, _ in lane.queues())
        tenants = dict.fromkeys([*served, *running, *waiting])
        most = nlargest(_MOST_SERVED, tenants, key=lambda one: (one in waiting, served.get(one, 0)))
        return tuple(
            TenantService(one, lane.weight_of(one), served.get(one, 0), running[one])
            for one in most
        )

    def _rules(self, key: LaneKey) -> PoolRules | None:
        try:
            return pool_named(self._state.rules.pool(key.model), key.pool)
        except WeirError:
            return None


def _groups(lane: Lane, now_us: int) -> tuple[GroupStatus, ...]:
    groups = []
    for group in GROUPS:
        backlog = lane.backlog(group)
        waiting = backlog.everyone.whole
        groups.append(
            GroupStatus(
                group=group,
                waiting=waiting.requests,
                waiting_cost=waiting.cost,
                tenants=len(backlog),
                share=lane.share(group),
                newcomer=lane.forecast_newcomer(group, now_us),
                most=_most(lane, group, backlog),
            )
        )
    return tuple(groups)


def _most(lane: Lane, group: Group, backlog: Backlog) -> tuple[TenantStatus, ...]:
    weighted = lane.pool.isolation is Isolation.WEIGHTED
    largest = nlargest(_MOST_TENANTS, backlog.tenants(), key=lambda one: one[1].whole.cost)
    counters = {tenant_id: lane.counter(group, tenant_id) for tenant_id, _ in largest}
    least = min(counters.values(), default=0)
    return tuple(
        TenantStatus(
            tenant_id,
            tenant.weight,
            tenant.whole.requests,
            tenant.whole.cost,
            tenant.weight / backlog.ready_weight
            if weighted and not backlog.is_blocked(tenant_id)
            else 0.0,
            (counters[tenant_id] - least) / SCALE,
        )
        for tenant_id, tenant in largest
    )
