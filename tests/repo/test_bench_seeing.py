"""What traces cost is told round by round, beside what chance makes of it."""

import pytest

from bench.samples import Samples
from bench.seeing.overhead import overhead_figures


def test_each_round_is_held_against_its_own() -> None:
    samples = Samples()
    # A machine that gets slower from round to round: medians of all would compare two machines.
    for rps, cost in ((900.0, 1_000.0), (600.0, 1_500.0), (300.0, 3_000.0), (200.0, 4_000.0)):
        for name, share in (("off", 1.0), ("control", 1.0), ("default_sampling", 1.02)):
            samples.add(f"rps {name}", rps / share)
            samples.add(f"cpu_us {name}", cost * share)
        samples.add("rps all_traces", rps / 1.2)
        samples.add("cpu_us all_traces", cost * 1.25)
    figures = overhead_figures(samples)
    assert figures["cpu_overhead_default"] == pytest.approx(0.02)
    assert figures["cpu_overhead_all"] == pytest.approx(0.25)
    assert figures["overhead_all"] == pytest.approx(1 - 1 / 1.2, abs=1e-4)
    assert figures["overhead_control"] == figures["cpu_overhead_control"] == 0.0
    assert figures["cpu_overhead_default_error"] == pytest.approx(0.0, abs=1e-4)


def test_the_error_is_what_rounds_differ_by() -> None:
    samples = Samples()
    for off, control in ((1.0, 0.9), (1.0, 1.1), (1.0, 0.8), (1.0, 1.2)):
        samples.add("cpu_us off", off)
        samples.add("cpu_us control", control)
    figures = overhead_figures(samples)
    assert figures["cpu_overhead_control"] == pytest.approx(0.0)
    # Quartiles 0.825 and 1.175.
    assert figures["cpu_overhead_control_error"] == pytest.approx(0.175 / 2)
    assert figures["cpu_overhead_all"] is None
    assert figures["cpu_overhead_all_error"] is None
