"""The cost model that probes give."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.calibration.samples import WORKER
from weir_cli.calibration.cost_fit import fit_cost
from weir_cli.calibration.measurement import DecodeStretch, Measurement, Served, decode_stretch
from weir_cli.calibration.prediction import agreements, as_served, figures_of, simulated
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.load.exchange import Exchange
from weir_cli.load.load_request import LoadRequest
from weir_sim.cost.fitted import ServedCost
from weir_sim.cost.linear import LinearCost

_STEP_TOKENS = 128


def _alone(prompt: int, true: ServedCost, noise: float = 1.0) -> Measurement:
    cost = true.cost
    steps = math.ceil(prompt / _STEP_TOKENS)
    first = true.request_s + steps * cost.step + cost.prefill_token * prompt
    first += cost.prefill_position * prompt * (prompt + 1) / 2
    served = Served(0.0, prompt, 1, first * noise, None, first * noise)
    return Measurement(f"prompt {prompt}", 1.0, (served,) * 3)


def _batch(streams: int, context: int, true: ServedCost, noise: float = 1.0) -> Measurement:
    step_s = true.cost.step_s(0, 0, streams, context * streams) * noise
    served = Served(0.0, context, 40, 0.1, step_s, 40 * step_s)
    stretch = DecodeStretch(streams, step_s, context * streams)
    return Measurement(f"decode {streams} {context}", 1.0, (served,) * streams, stretch)


def _probes(true: ServedCost, rng: np.random.Generator | None = None) -> list[Measurement]:
    def noise() -> float:
        return 1.0 if rng is None else float(rng.uniform(0.97, 1.03))

    probes = [_alone(prompt, true, noise()) for prompt in (64, 128, 288, 512)]
    probes += [_batch(streams, 64, true, noise()) for streams in (2, 4, 8, 16)]
    return [*probes, _batch(2, 512, true, noise()), _batch(4, 512, true, noise())]


_COSTS = st.builds(
    ServedCost,
    st.builds(
        LinearCost,
        st.floats(0.002, 0.05),
        st.floats(1e-4, 2e-3),
        st.floats(0, 2e-7),
        st.floats(1e-4, 5e-3),
        st.floats(1e-7, 1e-5),
    ),
    st.floats(0.001, 0.03),
)


@given(true=_COSTS)
@settings(max_examples=40, deadline=None)
def test_probes_of_a_linear_machine_give_that_machine_back(true: ServedCost) -> None:
    fit = fit_cost(_probes(true), _STEP_TOKENS)
    assert fit.error < 0.01
    assert fit.served.cost.step_s(0, 0, 12, 12 * 300) == pytest.approx(
        true.cost.step_s(0, 0, 12, 12 * 300), rel=0.05
    )
    assert fit.served.cost.step_s(400, 80_200, 0, 0) == pytest.approx(
        true.cost.step_s(400, 80_200, 0, 0), rel=0.15
    )


@given(true=_COSTS, seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_noise_makes_no_coefficient_negative(true: ServedCost, seed: int) -> None:
    fit = fit_cost(_probes(true, np.random.default_rng(seed)), _STEP_TOKENS)
    cost = fit.served.cost
    parts = (cost.step, cost.prefill_token, cost.prefill_position, cost.decode, cost.context_token)
    assert min(parts) >= 0
    assert fit.served.request_s >= 0
    assert fit.error < 0.05


def test_a_decode_stretch_is_the_time_in_which_all_streams_decode() -> None:
    exchanges = []
    for index, begin in enumerate((0.0, 0.5)):
        exchange = Exchange(LoadRequest(index, 0.0, "a", 10, 21), 0.0)
        exchange.arrivals = [(begin + 0.1 * at, 1) for at in range(21)]
        exchange.prompt_tokens, exchange.output_tokens = 10, 21
        exchange.end_s = exchange.arrivals[-1][0]
        exchanges.append(exchange)
    stretch = decode_stretch(exchanges)
    assert stretch is not None
    assert stretch.streams == 2
    assert stretch.step_s == pytest.approx(0.1, rel=0.08)
    assert stretch.context == pytest.approx((10 + 6 + 7.5) + (10 + 1 + 7.5), abs=2)
    exchanges[0].arrivals = []
    assert decode_stretch(exchanges) is None


def test_the_simulator_is_right_about_itself_and_wrong_about_a_machine_half_as_fast() -> None:
    cost = LinearCost(0.01, 5e-4, 0.0, 1e-3, 1e-6)
    load = [LoadRequest(at, at * 0.25, "a", 64, 16) for at in range(24)]

    def runs(factor: float) -> list[Measurement]:
        slow = LinearCost(*(part * factor for part in (0.01, 5e-4, 0.0, 1e-3, 1e-6)))
        outcome = simulated(load, ServedCost(slow, 0.008), WORKER, ChosenSettings())
        return [Measurement("held-out", outcome.end_s, as_served(outcome))] * 3

    predicted = as_served(simulated(load, ServedCost(cost, 0.008), WORKER, ChosenSettings()))
    same = agreements(runs(1.0), predicted)
    assert all(one.holds for one in same)
    assert figures_of(same)["sim_error_p95"] < 1e-9
    other = agreements(runs(2.0), predicted)
    assert not any(one.holds for one in other if one.latency == "e2e")
    assert figures_of(other)["sim_error_p50"] > 0.3
