"""What a load's report says of its requests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_cli.errors import CommandError
from weir_cli.load.exchange import Exchange, Failure
from weir_cli.load.figures import load_figures, spread_ms
from weir_cli.load.goodput import Targets, parse_targets
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.open_loop import Offered
from weir_cli.load.report_text import report_text

_TIMES = st.lists(st.floats(0.001, 50), min_size=1, max_size=80)


def _exchange(
    index: int, first_s: float, gaps: list[tuple[float, int]], tenant: str = "a", late_s: float = 0
) -> Exchange:
    """One answered in full: its first token after `first_s`, then pieces."""
    exchange = Exchange(LoadRequest(index, float(index), tenant, 4, 1), 100.0 + index)
    exchange.sent_s = exchange.intended_s + late_s
    moment = exchange.intended_s + first_s
    exchange.arrivals = [(moment, 1)]
    for gap, tokens in gaps:
        moment += gap
        exchange.arrivals.append((moment, tokens))
    exchange.end_s = moment
    exchange.prompt_tokens = 4
    exchange.output_tokens = sum(tokens for _, tokens in exchange.arrivals)
    return exchange


def _offered(*exchanges: Exchange) -> Offered:
    return Offered(tuple(exchanges), 100.0, max(one.end_s for one in exchanges))


@given(_TIMES)
@settings(max_examples=60, deadline=None)
def test_percentiles_are_values_that_lie_between_the_extremes_and_rise(times: list[float]) -> None:
    spread = spread_ms(times)
    found = [spread.percentile(which) for which in (50.0, 90.0, 95.0, 99.0)]
    slack = 1e-6
    assert min(times) * 1e3 - slack <= found[0]
    assert found == sorted(found)
    assert found[-1] <= max(times) * 1e3 + slack
    assert spread.mean == pytest.approx(np.mean(times) * 1e3)
    below = sum(value * 1e3 <= found[0] + slack for value in times)
    assert below >= len(times) / 2


def test_nothing_measured_is_told_as_nothing() -> None:
    spread = spread_ms([])
    assert spread.as_json() == {
        "mean": None, "p50": None, "p90": None, "p95": None, "p99": None, "count": 0,
    }  # fmt: skip
    with pytest.raises(ValueError, match="p50"):
        spread.percentile(50.0)


def test_a_request_that_was_sent_late_does_not_look_faster() -> None:
    exchange = _exchange(0, first_s=3.0, gaps=[(0.1, 1)], late_s=2.5)
    figures = load_figures(_offered(exchange), Targets())
    assert figures.ttft.mean == pytest.approx(3_000)
    assert figures.e2e.mean == pytest.approx(3_100)
    assert figures.late.mean == pytest.approx(2_500)


def test_tokens_that_come_together_share_the_gap_before_them() -> None:
    exchange = _exchange(0, first_s=1.0, gaps=[(0.3, 3), (0.1, 1)])
    assert exchange.gaps_s() == pytest.approx([0.1, 0.1, 0.1, 0.1])
    assert exchange.tpot_s == pytest.approx(0.1)


@given(
    firsts=st.lists(st.floats(0.01, 2), min_size=1, max_size=30),
    target=st.floats(1, 2_500),
)
@settings(max_examples=60, deadline=None)
def test_goodput_counts_exactly_those_within_every_target(
    firsts: list[float], target: float
) -> None:
    exchanges = [_exchange(at, first, [(0.05, 1)]) for at, first in enumerate(firsts)]
    figures = load_figures(_offered(*exchanges), Targets(ttft_ms=target, itl_ms=60))
    within = [first for first in (one.ttft_s or 0 for one in exchanges) if first * 1e3 <= target]
    assert figures.good == len(within)
    assert figures.goodput == pytest.approx(len(within) / figures.duration_s)
    none = load_figures(_offered(*exchanges), Targets(ttft_ms=target, itl_ms=40))
    assert none.good == 0


def test_failures_are_counted_by_what_refused_and_spoil_no_latency() -> None:
    good = _exchange(0, 1.0, [(0.1, 1)])
    refused = Exchange(LoadRequest(1, 1.0, "b", 4, 1), 101.0)
    refused.sent_s, refused.end_s = 101.0, 101.01
    refused.failure = Failure("429 tenant:b/tpm", "60000 tokens per minute are used up")
    broken = Exchange(LoadRequest(2, 2.0, "b", 4, 1), 102.0, 102.0, [(102.5, 1)], 103.0)
    broken.failure = Failure("broken stream", "the answer ended without [DONE]")
    figures = load_figures(_offered(good, refused, broken), Targets())
    assert (figures.requests, figures.completed, figures.limited) == (3, 1, 1)
    assert figures.failures == {"429 tenant:b/tpm": 1, "broken stream": 1}
    assert figures.ttft.count == 1
    assert figures.good == 1
    assert load_figures(_offered(good, refused, broken), Targets(), tenant="b").requests == 2


def test_the_report_tells_a_refusal_to_its_end() -> None:
    knob = "to change: limit `tpm` of plan small"
    refused = Exchange(LoadRequest(0, 0.0, "b", 4, 1), 100.0, 100.0, [], 100.01)
    refused.failure = Failure("429 tenant:b/tpm", f"tenant:b/tpm allows 60 tokens{', ' * 80}{knob}")
    figures = load_figures(_offered(refused), Targets())
    assert knob in report_text(figures, Targets(), {}, "one request")


def test_the_duration_begins_with_the_first_request_and_ends_with_the_last_answer() -> None:
    figures = load_figures(_offered(_exchange(3, 1.0, []), _exchange(5, 2.0, [])), Targets())
    assert figures.duration_s == pytest.approx(4.0)
    assert figures.output_tokens_s == pytest.approx(2 / 4.0)


def test_targets_are_read_in_any_order_and_refused_by_name() -> None:
    assert parse_targets(["ttft:500", "itl:50,e2e:9000"]).given == {
        "ttft": 500, "itl": 50, "e2e": 9000,
    }  # fmt: skip
    for text in ("ttft", "ttft:", "ttft:0", "ttft:-1", "first:5", "itl:fast"):
        with pytest.raises(CommandError, match="--goodput has"):
            parse_targets([text])
