"""When a load's requests are sent."""

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_cli.errors import CommandError
from weir_cli.load.arrivals import Arrivals
from weir_cli.load.lengths import parse_lengths
from weir_cli.load.load_plan import LoadSize, drawn_plan

_RATES = st.floats(0.1, 500)
_BURSTS = st.floats(0.2, 20) | st.just(math.inf)


@given(rate=_RATES, burstiness=_BURSTS, ramp=st.floats(0, 30), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_moments_never_fall_and_depend_on_nothing_but_the_seed(
    rate: float, burstiness: float, ramp: float, seed: int
) -> None:
    arrivals = Arrivals(rate, burstiness, ramp)
    moments = list(islice(arrivals.moments(seed), 300))
    assert moments == sorted(moments)
    assert moments[0] >= 0
    assert moments == list(islice(arrivals.moments(seed), 300))


@pytest.mark.parametrize("burstiness", [0.5, 1.0, 4.0])
def test_gaps_have_the_rate_and_the_variation_that_the_burstiness_says(burstiness: float) -> None:
    moments = np.fromiter(islice(Arrivals(20.0, burstiness).moments(3), 20_000), float)
    gaps = np.diff(moments)
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(1 / math.sqrt(burstiness), rel=0.07)


def test_constant_gaps_are_all_equal() -> None:
    moments = list(islice(Arrivals(4.0, math.inf).moments(0), 9))
    assert np.diff(moments) == pytest.approx([0.25] * 8)


@given(rate=st.floats(1, 100), ramp=st.floats(1, 20))
@settings(max_examples=30, deadline=None)
def test_a_ramp_offers_half_of_what_its_time_would_have_at_the_full_rate(
    rate: float, ramp: float
) -> None:
    moments = np.fromiter(islice(Arrivals(rate, math.inf, ramp).moments(0), 5_000), float)
    in_ramp = int((moments < ramp).sum())
    assert in_ramp == pytest.approx(rate * ramp / 2, abs=2)
    after = np.diff(moments[moments > ramp])
    if len(after):
        assert after == pytest.approx(np.full(len(after), 1 / rate), rel=1e-6)


def test_without_a_rate_all_come_at_once() -> None:
    assert list(islice(Arrivals().moments(0), 3)) == [0.0, 0.0, 0.0]


@given(seed=st.integers(0, 999), count=st.integers(1, 600))
@settings(max_examples=30, deadline=None)
def test_a_longer_load_begins_like_a_shorter_one(seed: int, count: int) -> None:
    lengths = [
        (parse_lengths("uniform:1:9", "--input-len"), parse_lengths("normal:8:3", "--output-len")),
        (parse_lengths("70", "--input-len"), parse_lengths("5", "--output-len")),
    ]
    load = drawn_plan(Arrivals(5.0), lengths, ("a", "b"), LoadSize(count), seed)
    longer = drawn_plan(Arrivals(5.0), lengths, ("a", "b"), LoadSize(count + 50), seed)
    assert load == longer[:count]
    assert {one.prompt_tokens for one in load} <= {*range(1, 10), 70}
    assert [one.tenant for one in load[:4]] == ["a", "b", "a", "b"][: len(load)]
    assert all(one.output_tokens >= 1 for one in load)


def test_a_duration_ends_the_load() -> None:
    lengths = [(parse_lengths("1", "--input-len"), parse_lengths("1", "--output-len"))]
    load = drawn_plan(Arrivals(10.0, math.inf), lengths, ("a",), LoadSize(duration_s=2.05), 0)
    assert len(load) == 20
    assert load[-1].at_s < 2.05


@pytest.mark.parametrize("text", ["", "0", "x", "normal:5", "uniform:9:3", "gauss:1:2", "2000000"])
def test_lengths_that_cannot_be_are_refused_by_name(text: str) -> None:
    with pytest.raises(CommandError, match="--input-len is"):
        parse_lengths(text, "--input-len")
