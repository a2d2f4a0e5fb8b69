"""What is recommended from measurements, and what is made of it."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.calibration.samples import CELLS, SERVED, TARGETS, WORKER, findings, grid
from weir_cli.calibration.advice import Recommendation
from weir_cli.calibration.comparison import Comparison, Verdict
from weir_cli.calibration.directory_edit import put_settings
from weir_cli.calibration.findings import levels_of
from weir_cli.calibration.journal import Journal
from weir_cli.calibration.measurement import measurement_of
from weir_cli.calibration.predicted_times import lone_ttft_s
from weir_cli.calibration.profile_store import StoredProfile, cost_text, read_profile, store
from weir_cli.calibration.recommendation import recommend
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.calibration.settings_search import Search
from weir_cli.calibration.trials import Trial
from weir_cli.errors import CommandError
from weir_cli.simulation_cost import cost_model
from weir_gateway.directory.file import read_document
from weir_worker.settings import WorkerSettings

_DIRECTORY = """\
plans: [{id: p, limits: []}]
models:
  - name: m
    versions: [{version: "1", folder: /models/m}]
    max_context: 8Ki
    parameters: {default_max_new_tokens: 100, alpha: 0.9}
tenants: []
"""


def _searched(**values: float) -> Search:
    """A choice of these values."""
    trial = Trial(
        ChosenSettings(values, "shortest_remaining"), (1.0, 2.0), ((1.0,), (0.8,)), 0.1, 99
    )
    size, step, wait = (trial.settings.value(name) for name in _SEARCHED)
    return Search(trial, trial, {size: trial}, {"fifo": trial}, {step: trial}, {wait: trial})


_SEARCHED = ("max_batch_size", "max_step_tokens", "batch_wait_ms")


def _made() -> Recommendation:
    return recommend(findings(), _searched(max_batch_size=8, batch_wait_ms=0))


def _values(made: Recommendation) -> dict[str, float | str]:
    return {one.name: one.value for one in (*made.parameters, *made.worker, *made.tenant)}


def test_every_value_has_a_reason_with_what_was_compared() -> None:
    made = _made()
    values = _values(made)
    assert values["max_batch_size"] == 8
    assert values["max_concurrent_requests"] == 256
    assert values["max_batch_tokens"] == WORKER.kv_blocks * WORKER.block_size
    assert values["alpha"] == pytest.approx(0.5)
    assert values["batch_wait_ms"] == 0
    assert made.policy.value == "shortest_remaining"
    assert all(one.why for one in (*made.parameters, made.policy, *made.worker, *made.tenant))
    reasons = {one.name: one.why for one in made.parameters}
    assert "over 1 to 2 requests/s, simulated: 8 1.30" in reasons["max_batch_size"]
    assert "first token at 1/s on average after 100 ms (0 ms)" in reasons["batch_wait_ms"]
    assert set(reasons) == {
        "max_batch_size", "max_batch_tokens", "batch_wait_ms", "max_concurrent_requests", "alpha",
        "max_step_tokens", "long_context_threshold",
    }  # fmt: skip


@pytest.mark.parametrize("kept", [True, False])
def test_where_nothing_is_better_the_values_in_force_stay(kept: bool) -> None:
    standing = ChosenSettings({"max_batch_size": 3, "max_batch_tokens": 9_000})
    found = replace(findings(), standing=standing)
    search = replace(_searched(max_batch_size=3), kept=True) if kept else None
    made = _values(recommend(found, search))
    assert made["max_batch_size"] == 3
    assert made["max_batch_tokens"] == 9_000
    assert made["max_step_tokens"] == 512


def test_a_kind_of_request_that_never_keeps_its_targets_is_left_out() -> None:
    measured = grid()
    for level in (1, 2, 4, 8, 16):
        failing = measured["long-long", level]
        slow = tuple(replace(one, ttft_s=60.0) for one in failing.requests)
        measured["long-long", level] = replace(failing, requests=slow)
    found = replace(findings(), levels=levels_of(measured, CELLS, TARGETS))
    assert found.alive == CELLS[:1]


@given(prompt_ms=st.floats(0.05, 20), step_ms=st.floats(1, 200), answers=st.floats(0.01, 1))
@settings(max_examples=60, deadline=None)
def test_values_stay_within_the_directorys_bounds(
    tmp_path_factory: pytest.TempPathFactory, prompt_ms: float, step_ms: float, answers: float
) -> None:
    cost = replace(SERVED.cost, prefill_token=prompt_ms / 1e3, step=step_ms / 1e3)
    found = replace(findings(answers), served=replace(SERVED, cost=cost))
    made = recommend(found, _searched(max_batch_size=64))
    values = _values(made)
    assert float(values["max_batch_tokens"]) >= WORKER.max_context
    path = tmp_path_factory.mktemp("d") / "directory.yaml"
    path.write_text(_DIRECTORY)
    put_settings(path, "m", WORKER.profile, made.chosen)
    assert read_document(path).models[0].parameters is not None


def test_the_long_context_threshold_is_what_half_of_the_target_is_enough_for() -> None:
    threshold = int(_values(_made())["long_context_threshold"])
    half_s = (TARGETS.ttft_ms or 0) / 2e3
    assert lone_ttft_s(SERVED, threshold, 512) <= half_s
    assert lone_ttft_s(SERVED, threshold + 16, 512) > half_s


def test_values_go_where_the_scheduler_looks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "directory.yaml"
    path.write_text(_DIRECTORY)
    put_settings(path, "m", WORKER.profile, _made().chosen)
    document = read_document(path)
    parameters = document.models[0].parameters
    assert parameters is not None
    assert parameters.default_max_new_tokens == 100
    assert parameters.alpha == pytest.approx(0.5)
    assert parameters.profiles[WORKER.profile].max_batch_size == 8
    assert document.pools[0].scheduler_policy == "shortest_remaining"
    assert (tmp_path / "directory.yaml.bak").read_text() == _DIRECTORY
    with pytest.raises(CommandError, match="no 'other' there"):
        put_settings(path, "other", WORKER.profile, _made().chosen)


def test_profiles_are_stored_by_version_and_accepted_by_directory_worker_and_simulator(
    tmp_path: Path,
) -> None:
    made = _made()
    stored = StoredProfile(
        WORKER.profile, "org/m", made.chosen, "better", made, SERVED, TARGETS.given
    )
    first, second = store(tmp_path, stored), store(tmp_path, stored)
    assert [path.name for path in (first, second)] == ["v0001.yaml", "v0002.yaml"]
    profile, model, chosen = read_profile(second)
    assert (profile, model) == (WORKER.profile, "org/m")
    assert dict(chosen.parameters) == pytest.approx(dict(made.chosen.parameters))
    document = yaml.safe_load(second.read_text())
    assert document["version"] == 2
    settings_ = WorkerSettings(**document["worker"])
    assert settings_.kv_memory_bytes == document["worker"]["kv_memory_bytes"]
    assert cost_model(cost_text(SERVED)).step_s(100, 5050, 3, 300) == pytest.approx(
        SERVED.cost.step_s(100, 5050, 3, 300), rel=1e-4
    )


def test_a_journal_goes_on_where_a_kill_has_cut_it_and_refuses_other_facts(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    measured = grid()["long-long", 2]
    journal = Journal(path, {"minutes": 1})
    journal.add(measured)
    with path.open("a") as file:
        file.write('{"name": "grid short-short 1", "sec')
    again = Journal(path, {"minutes": 1})
    assert again.measured == {measured.name: measured}
    again.add(grid()["short-short", 1])
    assert len(Journal(path, {"minutes": 1}).measured) == 2
    with pytest.raises(CommandError, match="other minutes; give another --out, or --fresh"):
        Journal(path, {"minutes": 2})
    assert measurement_of(measured.as_json() | {}) == measured


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"format": 1, "facts": {"minutes": 1}}\n')
    with pytest.raises(CommandError, match="another version of this command"):
        Journal(path, {"minutes": 1})


@pytest.mark.parametrize(
    ("default", "recommended", "verdict"),
    [
        ((1.0, 1.1, 0.9, 1.0), (2.0, 2.1, 1.9, 2.0), Verdict.BETTER),
        # Rounds differ by their loads; what each load's difference is counts.
        ((1.0, 2.0, 3.0, 4.0), (1.1, 2.1, 3.1, 4.1), Verdict.BETTER),
        ((1.0, 1.1, 0.9, 1.0), (1.1, 1.0, 1.0, 0.95), Verdict.EQUAL),
        ((1.0, 1.0, 1.0, 1.0), (0.99, 0.99, 0.99, 0.99), Verdict.EQUAL),
        ((1.0, 1.0, 1.0, 1.0), (0.97, 0.97, 0.97, 0.97), Verdict.WORSE),
        ((1.0, 1.5, 0.5, 1.0), (0.8, 0.9, 0.7, 0.8), Verdict.WORSE),
        ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), Verdict.EQUAL),
    ],
)
def test_who_loses_is_not_recommended(
    default: tuple[float, ...], recommended: tuple[float, ...], verdict: Verdict
) -> None:
    assert Comparison((1.0,) * 4, default, recommended).verdict is verdict
