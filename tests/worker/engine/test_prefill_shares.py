from hypothesis import given
from hypothesis import strategies as st

from weir_worker.engine.prefill_shares import prefill_shares

EQUAL = dict.fromkeys("abc", 1)

prompts = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3000)), max_size=12)


@given(prompts, st.integers(0, 2048) | st.integers(0, 60), st.integers(1, 100))
def test_all_of_the_budget_is_used_and_no_more(
    remaining: list[tuple[str, int]], budget: int, turn: int
) -> None:
    shares = prefill_shares(remaining, budget, EQUAL, turn=turn)
    assert sum(shares) == min(budget, sum(length for _, length in remaining))
    assert all(0 <= share <= length for share, (_, length) in zip(shares, remaining, strict=True))


@given(
    prompts,
    st.integers(1, 2048),
    st.fixed_dictionaries({tenant: st.integers(1, 1000) for tenant in "abc"}),
)
def test_tenants_share_max_min_fairly_by_weight(
    remaining: list[tuple[str, int]], budget: int, weights: dict[str, int]
) -> None:
    shares = prefill_shares(remaining, budget, weights)
    granted: dict[str, int] = {}
    wanted: dict[str, int] = {}
    for share, (tenant, length) in zip(shares, remaining, strict=True):
        granted[tenant] = granted.get(tenant, 0) + share
        wanted[tenant] = wanted.get(tenant, 0) + length
    # Whoever lacks something has as much for its weight as anyone, but for indivisible tokens.
    for poor in granted:
        if granted[poor] < wanted[poor]:
            for rich in granted:
                room = len(granted) * max(weights[poor], weights[rich])
                assert granted[rich] * weights[poor] <= granted[poor] * weights[rich] + room


def test_a_weight_of_three_gets_three_quarters() -> None:
    weights = {"a": 3, "b": 1}
    assert prefill_shares([("a", 9000), ("b", 9000)], 512, weights) == [384, 128]
    assert prefill_shares([("a", 100), ("b", 9000)], 512, weights) == [100, 412]


def test_short_prompts_of_one_tenant_finish_one_after_the_other() -> None:
    assert prefill_shares([("a", 128)] * 4, 256, EQUAL) == [128, 64, 32, 32]


def test_long_prompt_leaves_half_to_those_behind_it() -> None:
    assert prefill_shares([("a", 100_000), ("a", 20)], 512, EQUAL) == [492, 20]
    many = [("a", 100_000), ("a", 9000), ("a", 30)]
    assert prefill_shares(many, 512, EQUAL) == [354, 128, 30]


def test_few_tokens_of_a_tenant_are_halved_over_time() -> None:
    prompts = [("a", 9000), ("a", 9000), ("a", 9000)]
    turns = [prefill_shares(prompts, 16, EQUAL, turn=turn) for turn in range(1, 9)]
    assert all(sorted(shares) == [0, 0, 16] for shares in turns), "one prompt's KV is read"
    assert [sum(shares) // 16 for shares in zip(*turns, strict=True)] == [4, 2, 2]
    assert prefill_shares([("a", 9000), ("a", 5)], 12, EQUAL, turn=2) == [7, 5]


def test_long_prompt_of_another_tenant_takes_half() -> None:
    shares = prefill_shares([("a", 9000), ("a", 9000), ("b", 9000)], 512, EQUAL)
    assert shares == [128, 128, 256]


@given(
    st.lists(st.integers(1, 3000), min_size=2, max_size=12),
    st.lists(st.integers(1, 1000), min_size=12, max_size=12),
    st.integers(0, 500),
)
def test_every_tenant_advances_where_there_are_tokens_enough(
    lengths: list[int], weights: list[int], more: int
) -> None:
    remaining = [(f"t{index}", length) for index, length in enumerate(lengths)]
    by_name = {f"t{index}": weight for index, weight in enumerate(weights)}
    shares = prefill_shares(remaining, len(lengths) + more, by_name)
    assert min(shares) >= 1


def test_a_small_weight_does_not_wait_for_the_end_of_a_long_prompt() -> None:
    assert prefill_shares([("a", 9000), ("b", 20)], 4, {"a": 9, "b": 1}) == [3, 1]


def test_more_tenants_than_tokens_take_turns() -> None:
    remaining = [("a", 90), ("b", 50), ("c", 10)]
    assert prefill_shares(remaining, 2, EQUAL) == [1, 1, 0]
    assert prefill_shares(remaining, 2, EQUAL, passed=["c"]) == [1, 0, 1]
    assert prefill_shares(remaining, 2, EQUAL, passed=["b", "c"]) == [0, 1, 1]
