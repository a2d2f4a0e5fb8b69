"""Generated loads against the statistics that they imitate."""

from itertools import islice

import numpy as np
import pytest

from weir_sim.generator.gaps import GapFamily, arrivals_within, unit_gaps, weibull_shape
from weir_sim.generator.preset import Figures
from weir_sim.generator.presets import PRESETS
from weir_sim.generator.quantiles import Quantiles
from weir_sim.generator.shares import shares_through
from weir_sim.generator.workload_of_preset import workload_of_preset
from weir_sim.traces.trace_row import TraceRow
from weir_sim.traces.workload_options import WorkloadOptions

_ROWS = 12_000
_LENGTHS = (0.05, 0.05, 0.05, 0.12)
"""Tolerance of mean, p50, p90 and p99; 120 values above the last move it by some percent."""
_GAPS = 0.15
_REUSE = 0.04


@pytest.fixture(scope="module")
def rows() -> dict[str, list[TraceRow]]:
    return {name: list(islice(preset.rows(0), _ROWS)) for name, preset in PRESETS.items()}


@pytest.mark.parametrize("name", PRESETS)
def test_lengths_are_as_published(rows: dict[str, list[TraceRow]], name: str) -> None:
    published = PRESETS[name].published
    for figures, values in (
        (published.prompt, [row.prompt_tokens for row in rows[name]]),
        (published.output, [row.output_tokens for row in rows[name]]),
    ):
        if figures is not None:
            told = zip(_figures(values), _as_tuple(figures), _LENGTHS, strict=True)
            assert all(abs(got - wanted) <= rel * wanted for got, wanted, rel in told)


def _figures(values: list[int]) -> tuple[float, ...]:
    return float(np.mean(values)), *(float(v) for v in np.quantile(values, (0.5, 0.9, 0.99)))


def _as_tuple(figures: Figures) -> tuple[float, ...]:
    return figures.mean, figures.p50, figures.p90, figures.p99


@pytest.mark.parametrize("name", PRESETS)
def test_arrivals_have_their_rate_and_burstiness(
    rows: dict[str, list[TraceRow]], name: str
) -> None:
    preset = PRESETS[name]
    moments = np.array([row.arrival_s for row in rows[name]])
    assert list(moments) == sorted(moments)
    assert len(moments) / moments[-1] == pytest.approx(preset.rate_rps, rel=_GAPS)
    if preset.published.gap_cv is not None:
        gaps = np.diff(moments)
        assert gaps.std() / gaps.mean() == pytest.approx(preset.published.gap_cv, rel=_GAPS)


@pytest.mark.parametrize("name", ["mooncake-conversation", "mooncake-synthetic"])
def test_as_much_of_the_prompts_as_published_had_come_before(
    rows: dict[str, list[TraceRow]], name: str
) -> None:
    assert _reused(rows[name][:4_000]) == pytest.approx(PRESETS[name].published.reused, abs=_REUSE)


def _reused(rows: list[TraceRow]) -> float:
    seen: set[int] = set()
    reused = 0
    for row in rows:
        fresh = next((at for at, one in enumerate(row.prefix_ids) if one not in seen), None)
        reused += 512 * (len(row.prefix_ids) if fresh is None else fresh)
        seen.update(row.prefix_ids)
    return reused / sum(row.prompt_tokens for row in rows)


def test_every_conversation_begins_with_the_one_system_prompt(
    rows: dict[str, list[TraceRow]],
) -> None:
    """As in the published trace: longest-prefix placement sends all of it to one worker."""
    assert {row.prefix_ids[:1] for row in rows["mooncake-conversation"]} == {(0,)}


def test_turns_of_a_session_extend_each_other(rows: dict[str, list[TraceRow]]) -> None:
    turns: dict[str, tuple[int, ...]] = {}
    longer = 0
    for row in rows["mooncake-synthetic"]:
        before = turns.get(row.session, ())
        assert row.prefix_ids[: len(before)] == before
        longer += bool(before)
        turns[row.session] = row.prefix_ids
    assert longer > 1_000


