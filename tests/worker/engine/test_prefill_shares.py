from hypothesis import given
from hypothesis import strategies as st

from weir_worker.engine.prefill_shares import prefill_shares

prompts = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3000)), max_size=12)


@given(prompts, st.integers(0, 2048))
def test_all_of_the_budget_is_used_and_no_more(
    remaining: list[tuple[str, int]], budget: int
) -> None:
    shares = prefill_shares(remaining, budget)
    assert sum(shares) == min(budget, sum(length for _, length in remaining))
    assert all(0 <= share <= length for share, (_, length) in zip(shares, remaining, strict=True))


@given(prompts, st.integers(1, 2048))
def test_tenants_share_max_min_fairly(remaining: list[tuple[str, int]], budget: int) -> None:
    shares = prefill_shares(remaining, budget)
    granted: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for share, (tenant, length) in zip(shares, remaining, strict=True):
        granted[tenant] = granted.get(tenant, 0) + share
        wanted[tenant] = wanted.get(tenant, 0) + length
    unsatisfied = [granted[t] for t in granted if granted[t] < wanted[t]]
    # Whoever lacks something has as much as anyone, but for the indivisible token.
    if unsatisfied:
        assert max(granted.values()) <= min(unsatisfied) + len(granted)


def test_short_prompts_of_one_tenant_finish_one_after_the_other() -> None:
    assert prefill_shares([("a", 128)] * 4, 256) == [128, 64, 32, 32]


def test_long_prompt_leaves_half_to_those_behind_it() -> None:
    assert prefill_shares([("a", 100_000), ("a", 20)], 512) == [492, 20]
    assert prefill_shares([("a", 100_000), ("a", 9000), ("a", 30)], 512) == [354, 128, 30]


def test_long_prompt_of_another_tenant_takes_half() -> None:
    assert prefill_shares([("a", 9000), ("a", 9000), ("b", 9000)], 512) == [128, 128, 256]
