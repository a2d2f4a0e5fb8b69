"""The simulator's own invariants, S1 to S6 (sim/README.md), over random runs."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.loads import COST, random_workload, request, setup, workload
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_sim.outcome import Ending, Outcome
from weir_sim.setup import Batching, FleetChange, FleetEvent, Setup, WorkerSpec
from weir_sim.simulation import simulate


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """1 to 4 workers, tight memory or not, with losses, returns and stale reports."""
    workers = draw(st.integers(1, 4))
    spec = WorkerSpec(
        kv_blocks=draw(st.sampled_from([200, 260, 4_096])),
        max_batch_size=draw(st.sampled_from([4, 32])),
        max_step_tokens=draw(st.sampled_from([64, 512])),
        cache_blocks=draw(st.sampled_from([None, 0, 40])),
        batching=draw(st.sampled_from(list(Batching))),
    )
    at_s = st.floats(0.0, 8.0)
    events = draw(
        st.lists(
            st.builds(
                FleetEvent, at_s, st.integers(0, workers - 1), st.sampled_from(list(FleetChange))
            ),
            max_size=4,
        )
    )
    returns = [FleetEvent(9.0, index, FleetChange.RETURN) for index in range(workers)]
    undrains = [FleetEvent(9.5, index, FleetChange.UNDRAIN) for index in range(workers)]
    return Setup(
        workers=(spec,) * workers,
        cost=COST,
        checks=True,
        events=(*events, *returns, *undrains),
        report_interval_s=draw(st.sampled_from([0.0, 0.1, 1.0])),
        report_delay_s=draw(st.sampled_from([0.0, 0.3])),
        link_s=draw(st.sampled_from([0.0, 0.01])),
        pool=PoolRules(name="p", isolation=draw(st.sampled_from(list(Isolation)[:2])),
                       policy=draw(st.sampled_from(["fifo", "shortest_remaining"]))),
    )  # fmt: skip


@settings(max_examples=25, deadline=None, derandomize=True)
@given(setups(), st.integers(0, 1_000))
def test_every_request_ends_once_and_nothing_precedes_its_cause(plan: Setup, seed: int) -> None:
    load = random_workload(seed, count=30)
    outcome = simulate(load, plan)
    _s1_conservation(outcome, len(load.requests))
    _s2_causality(outcome)
    # S4: `checks` recounts every worker's KV after each flight and raises.
    assert all(w.peak_held_blocks <= w.kv_blocks for w in outcome.workers)
    _s5_work(outcome, plan)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(setups(), st.integers(0, 1_000))
def test_the_same_arguments_give_the_same_outcome(plan: Setup, seed: int) -> None:
    load = random_workload(seed, count=30)
    first, second = simulate(load, plan), simulate(load, plan)
    assert first.records == second.records
    assert first.scheduler_decisions == second.scheduler_decisions
    assert first.workers == second.workers


def test_another_seed_draws_other_lots() -> None:
    load = random_workload(1, count=40, rate=4.0)
    plan = setup(4)
    decisions = {simulate(load, replace(plan, seed=seed)).scheduler_decisions for seed in range(5)}
    assert len(decisions) > 1


def test_signals_are_exactly_as_old_as_the_setup_says() -> None:
    """S6: a worker whose only free place is told late gets its next request that much later."""
    spec = WorkerSpec(kv_blocks=12, block_size=16)
    long = {"prompt_tokens": 90, "output_tokens": 80}
    load = workload(request("a", 0.0, **long), request("b", 0.0, **long))
    moments = {}
    for delay_s in (0.0, 0.5):
        plan = setup(spec=spec, report_interval_s=0.05, report_delay_s=delay_s)
        first, second = simulate(load, plan).records
        assert first.end_s is not None
        assert second.dispatched_s is not None
        moments[delay_s] = second.dispatched_s - first.end_s
    assert moments[0.5] - moments[0.0] == 0.5


def _s1_conservation(outcome: Outcome, requests: int) -> None:
    assert len(outcome.records) == requests
    for record in outcome.records:
        assert record.outcome in (Ending.COMPLETED, Ending.LOST, Ending.REJECTED)
        if record.outcome is Ending.COMPLETED:
            assert record.output_tokens == record.request.output_tokens
        else:
            assert record.reason
    assert sum(outcome.refused.values()) == requests - len(outcome.completed)


def _s2_causality(outcome: Outcome) -> None:
    for record in outcome.completed:
        moments = [record.request.arrival_s, record.queued_s, record.dispatched_s,
                   record.first_token_s, record.end_s]  # fmt: skip
        known = [moment for moment in moments if moment is not None]
        assert len(known) == len(moments)
        # Arrivals are rounded to the microsecond.
        assert all(a <= b + 1e-6 for a, b in pairwise(known)), record
        assert record.gap_p99_s <= record.gap_max_s


def _s5_work(outcome: Outcome, plan: Setup) -> None:
    """S5: what requests account for is what workers have computed, token by token."""
    if any(event.change is FleetChange.LOSE for event in plan.events):
        return
    tokens = sum(w.prefill_tokens + w.decode_tokens for w in outcome.workers)
    assert sum(record.computed_tokens for record in outcome.records) == tokens
    prompts = sum(
        (r.request.prompt_tokens - r.cached_tokens) + 2 * r.output_tokens for r in outcome.completed
    )
    assert int(outcome.service.computed[-1].sum()) == prompts
    assert (outcome.service.charged[-1] == outcome.service.computed[-1]).all()
