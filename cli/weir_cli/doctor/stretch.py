"""Which time is looked at: some length, since a moment, or from one moment to another."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_cli.doctor.window import seconds_of
from weir_cli.duration_text import seconds_of_text
from weir_cli.errors import CommandError
from weir_cli.moments import moment

_LENGTH = re.compile(r"\d+(\.\d+)?\s*[a-z]*")
_SHORTEST_S = 1.0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some time, by its length or by moments (seconds of Unix time).

    Attributes:
        seconds: its length; 0 where moments are given.
        begin: its first moment.
        end: its last one; infinite: up to whatever follows.
    """

    seconds: float = 0.0
    begin: float = 0.0
    end: float = float("inf")

    @property
    def has_moments(self) -> bool:
        """Whether it is given by moments, not by its length."""
        return self.begin > 0

    @property
    def told(self) -> str:
        """For people."""
        if not self.has_moments:
            return f"{self.seconds:g} s"
        told = _written(self.begin)
        return told if self.end == float("inf") else f"{told}/{_written(self.end)}"

    def holds(self, sample: HistorySample) -> bool:
        """Whether most of a sample lies between the moments."""
        return self.begin <= _middle(sample) < self.end


def stretch(option: str, given: str) -> Stretch:
    """What a user wrote: `5m`, `2026-11-29T12:00`, or two moments with a slash between.

    Raises:
        CommandError: it is none of these, too short, or ends before it begins.
    """
    if _LENGTH.fullmatch(given.strip()):
        seconds = seconds_of_text(given)
        if seconds < _SHORTEST_S:
            raise CommandError(f"{option} is {seconds:g} s; it must be {_SHORTEST_S:g} s or more")
        return Stretch(seconds)
    begin, slash, end = given.partition("/")
    found = Stretch(begin=_moment(option, begin), end=_moment(option, end) if slash else _OPEN)
    if found.end - found.begin < _SHORTEST_S:
        raise CommandError(f"{option} is {given!r}; its end must be 1 s or more after its begin")
    return found


_OPEN = float("inf")


def _moment(option: str, given: str) -> float:
    try:
        found = moment(option, given.strip())
    except CommandError:
        found = None
    if found is None:
        raise CommandError(
            f"{option} is {given!r}; it must be a length such as 5m, a moment such as "
            "2026-11-29T12:00:00+01:00, or two moments with a / between"
        )
    return float(found.ToMicroseconds() / 1e6)


def _middle(sample: HistorySample) -> float:
    return float(sample.end_time.ToMicroseconds() / 1e6) - seconds_of(sample) / 2


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
