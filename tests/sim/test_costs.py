"""Cost models: measured tables, published polynomials, least squares."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from weir_sim.cost.builtin import A10G, CPU_2_CORES, H100, H100_70B, OPT_13B
from weir_sim.cost.distserve import read_distserve
from weir_sim.cost.fitted import MeasuredStep, fit_linear
from weir_sim.cost.linear import LinearCost
from weir_sim.cost.model import CostModel
from weir_sim.cost.splitwise import read_splitwise
from weir_sim.cost.step_timer import StepTimer


def test_least_squares_find_the_coefficients_that_made_the_steps() -> None:
    truth = LinearCost(0.02, 1e-4, 3e-9, 2e-3, 5e-7)
    rng = random.Random(1)
    steps = []
    for _ in range(200):
        shape = (
            rng.randrange(512),
            rng.randrange(100_000),
            rng.randrange(32),
            rng.randrange(9_000),
        )
        steps.append(MeasuredStep(*shape, seconds=truth.step_s(*shape)))
    fitted = fit_linear(steps)
    for name in ("step", "prefill_token", "prefill_position", "decode", "context_token"):
        assert getattr(fitted, name) == pytest.approx(getattr(truth, name), rel=1e-6)


def test_no_coefficient_is_negative_and_no_step_is_an_error() -> None:
    rng = random.Random(2)
    steps = [
        MeasuredStep(0, 0, n, 100 * n, 0.05 - 0.001 * n + rng.random() * 1e-4) for n in range(1, 20)
    ]
    fitted = fit_linear(steps)
    assert fitted.decode == fitted.context_token == 0.0
    assert fitted.step == pytest.approx(0.04, rel=0.1)
    with pytest.raises(ValueError, match="no steps"):
        fit_linear([])


@pytest.mark.parametrize("cost", [A10G, CPU_2_CORES, H100, H100_70B, OPT_13B])
def test_many_decode_steps_at_once_take_what_each_takes(cost: CostModel) -> None:
    timer = StepTimer(cost, speed=1.0)
    together = timer.decodes_us(7, 3_000, 40)
    assert together == [timer.step_us(0, 0, 7, 3_000 + 7 * step) for step in range(40)]


def test_the_default_models_rates_are_those_that_were_measured() -> None:
    alone = CPU_2_CORES.step_s(0, 0, 1, 160)
    sixteen = CPU_2_CORES.step_s(0, 0, 16, 16 * 160)
    assert 1 / alone == pytest.approx(13.4, rel=0.1)
    assert 16 / sixteen == pytest.approx(115, rel=0.1)


def test_distserves_polynomials_are_read_as_published(tmp_path: Path) -> None:
    path = tmp_path / "fits.json"
    path.write_text(
        json.dumps(
            {
                "opt": {
                    "2": {
                        "decoding_large_small_bs_threshold": 95,
                        "prefill": [18.0, 0.1, 7e-6],
                        "decoding_smallbs": [20.0, 6e-4, 0.04],
                        "decoding_largebs": [7.0, 5e-4, 0.16],
                    }
                }
            }
        )
    )
    cost = read_distserve(path, "opt", 2)
    whole = cost.step_s(512, 512 * 513 // 2, 0, 0)
    assert whole == pytest.approx((18 + 51.2 + 7e-6 * 512 * 513) / 1e3)
    assert cost.step_s(0, 0, 16, 8_000) == pytest.approx((20 + 4.8 + 0.64) / 1e3)
    assert cost.step_s(0, 0, 100, 8_000) == pytest.approx((7 + 4.0 + 16) / 1e3)
    # One reading of the weights serves both.
    both = cost.step_s(512, 512 * 513 // 2, 16, 8_000)
    assert both == pytest.approx(whole + (4.8 + 0.64 + 20 - 18) / 1e3)
    with pytest.raises(KeyError):
        read_distserve(path, "opt", 1)


def test_splitwises_table_is_interpolated_and_goes_on_beyond_its_end(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [
        "model,hardware,prompt_size,batch_size,prompt_time,token_time,tensor_parallel",
        "m,h,512,1,50,30,8",
        "m,h,512,1,54,32,8",
        "m,h,1024,1,80,31,8",
        "m,h,512,4,140,33,8",
        "m,h,512,1,500,300,2",
    ]
    path.write_text("\n".join(rows))
    cost = read_splitwise(path, "m", "h", 8)
    assert cost.step_s(512, 0, 0, 0) == pytest.approx(0.052)
    assert cost.step_s(768, 0, 0, 0) == pytest.approx(0.066)
    assert cost.step_s(4_096, 0, 0, 0) == pytest.approx(0.26)
    assert cost.step_s(0, 0, 4, 0) == pytest.approx(0.033)
    assert cost.step_s(512, 0, 4, 0) == pytest.approx(0.052 + 0.033 - 0.031)
    with pytest.raises(ValueError, match="no rows of m, h, TP 4"):
        read_splitwise(path, "m", "h", 4)


def test_a_faster_worker_takes_less_and_never_nothing() -> None:
    assert StepTimer(H100, speed=2.0).step_us(0, 0, 1, 1) < StepTimer(H100, 1.0).step_us(0, 0, 1, 1)
    nothing = LinearCost(0.0, 0.0, 0.0, 0.0, 0.0)
    assert StepTimer(nothing, 1.0).decodes_us(3, 10, 5) == [1] * 5
    assert np.all(nothing.decodes_s(1, np.arange(3)) == 0.0)
