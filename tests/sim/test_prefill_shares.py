"""The simulator divides a step's prefill as the product's worker does."""

from hypothesis import given
from hypothesis import strategies as st

from tests.sim.loads import request
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_sim.fleet.prefill_shares import prefill_shares
from weir_sim.fleet.sequence import SimSequence
from weir_worker.engine.prefill_shares import prefill_shares as workers_shares


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5_000)), max_size=8),
    st.integers(0, 2_048) | st.integers(0, 60),
    st.fixed_dictionaries({tenant: st.integers(1, 10) for tenant in "abc"}),
    st.integers(1, 100),
)
def test_both_divide_alike(
    prompts: list[tuple[str, int]], budget: int, weights: dict[str, int], turn: int
) -> None:
    sequences = [
        SimSequence(
            AttemptKey(f"r{index}", 1),
            request(f"r{index}", tenant_id=tenant, prompt_tokens=tokens),
            weights[tenant],
            index,
        )
        for index, (tenant, tokens) in enumerate(prompts)
    ]
    theirs = workers_shares(prompts, budget, weights, turn=turn)
    assert prefill_shares(sequences, budget, turn) == theirs
