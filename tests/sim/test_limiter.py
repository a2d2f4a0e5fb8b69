"""The limiter in front of a simulated scheduler decides by the account's own code."""

import pytest

from tests.sim.loads import request, setup, workload
from weir_sim.outcome import Ending
from weir_sim.setup import FleetChange, FleetEvent, TenantLimits
from weir_sim.simulation import simulate


def test_a_rate_of_requests_refuses_what_is_over_it() -> None:
    load = workload(*(request(f"r{i}", i * 0.1) for i in range(20)))
    outcome = simulate(load, setup(limits={"t": TenantLimits(requests_per_minute=5)}))
    # Five at once, and one more every 12 s.
    assert len(outcome.completed) == 5
    assert outcome.refused == {"rps": 15}
    assert all(r.reason == "rps" for r in outcome.records if r.outcome is Ending.REFUSED)


def test_tokens_that_were_not_produced_come_back() -> None:
    long = {"prompt_tokens": 10, "output_tokens": 10, "max_new_tokens": 1_000}
    # The second comes when the first has been settled, by 10 of the 1,000.
    load = workload(request("a", 0.0, **long), request("b", 5.0, **long))
    outcome = simulate(load, setup(limits={"*": TenantLimits(tokens_per_minute=1_010)}))
    assert len(outcome.completed) == 2
    together = workload(request("a", 0.0, **long), request("b", 0.1, **long))
    refused = simulate(together, setup(limits={"*": TenantLimits(tokens_per_minute=1_010)}))
    assert refused.refused == {"tpm": 1}


def test_places_are_free_again_at_the_end() -> None:
    load = workload(request("a"), request("b", 0.01), request("c", 3.0))
    outcome = simulate(load, setup(limits={"t": TenantLimits(concurrency=1)}))
    assert [r.outcome for r in outcome.records] == [
        Ending.COMPLETED,
        Ending.REFUSED,
        Ending.COMPLETED,
    ]


@pytest.mark.parametrize("tenant", ["other", "t"])
def test_limits_are_of_the_tenant_that_they_name(tenant: str) -> None:
    load = workload(*(request(f"r{i}", i * 0.01) for i in range(3)))
    outcome = simulate(load, setup(limits={tenant: TenantLimits(requests_per_minute=1)}))
    assert len(outcome.completed) == (3 if tenant == "other" else 1)


def test_what_never_ran_is_given_back_whole() -> None:
    """Without a worker the first is rejected; its tokens serve the second."""
    big = {"prompt_tokens": 500, "output_tokens": 400}
    load = workload(request("a", 0.0, **big), request("b", 20.0, **big))
    events = (FleetEvent(0.0, 0, FleetChange.LOSE), FleetEvent(15.0, 0, FleetChange.RETURN))
    plan = setup(limits={"t": TenantLimits(tokens_per_minute=900)}, events=events)
    outcome = simulate(load, plan)
    assert [r.outcome for r in outcome.records] == [Ending.REJECTED, Ending.COMPLETED]
