"""Turns between tenants that others take, for comparison; none is in the product.

`instead` puts one in the place of the product's `new_round` for the time of a run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from weir_scheduler.policies.named import policy_named
from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.rounds.tenant_round import TenantRound
from weir_scheduler.queues.rounds.weighted.service_counters import ServiceCounters
from weir_scheduler.queues.rounds.weighted.weighted_round import WeightedRound
from weir_scheduler.rules.rules import PoolRules

WeightOf = Callable[[str], int]
RoundFactory = Callable[[OrderingPolicy, WeightOf], TenantRound]


class _NoLift(ServiceCounters):
    """Least counter first as VTC's authors compare with: who was idle keeps his credit."""

    def arrive(self, client: str, least_waiting: int | None) -> int:
        return super().arrive(client, self.value(client))

    def prune(self, least_waiting: int | None, waiting: Callable[[str], bool]) -> None:
        """Keeps everything: a dropped counter would be lifted."""


class LeastCounterFirst(WeightedRound):
    """LCF: weighted counters without the lift."""

    def __init__(self, policy: OrderingPolicy, weight_of: WeightOf) -> None:
        super().__init__(policy, weight_of)
        self._counters = _NoLift(weight_of)


class FairByRequests(WeightedRound):
    """Weighted fair queueing that counts requests, whatever they cost."""

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        super().charge(entry.tenant_id, 1)
        super().dispatched(entry, now_us)

    def charge(self, tenant_id: str, service: int) -> None:
        """Tokens do not matter here."""


class ByTurns(WeightedRound):
    """Round robin: a tenant that was served goes behind all others; weights do not matter."""

    def __init__(self, policy: OrderingPolicy, weight_of: WeightOf) -> None:
        super().__init__(policy, lambda tenant_id: 1)
        self._turns = 0

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        self._turns += 1
        behind = self._turns - self.counter(entry.tenant_id)
        super().charge(entry.tenant_id, behind)
        super().dispatched(entry, now_us)

    def charge(self, tenant_id: str, service: int) -> None:
        """Tokens do not matter here."""


@contextmanager
def instead(make: RoundFactory | None) -> Iterator[None]:
    """Runs with another way of taking turns; None: with the product's."""
    if make is None:
        yield
        return

    def new_round(pool: PoolRules, weight_of: WeightOf, *_: object) -> TenantRound:
        return make(policy_named(pool.policy, pool.queue.ordering), weight_of)

    with patch("weir_scheduler.queues.lane.new_round", new_round):
        yield
