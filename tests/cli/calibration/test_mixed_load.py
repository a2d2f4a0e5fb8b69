"""Loads that are made of several kinds of request."""

from weir_cli.calibration.mixed_load import mixed, spread
from weir_cli.calibration.plan import CalibrationPlan

CELLS = CalibrationPlan((64, 512), (16, 64), (1,), 60.0).cells


def test_a_mix_has_each_kind_and_nothing_between() -> None:
    load = mixed(CELLS, 4.0, 200, seed=1)
    kinds = {(one.prompt_tokens, one.output_tokens) for one in load}
    assert kinds == {(cell.prompt, cell.output) for cell in CELLS}


def test_a_spread_load_has_all_lengths_between_and_its_median_in_their_midst() -> None:
    load = spread(CELLS, 4.0, 400, seed=1)
    prompts = sorted(one.prompt_tokens for one in load)
    outputs = sorted(one.output_tokens for one in load)
    assert (prompts[0] >= 64, prompts[-1] <= 512) == (True, True)
    assert (outputs[0] >= 16, outputs[-1] <= 64) == (True, True)
    # A quarter of the load around the median is within a quarter of the range, not a gap of it.
    assert prompts[250] - prompts[150] < 0.5 * (512 - 64)
    assert len(set(prompts)) > 200
    assert [one.at_s for one in load] == sorted(one.at_s for one in load)
