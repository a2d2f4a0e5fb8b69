"""The verdict of the simulated benchmark, and what its figures are made of."""

import importlib
import math

import numpy as np
import pytest

from bench.simulation.baselines.request_rate import by_bucket, by_window
from bench.simulation.baselines.rounds import (
    ByTurns,
    FairByRequests,
    LeastCounterFirst,
    RoundFactory,
    instead,
)
from bench.simulation.difference import differences
from bench.simulation.machine import artifact_machine, steady, together
from bench.simulation.main import measure
from bench.simulation.row import Row
from bench.simulation.verdict import holds, thresholds, verdict
from weir_sim.outcome import ServiceLog
from weir_sim.report.fairness import ContendedShare, attainment, contended_shares, jain, max_gap
from weir_sim.simulation import simulate


def test_a_figure_holds_within_all_its_limits() -> None:
    limits = {"a": {"at_most": 2.0}, "b": {"at_least": 1.0, "at_most": 3.0}}
    assert holds({"a": 2.0, "b": 1.0}, limits)
    assert not holds({"a": 2.1, "b": 1.0}, limits)
    assert not holds({"a": 2.0, "b": 0.9}, limits)
    assert not holds({"a": math.nan, "b": 1.0}, limits)
    with pytest.raises(ValueError, match="no figure of"):
        holds({"c": 1.0}, limits)
    with pytest.raises(ValueError, match="at_most and/or at_least"):
        holds({"a": 1.0}, {"a": {"atmost": 2.0}})


def test_every_rows_control_is_judged_by_the_same_function() -> None:
    good = {"gap_tokens": 100.0}
    bad = {"gap_tokens": 1e6}
    assert _verdict(Row(good, bad, "")) == (True, True)
    assert _verdict(Row(good, good, "")) == (True, False)
    assert _verdict(Row(bad, bad, "")) == (False, True)
    with pytest.raises(ValueError, match="R1 did not measure"):
        verdict("R1", Row({}, bad, ""))


def _verdict(row: Row) -> tuple[bool, bool]:
    result = verdict("R1", row)
    return result["holds"], result["control_fails"]


def test_every_threshold_belongs_to_a_row_and_names_its_figure() -> None:
    for name, rules in thresholds().items():
        assert hasattr(importlib.import_module(f"bench.simulation.rows.r{int(name[1:]):02}"), "run")
        assert rules["limits"]
        for limit in rules["limits"].values():
            assert limit
            assert limit.keys() <= {"at_most", "at_least"}


def test_a_row_that_lacks_its_data_is_null_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRACES", raising=False)
    result = measure("R10")
    assert (result["holds"], result["figure"], result["control_fails"]) == (None, None, None)
    assert "$TRACES" in result["why"]


def test_vtc_keeps_the_gap_small_and_each_baseline_does_not() -> None:
    unequal = together("u", steady("a", 4.0, 20, 64, 32), steady("b", 4.0, 20, 512, 256))
    gaps = {name: _gap(unequal, make) for name, make in _ROUNDS.items()}
    assert gaps["vtc"] < 4_000
    assert gaps["turns"] > 8_000
    assert gaps["requests"] > 8_000


_ROUNDS: dict[str, RoundFactory | None] = {
    "vtc": None,
    "turns": ByTurns,
    "requests": FairByRequests,
}


def _gap(workload: object, make: RoundFactory | None) -> float:
    with instead(make):
        outcome = simulate(workload, artifact_machine())  # type: ignore[arg-type]
    return max_gap(outcome.service, [1, 1], computed=True)


def test_without_the_lift_idle_time_is_credit() -> None:
    shift = together(
        "s", steady("a", 4.0, 30), steady("b", 0.5, 4), steady("b", 4.0, 15, begin_s=15)
    )
    assert 2 * _gap(shift, None) < _gap(shift, LeastCounterFirst)


def test_limits_of_requests_admit_at_most_their_number() -> None:
    load = together("r", steady("a", 1.0, 180), steady("b", 0.05, 180))
    windowed, bucketed = by_window(load, 5), by_bucket(load, 5)
    times = [one.arrival_s for one in windowed.requests if one.tenant_id == "a"]
    assert all(sum(t <= other < t + 60 for other in times) <= 5 for t in times)
    assert sum(one.tenant_id == "b" for one in windowed.requests) == 9
    assert len(times) < sum(one.tenant_id == "a" for one in bucketed.requests) <= 5 + 15


def test_a_difference_counts_only_what_was_asked_for() -> None:
    load = together("d", steady("a", 1.0, 120, 10, 5), steady("b", 0.1, 120, 10, 5))
    outcome = simulate(load, artifact_machine())
    assert differences(load, outcome, 120.0).max() < 3.0


def _log(charged: list[list[int]], waiting: list[list[int]]) -> ServiceLog:
    table = np.array(charged)
    times = np.arange(float(len(charged)))
    return ServiceLog(("a", "b"), times, table, table, np.array(waiting))


def test_a_gap_is_of_a_time_in_which_both_wait() -> None:
    charged = [[0, 0], [100, 0], [200, 0], [200, 50], [900, 50]]
    both = _log(charged, [[1, 1]] * 5)
    assert max_gap(both, [1, 1]) == 850
    assert max_gap(both, [10, 1]) == 70
    apart = _log(charged, [[1, 1], [1, 1], [1, 0], [1, 1], [1, 1]])
    assert max_gap(apart, [1, 1]) == 700
    assert max_gap(_log(charged, [[1, 0]] * 5), [1, 1]) == 0


def test_a_due_is_by_weight_among_those_that_wait() -> None:
    log = _log([[0, 0], [300, 100], [600, 200]], [[1, 1]] * 3)
    assert attainment(log, [1, 1]) == {"a": 1.5, "b": 0.5}
    assert attainment(log, [3, 1]) == {"a": 1.0, "b": 1.0}
    assert jain([1.0, 1.0]) == 1.0
    assert jain([1.0, 0.0]) == 0.5


def test_a_contended_share_counts_only_while_two_wait() -> None:
    # In the last step `a` waits alone: what it gets then is nobody else's.
    log = _log([[0, 0], [300, 100], [600, 200], [9_000, 200]], [[1, 1], [1, 1], [1, 1], [1, 0]])
    shares = contended_shares(log, [3, 1])
    assert shares == {"a": ContendedShare(0.75, 0.75), "b": ContendedShare(0.25, 0.25)}
    assert contended_shares(_log([[0, 0], [9, 9]], [[1, 0], [1, 0]]), [1, 1]) == {}
