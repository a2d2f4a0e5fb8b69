"""How old samples are, by their lengths alone: clocks differ, and are set."""

from collections.abc import Sequence

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_cli.doctor.window import seconds_of


def ages_of(samples: Sequence[HistorySample]) -> list[float]:
    """Seconds from the middle of each sample to the end of the last; each begins where one ends."""
    ages: list[float] = []
    passed_s = 0.0
    for sample in reversed(samples):
        length_s = seconds_of(sample)
        ages.append(passed_s + length_s / 2)
        passed_s += length_s
    ages.reverse()
    return ages
