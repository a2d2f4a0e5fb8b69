"""Keeps samples: fine ones of the last hour, coarse ones of the last day, within a bound."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir.gateway.v1.history_service_pb2 import HistorySample
from weir_gateway.history.joining import join

FINE = 720
COARSE = 1_440
COARSE_FINES = 12
"""Fine samples that make a coarse one."""
MAX_BYTES = 32_000_000


@dataclass(frozen=True, slots=True)
class KeptSamples:
    """Serialised samples, the oldest first; reading them takes a while."""

    fine: Sequence[bytes]
    coarse: Sequence[bytes]

    def since(self, begin_us: int) -> list[HistorySample]:
        """Those that began at `begin_us` (Unix) or later, the oldest first and none twice."""
        fine = _read(self.fine, lambda sample: _begin_us(sample) >= begin_us)
        if fine and len(fine) < len(self.fine):
            return fine
        before_us = _begin_us(fine[0]) if fine else None
        coarse = _read(
            self.coarse, lambda sample: _is_between(sample, begin_us, before_us), skips=True
        )
        return [*coarse, *fine]


class SampleStore:
    """Samples as they are sent, serialised, so that their bytes are known and few.

    With fine samples of 5 s it holds an hour of them and a day of coarse ones. When it holds
    `max_bytes`, the oldest coarse sample goes, then the oldest fine one.

    Args:
        max_bytes: of all samples together.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._fine: deque[bytes] = deque()
        self._coarse: deque[bytes] = deque()
        self._gathering: list[HistorySample] = []

    def __len__(self) -> int:
        return len(self._fine) + len(self._coarse)

    @property
    def held_bytes(self) -> int:
        """Held now."""
        return self._bytes

    def add(self, sample: HistorySample) -> None:
        """Keeps a fine sample, and with enough of them a coarse one."""
        self._keep(self._fine, sample, FINE)
        self._gathering.append(sample)
        if len(self._gathering) >= COARSE_FINES:
            self._keep(self._coarse, join(self._gathering), COARSE)
            self._gathering = []
        while self._bytes > self._max_bytes:
            self._drop(self._coarse or self._fine)

    def copy(self) -> "KeptSamples":
        """What is kept now, to be read elsewhere."""
        return KeptSamples(tuple(self._fine), tuple(self._coarse))

    def since(self, begin_us: int) -> list[HistorySample]:
        """See `KeptSamples.since`."""
        return self.copy().since(begin_us)

    def _keep(self, ring: deque[bytes], sample: HistorySample, most: int) -> None:
        kept = sample.SerializeToString()
        ring.append(kept)
        self._bytes += len(kept)
        if len(ring) > most:
            self._drop(ring)

    def _drop(self, ring: deque[bytes]) -> None:
        self._bytes -= len(ring.popleft())


def _read(
    ring: Sequence[bytes], wanted: Callable[[HistorySample], bool], *, skips: bool = False
) -> list[HistorySample]:
    """The newest that are wanted, up to the first that is not; or all of them with `skips`."""
    found: list[HistorySample] = []
    for kept in reversed(ring):
        sample = HistorySample.FromString(kept)
        if wanted(sample):
            found.append(sample)
        elif not skips:
            break
    found.reverse()
    return found


def _begin_us(sample: HistorySample) -> int:
    return sample.end_time.ToMicroseconds() - sample.duration.ToMicroseconds()


def _is_between(sample: HistorySample, begin_us: int, end_us: int | None) -> bool:
    ended = end_us is None or sample.end_time.ToMicroseconds() <= end_us
    return ended and _begin_us(sample) >= begin_us
