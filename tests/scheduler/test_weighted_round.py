"""Fairness between tenants, by weighted virtual token counters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.support import entry
from weir_scheduler.policies.fifo.fifo import Fifo
from weir_scheduler.queues.rounds.weighted.service_counters import SCALE
from weir_scheduler.queues.rounds.weighted.weighted_round import WeightedRound


def fair_round(weights: dict[str, int] | None = None) -> WeightedRound:
    return WeightedRound(Fifo(), lambda tenant: (weights or {}).get(tenant, 1))


def serve(tenants: WeightedRound, service: int) -> str:
    """Dispatches the head and charges it; returns the tenant."""
    head = tenants.head(0)
    assert head is not None
    tenants.dispatched(head, 0)
    tenants.charge(head.tenant_id, service)
    return head.tenant_id


def test_two_tenants_take_turns_by_service_not_by_requests() -> None:
    tenants = fair_round()
    for number in range(101):
        tenants.add(entry(f"a{number}", number, tenant_id="big"))
        tenants.add(entry(f"b{number}", number, tenant_id="small"))
    got = {"big": 0, "small": 0}
    for _ in range(101):
        head = tenants.head(0)
        assert head is not None
        got[head.tenant_id] += 1
        serve(tenants, 100 if head.tenant_id == "big" else 1)
    assert got["small"] == pytest.approx(100 * got["big"], abs=100)


def test_service_follows_the_weights() -> None:
    tenants = fair_round({"a": 1, "b": 2, "c": 3, "d": 4})
    for number in range(1_000):
        for tenant in "abcd":
            tenants.add(entry(f"{tenant}{number}", number, tenant_id=tenant))
    order = [serve(tenants, 10) for _ in range(1_000)]
    assert [order.count(tenant) for tenant in "abcd"] == pytest.approx([100, 200, 300, 400], abs=2)


def test_idle_time_earns_no_credit() -> None:
    tenants = fair_round()
    for number in range(100):
        tenants.add(entry(f"s{number}", number, tenant_id="steady"))
    for _ in range(50):
        serve(tenants, 10)
    for number in range(50):
        tenants.add(entry(f"r{number}", number, tenant_id="returning"))
    order = [serve(tenants, 10) for _ in range(20)]
    assert order.count("steady") == 10


def test_a_tenant_that_finds_everybody_gone_is_lifted_to_the_last() -> None:
    tenants = fair_round()
    tenants.add(entry("a", 1, tenant_id="a"))
    serve(tenants, 500)
    tenants.charge("a", 100)
    tenants.add(entry("b", 2, tenant_id="b"))
    assert tenants.counter("b") == tenants.counter("a") == 600 * SCALE


def test_a_blocked_tenant_is_passed_over_and_gathers_no_credit() -> None:
    tenants = fair_round()
    for number in range(40):
        tenants.add(entry(f"a{number}", number, tenant_id="a"))
        tenants.add(entry(f"b{number}", number, tenant_id="b"))
    tenants.block("a")
    assert {serve(tenants, 10) for _ in range(20)} == {"b"}
    tenants.unblock("a")
    order = [serve(tenants, 10) for _ in range(20)]
    assert order.count("a") == 10


def test_a_round_of_blocked_tenants_has_no_head() -> None:
    tenants = fair_round()
    tenants.block("a")
    tenants.add(entry("a1", 1, tenant_id="a"))
    assert tenants.head(0) is None
    assert not tenants.ready()
    assert len(tenants) == 1
    tenants.unblock("a")
    assert tenants.ready()


def test_new_tenant_names_do_not_pile_up() -> None:
    tenants = fair_round()
    for number in range(20_000):
        tenants.add(entry(f"r{number}", number, tenant_id=f"t{number}"))
        serve(tenants, 3)
    assert len(tenants._counters._counters) <= 2_050


@settings(max_examples=60, deadline=None)
@given(
    weights=st.tuples(st.integers(1, 10), st.integers(1, 10)),
    prompts=st.tuples(st.integers(1, 400), st.integers(1, 400)),
    outputs=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    slots=st.integers(1, 8),
)
def test_the_gap_of_two_backlogged_tenants_stays_in_the_bound(
    weights: tuple[int, int], prompts: tuple[int, int], outputs: tuple[int, int], slots: int
) -> None:
    """|S_f/w_f - S_g/w_g| <= 2U over every interval, one replica, a report each step."""
    tenants = fair_round({"f": weights[0], "g": weights[1]})
    number, total = 0, {"f": 0, "g": 0}
    running: list[tuple[str, int]] = []
    gaps: list[float] = []
    for _ in range(400):
        while len(running) < slots:
            for tenant in "fg":
                number += 1
                tenants.add(entry(f"{tenant}{number}", number, tenant_id=tenant))
            head = tenants.head(0)
            assert head is not None
            which = "fg".index(head.tenant_id)
            serve(tenants, prompts[which])
            total[head.tenant_id] += prompts[which]
            running.append((head.tenant_id, outputs[which]))
        for tenant, _ in running:
            tenants.charge(tenant, 2)
            total[tenant] += 2
        running = [(tenant, left - 1) for tenant, left in running if left > 1]
        gaps.append(total["f"] / weights[0] - total["g"] / weights[1])
    pool_tokens = slots * (max(prompts) + max(outputs))
    bound = max(max(prompts), 2 * pool_tokens) + 2 * slots
    assert max(gaps) - min(gaps) <= 2 * bound / min(weights)
