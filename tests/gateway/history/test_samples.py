"""Samples: joined by adding, within their bounds, and what a tenant may see of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.gateway.v1.history_service_pb2 import (
    Distribution,
    HistorySample,
    OutcomeCount,
    RefusalCount,
    RequestFlow,
)
from weir.scheduler.v1.worker_report_pb2 import WorkerLoad
from weir_gateway.history.distribution import Tally, bucket_of, joined
from weir_gateway.history.joining import MOST_FLOWS, join
from weir_gateway.history.keeper import stretched
from weir_gateway.history.own_share import own_share
from weir_gateway.history.sample_store import COARSE_FINES, FINE, SampleStore
from weir_gateway.history.worker_work import work_between

_VALUES = st.lists(st.floats(0, 1e6), max_size=40)


@given(_VALUES, _VALUES)
def test_a_distribution_of_two_is_that_of_both(first: list[float], second: list[float]) -> None:
    both = _tally(first + second)
    parts = joined([_tally(first), _tally(second)])
    assert (parts.count, list(parts.buckets), list(parts.counts)) == (
        both.count, list(both.buckets), list(both.counts)
    )  # fmt: skip
    assert parts.sum == pytest.approx(both.sum)


@given(st.floats(1e-5, 1e9))
def test_a_bucket_holds_what_lies_between_its_bounds(value: float) -> None:
    bucket = bucket_of(value)
    assert 2 ** ((bucket - 1) / 4) * (1 - 1e-9) <= value <= 2 ** (bucket / 4) * (1 + 1e-9)


def test_joined_samples_add_counts_and_keep_the_newest_gauges() -> None:
    samples = [_sample(second, in_flight=second) for second in range(1, 6)]
    whole = join(samples)
    assert whole.duration.ToMicroseconds() == 5_000_000
    assert whole.end_time == samples[-1].end_time
    (flow,) = whole.flows
    assert (flow.arrivals, flow.output_tokens, flow.in_flight) == (5, 50, 5)
    assert [(one.outcome, one.count) for one in flow.ended] == [("ok", 5)]
    assert [(one.limit_id, one.count) for one in flow.refused] == [("tenant:a/tpm", 10)]


def test_of_many_tenants_the_quiet_ones_are_added_up() -> None:
    sample = _sample(1)
    del sample.flows[:]
    for number in range(200):
        sample.flows.add(tenant_id=f"t{number}", model="m", arrivals=number)
    whole = join([sample, _sample(2)])
    assert len(whole.flows) == MOST_FLOWS + 1
    assert sum(flow.arrivals for flow in whole.flows) == sum(range(200)) + 1
    assert whole.flows[-1].tenant_id == "other"


def test_a_tenant_that_is_called_other_sees_nothing_of_the_others() -> None:
    sample = _sample(1)
    for number in range(200):
        sample.flows.add(tenant_id=f"t{number}", model="m", arrivals=number)
    whole = join([sample, _sample(2)])
    assert whole.flows[-1].tenant_id == "other"
    assert not own_share(whole, "other").flows
    assert [flow.tenant_id for flow in own_share(whole, "t199").flows] == ["t199"]


def test_an_hour_is_fine_and_a_day_coarse() -> None:
    store = SampleStore()
    for second in range(1, FINE + 10 * COARSE_FINES + 1):
        store.add(_sample(second))
    kept = store.since(0)
    assert sum(one.duration.ToMicroseconds() for one in kept) == 1e6 * (FINE + 10 * COARSE_FINES)
    assert [one.duration.seconds for one in kept[:10]] == [COARSE_FINES] * 10
    assert [one.duration.seconds for one in kept[10:]] == [1] * FINE
    newest = store.since(kept[-5].end_time.ToMicroseconds())
    assert len(newest) == 4


def test_the_bytes_are_bounded_and_the_oldest_goes_first() -> None:
    store = SampleStore(max_bytes=10_000)
    for second in range(1, 1_000):
        store.add(_sample(second))
        assert store.held_bytes <= 10_000
    kept = store.since(0)
    assert kept[-1].end_time.seconds == 999
    assert len(kept) > 50


def test_stretched_samples_last_as_long_as_asked() -> None:
    samples = [_sample(second) for second in range(1, 12)]
    assert [one.duration.seconds for one in stretched(samples, 5)] == [5, 5, 1]
    assert stretched(samples, 0) == samples


def test_work_is_the_difference_of_totals() -> None:
    before, after = WorkerLoad(steps_total=10), WorkerLoad(steps_total=25, evictions_total=3)
    before.report_time.FromSeconds(100)
    after.report_time.FromSeconds(102)
    before.prefill_time_total.FromSeconds(1)
    after.prefill_time_total.FromSeconds(3)
    after.device_utilisation_millis, after.foreign_utilisation_millis = 500, -1
    work = work_between(before, after)
    assert work is not None
    assert (work.steps, work.evictions, work.prefill_time.seconds) == (15, 3, 2)
    assert work.busy_time.seconds == 1
    assert not work.HasField("foreign_time")
    assert work_between(after, after) is None


def _tally(values: list[float]) -> Distribution:
    tally = Tally()
    for value in values:
        tally.add(value)
    return tally.message()


def _sample(second: int, *, in_flight: int = 0) -> HistorySample:
    tally = Tally()
    tally.add(random.Random(second).random())
    flow = RequestFlow(
        tenant_id="a",
        model="m",
        arrivals=1,
        output_tokens=10,
        in_flight=in_flight,
        ended=[OutcomeCount(outcome="ok", count=1)],
        refused=[RefusalCount(reason="LIMIT", limit_id="tenant:a/tpm", count=2)],
        ttft=tally.message(),
    )
    sample = HistorySample(flows=[flow])
    sample.end_time.FromSeconds(second)
    sample.duration.FromSeconds(1)
    return sample
