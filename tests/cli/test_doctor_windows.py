"""Which samples the doctor compares: by lengths, by moments, and with a stretch of its own."""

import pytest

from tests.cli.command import weir
from weir.gateway.v1.history_service_pb2 import Distribution, HistorySample
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.splitting import looked_at, split
from weir_cli.doctor.stretch import Stretch, stretch
from weir_cli.errors import CommandError

NOON = 1_796_040_000  # 2026-11-30T12:00:00Z


def test_lengths_count_back_from_the_newest_sample() -> None:
    assert _places(split(_samples(10), Stretch(3), Stretch(4))) == ([7, 8, 9], [3, 4, 5, 6])
    # Half a sample more than its whole ones: the older window begins where the newer one does.
    assert _places(split(_samples(10), Stretch(3.4), Stretch(4))) == ([7, 8, 9], [3, 4, 5, 6])


def test_a_sample_that_lasted_longer_takes_none_of_the_others_away() -> None:
    samples = _samples(10)
    samples[6].duration.FromSeconds(4)
    assert _places(split(samples, Stretch(3), Stretch(7))) == ([7, 8, 9], [3, 4, 5, 6])


def test_moments_bound_both_windows_and_may_leave_time_between() -> None:
    since = stretch("--since", "2026-11-30T12:00:07Z")
    baseline = stretch("--baseline", "2026-11-30T12:00:01/2026-11-30T12:00:04")
    assert _places(split(_samples(10), since, baseline)) == ([7, 8, 9], [1, 2, 3])
    passed = stretch("--since", "2026-11-30T12:00:05Z/2026-11-30T12:00:07Z")
    assert _places(split(_samples(10), passed, Stretch(2))) == ([5, 6], [3, 4])
    later = stretch("--baseline", "2026-11-30T12:00:04")
    assert _places(split(_samples(10), since, later)) == ([7, 8, 9], [4, 5, 6])


def test_no_sample_is_of_both() -> None:
    baseline = stretch("--baseline", "2026-11-30T12:00:01/2026-11-30T12:00:09")
    assert _places(split(_samples(10), Stretch(3), baseline)) == ([7, 8, 9], [1, 2, 3, 4, 5, 6])
    nothing = split(_samples(10), stretch("--since", "2026-12-01"), Stretch(5))
    assert _places(nothing) == ([], [])


def test_what_was_looked_at_is_told_with_its_answers() -> None:
    told = looked_at(split(_samples(10), Stretch(3), Stretch(4)))
    assert told == (
        "looked at 3 s up to 2026-11-30T12:00:10Z with 6 answers, and at 4 s up to "
        "2026-11-30T12:00:07Z with 8 answers"
    )
    assert looked_at(split([], Stretch(3), Stretch(4))).count("nothing is kept") == 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("soon", "must be a length such as 5m, a moment"),
        ("", "must be a length such as 5m, a moment"),
        ("2026-11-30T12:00/", "must be a length such as 5m, a moment"),
        ("0s", "it must be 1 s or more"),
        ("2026-11-30T12:00/2026-11-30T11:00", "its end must be 1 s or more after its begin"),
    ],
)
def test_a_time_that_is_none_is_refused_with_what_it_may_be(given: str, told: str) -> None:
    with pytest.raises(CommandError, match=told) as refused:
        stretch("--since", given)
    assert str(refused.value).startswith("--since is ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--since", "2100-01-01"), "which is yet to come"),
        (("--since", "2000-01-01"), "the history keeps 86400 s"),
        (("--since", "20h", "--baseline", "20h"), "the history keeps 86400 s"),
        (("--baseline", "2100-01-01"), "it must begin before --since"),
    ],
)
def test_times_out_of_reach_are_refused(arguments: tuple[str, ...], told: str) -> None:
    ended = weir("doctor", *arguments)
    assert ended.returncode == 2
    assert told in ended.stderr


def _samples(number: int) -> list[HistorySample]:
    """Of a second each with two answers, from noon on."""
    samples = []
    for second in range(number):
        sample = HistorySample(far_read=True)
        sample.end_time.FromSeconds(NOON + second + 1)
        sample.duration.FromSeconds(1)
        flow = sample.flows.add(tenant_id="a", model="m")
        flow.ttft.CopyFrom(Distribution(count=2, sum=0.2, buckets=[-13], counts=[2]))
        samples.append(sample)
    return samples


def _places(evidence: Evidence) -> tuple[list[int], list[int]]:
    recent, baseline = (
        [round(one.end_time.ToMicroseconds() / 1e6) - NOON - 1 for one in window.samples]
        for window in (evidence.recent, evidence.baseline)
    )
    return recent, baseline
