"""Which samples are of the time that is asked about, and which of the time before."""

from collections.abc import Sequence

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_cli.doctor.ages import ages_of
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.stretch import Stretch
from weir_cli.doctor.window import Window, seconds_of

Samples = Sequence[HistorySample]


def split(samples: Samples, since: Stretch, baseline: Stretch) -> Evidence:
    """Both windows; a sample belongs where most of it lies, and none to both.

    Lengths are counted back in sums of lengths, as a clock may be set meanwhile: that of
    `baseline` from the first sample of the time that is asked about.

    Args:
        samples: everything that is known, the oldest first.
        since: that is asked about.
        baseline: to compare with.
    """
    first, recent = _recent(samples, since)
    return Evidence(Window(recent), Window(_before(samples[:first], baseline)))


def _recent(samples: Samples, since: Stretch) -> tuple[int, Samples]:
    """With the place of the first of them."""
    if since.has_moments:
        places = [place for place, sample in enumerate(samples) if since.holds(sample)]
    else:
        ages = ages_of(samples)
        places = [place for place, age_s in enumerate(ages) if age_s <= since.seconds]
    if not places:
        return 0, ()
    return places[0], samples[places[0] : places[-1] + 1]


def _before(samples: Samples, baseline: Stretch) -> Samples:
    if baseline.has_moments:
        return [sample for sample in samples if baseline.holds(sample)]
    ages = ages_of(samples)
    return [
        sample for sample, age_s in zip(samples, ages, strict=True) if age_s <= baseline.seconds
    ]


def looked_at(evidence: Evidence) -> str:
    """Both windows, for people."""
    recent, baseline = evidence.recent, evidence.baseline
    return f"looked at {_told(recent)}, and at {_told(baseline)}"


def _told(window: Window) -> str:
    if not window.samples:
        return "0 s, of which nothing is kept"
    length, requests = sum(map(seconds_of, window.samples)), window.answered
    end = window.samples[-1].end_time.ToDatetime().isoformat(timespec="seconds")
    lasts = f"{length:.0f} s" if length < 120 else f"{length / 60:.0f} min"
    return f"{lasts} up to {end}Z with {requests} answers"
