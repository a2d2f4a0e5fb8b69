import math
from typing import Any

import pytest
import torch

from weir_core.errors import InvalidField
from weir_worker.sampling import SamplingParams, SamplingState
from weir_worker.sampling import sampler as sampler_module
from weir_worker.sampling.adjust import adjusted
from weir_worker.sampling.sampler import sample

VOCAB = 2000


def logits_of(rows: int, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, VOCAB, generator=generator) * spread


def draws(params: SamplingParams, logits: torch.Tensor, count: int) -> list[int]:
    """Tokens at positions 0 to count - 1, drawn as rows of batches."""
    tokens: list[int] = []
    while len(tokens) < count:
        states = [SamplingState(params) for _ in range(min(250, count - len(tokens)))]
        for offset, state in enumerate(states):
            state.drawn = len(tokens) + offset
        tokens.extend(sample(logits.expand(len(states), -1), states).tokens)
    return tokens


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("temperature", v) for v in (math.nan, math.inf, -math.inf, -0.1, 2.01)],
        *[("top_p", v) for v in (math.nan, math.inf, 0.0, -1.0, 1.0001)],
        *[("top_k", v) for v in (-2, 2**31)],
        *[("seed", v) for v in (2**63, -(2**63) - 1)],
        *[("min_p", v) for v in (math.nan, -0.1, 1.1)],
        *[("repetition_penalty", v) for v in (math.nan, math.inf, 0.0, -1.0, 10.5)],
        *[("presence_penalty", v) for v in (math.nan, -2.1, 2.1)],
        *[("frequency_penalty", v) for v in (math.inf, -2.1, 2.1)],
        *[("min_tokens", v) for v in (-1, 2**31)],
        *[("logprobs", v) for v in (-1, 21)],
    ],
)
def test_bad_parameter_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidField) as caught:
        SamplingParams(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field
    assert repr(value) in caught.value.message


def test_temperature_0_and_top_k_1_take_the_likeliest() -> None:
    logits = logits_of(1)
    best = int(logits.argmax())
    assert draws(SamplingParams(temperature=0.0), logits, 3) == [best] * 3
    assert draws(SamplingParams(top_k=1), logits, 3) == [best] * 3
    assert draws(SamplingParams(top_p=1e-9), logits, 3) == [best] * 3


@pytest.mark.parametrize("temperature", [1e-12, 1e-4, 0.01])
def test_tiny_temperature_is_clamped_and_never_nan(temperature: float) -> None:
    logits = logits_of(1, spread=1e4)
    params = SamplingParams(temperature=temperature, top_p=1e-4, seed=1)
    assert draws(params, logits, 5) == [int(logits.argmax())] * 5


def test_huge_logits_do_not_overflow() -> None:
    logits = torch.full((1, VOCAB), -3e38)
    logits[0, 7] = 3e38
    for params in (SamplingParams(), SamplingParams(top_k=50), SamplingParams(top_p=0.5)):
        assert draws(params, logits, 2) == [7, 7]


def reference(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The distribution by the textbook: sort everything, in double precision."""
    probabilities = (logits[0].double() / params.temperature).softmax(0)
    values, order = probabilities.sort(descending=True)
    if params.top_k > 0:
        values[params.top_k :] = 0
        values = values / values.sum()
    values[(values.cumsum(0) - values) >= params.top_p] = 0
    result = torch.zeros(VOCAB, dtype=torch.float64)
    result[order] = values / values.sum()
    return result


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=3),
        SamplingParams(temperature=0.7, top_k=5, seed=4),
        SamplingParams(temperature=1.3, top_p=0.8, seed=5),
        SamplingParams(temperature=0.9, top_k=40, top_p=0.6, seed=6),
        SamplingParams(temperature=2.0, top_p=0.999, seed=7),
    ],
)
def test_frequencies_follow_the_distribution(params: SamplingParams) -> None:
    logits = logits_of(1, seed=9)
    expected = reference(logits, params)
    count = 4000
    counts = torch.bincount(torch.tensor(draws(params, logits, count)), minlength=VOCAB)
    assert (counts[expected == 0] == 0).all(), "a token outside the nucleus was drawn"
    # Total variation of an empirical distribution over n effective outcomes.
    distance = (counts / count - expected).abs().sum() / 2
    outcomes = min(
        float((expected > 0).sum()),
        float(torch.exp(-torch.special.xlogy(expected, expected).sum()) * 3),
    )
    assert distance < 0.8 * math.sqrt(outcomes / count) + 0.01


def test_nucleus_wider_than_the_preselection_is_complete() -> None:
    logits = torch.zeros(1, VOCAB)
    params = SamplingParams(top_p=0.9, seed=1)
    tokens = draws(params, logits, 3000)
    assert len(set(tokens)) > sampler_module._NUCLEUS_WIDTH * 3


MIXED = [
    SamplingParams(temperature=0.0),
    SamplingParams(seed=1),
    SamplingParams(temperature=0.5, seed=2),
    SamplingParams(top_k=40, seed=3),
    SamplingParams(top_k=50, top_p=0.9, seed=4),
    SamplingParams(top_p=0.9, seed=5),
    SamplingParams(top_p=0.99, temperature=1.7, seed=6),
    SamplingParams(top_k=5000, seed=7),
]


def test_row_is_the_same_alone_and_among_any_mates() -> None:
    rows = len(MIXED) * 4
    logits = logits_of(rows, seed=11)
    logits[:, 100:200] = logits[:, 300:400]  # ties
    states = [SamplingState(MIXED[row % len(MIXED)]) for row in range(rows)]
    for drawn in range(20):
        for state in states:
            state.drawn = drawn
        together = sample(logits, states).tokens
        alone = [sample(logits[r : r + 1], [states[r]]).tokens[0] for r in range(rows)]
        assert together == alone


def test_draws_are_a_function_of_seed_and_position() -> None:
    state = SamplingState(SamplingParams(seed=-5))
    sequence = []
    for position in range(50):
        state.drawn = position
        sequence.append(state.uniform())
    state.drawn = 10
    assert state.uniform() == sequence[10]
    assert len(set(sequence)) == 50
    assert all(0.0 <= value < 1.0 for value in sequence)
    assert SamplingState(SamplingParams(seed=6)).uniform() != sequence[0]


def test_without_a_seed_two_requests_differ() -> None:
    first, second = SamplingState(SamplingParams()), SamplingState(SamplingParams())
    assert first.uniform() != second.uniform()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_row_with_broken_logits_fails_alone(bad: float) -> None:
    logits = logits_of(len(MIXED), seed=3)
    states = [SamplingState(params) for params in MIXED]
    healthy = sample(logits, states).tokens
    for broken in range(len(MIXED)):
        hurt = logits.clone()
        hurt[broken, 1234] = bad
        samples = sample(hurt, states)
        assert list(samples.failures) == [broken]
        assert all(samples.tokens[r] == healthy[r] for r in range(len(MIXED)) if r != broken)


def test_row_of_minus_infinity_fails_and_single_ones_do_not() -> None:
    logits = logits_of(2)
    logits[0] = -math.inf
    logits[1, :1990] = -math.inf
    samples = sample(logits, [SamplingState(SamplingParams(seed=1)) for _ in range(2)])
    assert list(samples.failures) == [0]
    assert samples.tokens[1] >= 1990


def test_failing_draw_fails_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SamplingState.uniform

    def uniform(state: SamplingState) -> float:
        if state.params.seed == 13:
            raise RuntimeError("broken generator")
        return real(state)

    monkeypatch.setattr(SamplingState, "uniform", uniform)
    states = [SamplingState(SamplingParams(seed=seed)) for seed in (1, 13, 2)]
    samples = sample(logits_of(3), states)
    assert samples.failures == {1: "sampling failed: RuntimeError"}


def state_after(params: SamplingParams, drawn: list[int], **given: Any) -> SamplingState:
    state = SamplingState(params, **given)
    for token in drawn:
        state.note(token)
    return state


def test_penalties_are_those_of_the_reference() -> None:
    logits = logits_of(1)[0]
    logits[3], logits[4], logits[5] = 2.0, -2.0, 1.0
    params = SamplingParams(
        repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25, logit_bias={9: 1.5}
    )
    state = state_after(params, [4, 5, 5], prompt=[3, 4])
    changed = adjusted(logits.unsqueeze(0), [state])[0]

    expected = logits.clone()
    expected[9] += 1.5
    expected[3] = 1.0
    expected[4] = -4.0 - 0.5 - 0.25
    expected[5] = 0.5 - 0.5 - 2 * 0.25
    assert torch.equal(changed, expected)


@pytest.mark.parametrize("penalty", [1e-5, 1e-39, 5e-324, 10.0])
def test_any_repetition_penalty_leaves_a_token_to_draw(penalty: float) -> None:
    logits = logits_of(1)
    top = int(logits[0].argmax())
    params = SamplingParams(repetition_penalty=penalty, min_tokens=3, seed=1)
    state = state_after(params, [top], prompt=range(VOCAB), stop_ids=[3])
    samples = sample(logits, [state])
    assert not samples.failures
    assert samples.tokens[0] != 3


def test_adjusting_one_row_changes_no_other_and_not_the_given_logits() -> None:
    logits = logits_of(3)
    before = logits.clone()
    states = [
        SamplingState(SamplingParams()),
        state_after(
            SamplingParams(frequency_penalty=2.0, temperature=0), [int(logits[1].argmax())]
        ),
        SamplingState(SamplingParams(temperature=0)),
    ]
    changed = adjusted(logits, states)

    assert torch.equal(logits, before)
    assert torch.equal(changed[[0, 2]], before[[0, 2]])
    assert not torch.equal(changed[1], before[1])


def test_nothing_ends_before_min_tokens() -> None:
    logits = logits_of(1)
    best = int(logits.argmax())
    params = SamplingParams(temperature=0, min_tokens=2)
    tokens = [
        sample(logits, [state_after(params, [0] * drawn, stop_ids=[best])]).tokens[0]
        for drawn in range(4)
    ]

    assert best not in tokens[:2]
    assert tokens[2:] == [best, best]


@pytest.mark.parametrize("narrow", [{}, {"top_k": 50}, {"top_p": 0.999}])
def test_min_p_leaves_out_what_is_much_less_likely(narrow: dict[str, Any]) -> None:
    logits = logits_of(1)
    probabilities = logits[0].softmax(0)
    allowed = set((probabilities >= 0.2 * probabilities.max()).nonzero().flatten().tolist())
    drawn = set(draws(SamplingParams(min_p=0.2, seed=1, **narrow), logits, 500))

    assert len(drawn) > 1
    assert drawn <= allowed


def test_logprobs_are_the_models_own_and_finite() -> None:
    logits = logits_of(2)
    logits[0, 7] = float("-inf")
    params = SamplingParams(temperature=0.0, logprobs=5, logit_bias={7: 100.0})
    samples = sample(logits, [SamplingState(params), SamplingState(SamplingParams())])
    expected = logits[0].log_softmax(0)
    values, ids = expected.topk(5)
    told = samples.logprobs[0]

    assert told.top_ids == ids.tolist()
    assert told.top_logprobs == pytest.approx(values.tolist())
    assert told.logprob == pytest.approx(float(expected[samples.tokens[0]]))
    assert list(samples.logprobs) == [0]

    none = SamplingState(SamplingParams(logprobs=0))
    forced = sample(torch.tensor([[0.0, float("-inf")]]), [none]).logprobs[0]
    assert (forced.logprob, forced.top_ids) == (0.0, [])
    everything = sample(
        torch.tensor([[0.0, float("-inf")]]), [SamplingState(SamplingParams(logprobs=2))]
    )
    assert everything.logprobs[0].top_logprobs == [0.0, -9999.0]


def test_adjusted_rows_draw_the_same_alone_and_in_a_batch() -> None:
    logits = logits_of(8)
    kinds = [
        SamplingParams(seed=3, min_p=0.1),
        SamplingParams(seed=4, presence_penalty=1.0, top_p=0.9),
        SamplingParams(seed=5, repetition_penalty=1.3, top_k=40),
        SamplingParams(seed=6, logprobs=3),
    ]
    states = [state_after(kinds[row % 4], [row, row + 1], prompt=[5, 6]) for row in range(8)]
    together = sample(logits, states)
    for row, state in enumerate(states):
        alone = sample(logits[row : row + 1], [state])
        assert alone.tokens == [together.tokens[row]]
        assert alone.logprobs.get(0) == together.logprobs.get(row)
