"""Rows of the simulated benchmark, in their quick form and without data."""

import importlib

import pytest

from bench.simulation.row import Context
from bench.simulation.verdict import thresholds, verdict

ROWS = ("R5", "R6", "R8", "R9", "R11", "R12", "R13")


@pytest.mark.parametrize("name", ROWS)
def test_a_row_measures_all_that_is_judged_and_its_control_too(name: str) -> None:
    module = importlib.import_module(f"bench.simulation.rows.r{int(name[1:]):02}")
    row = module.run(Context(traces=None, quick=True, progress=lambda text: None))
    result = verdict(name, row)
    assert row.control.keys() <= row.figures.keys()
    assert row.control.keys() & thresholds()[name]["limits"].keys()
    assert result["why"].strip().endswith(".")
    assert "generated" in result["why"]
    # Without local increments staleness costs so much that it shows in the shortest of runs.
    assert name != "R8" or result["control_fails"]
