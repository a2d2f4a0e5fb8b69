"""Counters are taken down before they grow long, and nobody's turn changes by it."""

import random
from types import ModuleType

import pytest

from tests.scheduler.support import entry
from weir_scheduler.policies.fifo.fifo import Fifo
from weir_scheduler.queues.rounds.locality import locality_round
from weir_scheduler.queues.rounds.named import ROUNDS
from weir_scheduler.queues.rounds.weighted import weighted_round
from weir_scheduler.queues.rounds.weighted.service_counters import SCALE
from weir_scheduler.rules.queue_rules import QueueRules
from weir_scheduler.workers.pool_prefixes import PoolPrefixes


def order_and_largest(turns: str) -> tuple[list[str], int]:
    """The tenants of 600 dispatches, and the largest counter in the end."""
    rng = random.Random(3)
    rules, prefixes = QueueRules(quantum_tokens=50), PoolPrefixes()
    tenants = ROUNDS[turns](Fifo(), lambda tenant: 1 + ord(tenant) % 3, rules, prefixes)
    order = []
    for number in range(600):
        for tenant in "abcd":
            if rng.random() < 0.4:
                tenants.add(entry(f"{tenant}{number}", number, tenant_id=tenant))
        head = tenants.head(number)
        if head is not None:
            tenants.dispatched(head, number)
            tenants.charge(head.tenant_id, rng.randint(1, 200))
            tenants.charge(head.tenant_id, -rng.randint(0, 20))
            order.append(head.tenant_id)
    counters = tenants._counters  # type: ignore[attr-defined]
    return order, max(abs(counters.value(tenant)) for tenant in "abcd")


@pytest.mark.parametrize(
    ("turns", "module"), [("tokens", weighted_round), ("locality", locality_round)]
)
def test_the_order_is_the_same_and_the_numbers_are_small(
    turns: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, largest = order_and_largest(turns)
    limit = 1_000 * SCALE
    assert largest > 5 * limit
    monkeypatch.setattr(module, "_REBASE_FROM", limit)
    order_when_rebased, largest = order_and_largest(turns)
    assert order_when_rebased == order
    assert largest < 2 * limit