def test_a_few_clients_of_servegen_make_most_of_the_load(
    rows: dict[str, list[TraceRow]],
) -> None:
    names = [row.client for row in rows["servegen"]]
    counts = sorted((names.count(name) for name in set(names)), reverse=True)
    sums = np.cumsum(counts) / len(names)
    # Bursty clients do not come at their mean rate in 17 minutes.
    assert (sums[0], sums[4], sums[9]) == pytest.approx((0.299, 0.77, 0.93), abs=0.08)
    cvs = [client.cv for client in PRESETS["servegen"].clients]
    assert np.median(cvs) == pytest.approx(1.2, rel=0.3)
    assert np.quantile(cvs, 0.9) == pytest.approx(5.5, rel=0.3)


def test_the_three_heaviest_clients_of_the_arena_ask_for_half(
    rows: dict[str, list[TraceRow]],
) -> None:
    names = [row.client for row in rows["arena"]]
    counts = sorted((names.count(name) for name in set(names)), reverse=True)
    assert len(counts) == 27
    assert sum(counts[:3]) / len(names) == pytest.approx(0.505, abs=0.03)


@pytest.mark.parametrize("name", PRESETS)
def test_a_seed_makes_the_same_load_again_and_another_seed_another(name: str) -> None:
    preset = PRESETS[name]
    once, again, other = (list(islice(preset.rows(seed), 50)) for seed in (3, 3, 4))
    assert once == again != other


@pytest.mark.parametrize("family", GapFamily)
@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_gaps_have_mean_one_and_their_cv(family: GapFamily, cv: float) -> None:
    gaps = unit_gaps(np.random.default_rng(0), 200_000, cv, family)
    assert gaps.mean() == pytest.approx(1, rel=0.03)
    assert gaps.std() == pytest.approx(cv, rel=0.05)


def test_a_weibull_of_cv_one_is_exponential() -> None:
    assert weibull_shape(1.0) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("cv", [0.0, 1.0, 797.0, 1e6])
def test_a_bin_holds_exactly_its_number_whatever_the_cv(cv: float) -> None:
    for family in GapFamily:
        moments = arrivals_within(np.random.default_rng(1), 500, 600.0, cv, family)
        assert len(moments) == 500
        assert ((moments >= 0) & (moments < 600)).all()
        assert (np.diff(moments) >= 0).all()


def test_shares_fall_and_pass_through_what_is_known() -> None:
    shares = shares_through([(1, 0.3), (5, 0.77), (43, 1.0)])
    assert len(shares) == 43
    assert shares[:5].sum() == pytest.approx(0.77)
    assert (np.diff(shares) <= 1e-12).all()
    with pytest.raises(ValueError, match="share of 1"):
        shares_through([(1, 0.5), (3, 0.9)])


def test_quantiles_are_exact_at_their_points_and_checked() -> None:
    drawn = Quantiles([(0, 1), (0.5, 10), (1, 100)]).at(np.array([0, 0.5, 0.75, 1]))
    assert list(drawn) == [1, 10, 32, 100]
    with pytest.raises(ValueError, match="from 0 to 1"):
        Quantiles([(0.1, 1), (1, 2)])
    with pytest.raises(ValueError, match="both must rise"):
        Quantiles([(0, 5), (1, 2)])


def test_a_preset_is_bounded_by_limit_and_time() -> None:
    preset = PRESETS["azure-conv"]
    assert len(workload_of_preset(preset, WorkloadOptions()).requests) == preset.requests
    assert len(workload_of_preset(preset, WorkloadOptions(limit=7)).requests) == 7
    part = workload_of_preset(preset, WorkloadOptions(from_s=10, until_s=20)).requests
    assert 20 < len(part) < 120
    assert 0 <= part[0].arrival_s <= part[-1].arrival_s < 10
    drawn = workload_of_preset(preset, WorkloadOptions(rate_rps=100, until_s=1)).requests
    assert 60 < len(drawn) < 140
