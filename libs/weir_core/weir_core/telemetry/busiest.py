"""Bounds the values of a label: the busiest keep their name, the rest are `other`."""

import time
from collections.abc import Callable
from heapq import nlargest
from typing import Protocol

from weir_core.telemetry.metrics import OTHER

_PERIOD_S = 60.0
_LEAD = 2.0
_KEPT = 0.5
_CANDIDATES = 4


class Removable(Protocol):
    """A metric with labels, of which some can be taken away."""

    def remove_by_labels(self, labels: dict[str, str]) -> None:
        """Takes away the series that have these values."""


class Busiest:
    """Names the values that are used most, such as tenants by their tokens.

    The first `limit` values are named at once. Later ones are counted as `other`; once a minute
    those with more than twice the use of the least used named ones take their places. Use of
    earlier minutes weighs half as much with every minute.

    No counter runs backwards: what was counted under `other` stays there, a value that gets a
    name starts at 0, and the series of one that loses its name end, as those of a process that
    ends. If it comes back they start at 0, which every reader of counters takes for a restart.

    Memory is bounded: of the values without a name, four times `limit` are followed; when
    there are more, the less used half is forgotten.

    Args:
        limit: most values that have a name at a time.
        label: name of the label in the metrics given to `bind`.
        now_s: monotonic seconds.
    """

    def __init__(
        self,
        limit: int = 1_000,
        *,
        label: str = "tenant",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._label = label
        self._now_s = now_s
        self._named: dict[str, float] = {}
        self._others: dict[str, float] = {}
        self._judged_s = now_s()
        self._metrics: list[Removable] = []
        self._listeners: list[Callable[[str], None]] = []

    def bind(self, *metrics: Removable) -> None:
        """Series of these end when their value loses its name."""
        self._metrics.extend(metrics)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """`listener` is told each value whose label is another from now on, to forget series."""
        self._listeners.append(listener)

    def label(self, value: str, use: float = 1.0) -> str:
        """The label of `value`, which was used so much again."""
        if self._now_s() - self._judged_s >= _PERIOD_S:
            self._judge()
        if value in self._named:
            self._named[value] += use
            return value
        if len(self._named) < self._limit:
            self._named[value] = use
            return value
        self._count_other(value, use)
        return OTHER

    def known(self, value: str) -> str:
        """The label of `value` for a gauge: counts no use, and takes a free name."""
        return self.label(value, 0.0)

    def _count_other(self, value: str, use: float) -> None:
        self._others[value] = self._others.get(value, 0.0) + use
        most = _CANDIDATES * self._limit
        if len(self._others) > most:
            uses = self._others.items()
            self._others = dict(nlargest(most // 2, uses, key=lambda item: item[1]))

    def _judge(self) -> None:
        self._judged_s = self._now_s()
        challengers = sorted(self._others.items(), key=lambda item: -item[1])
        holders = sorted(self._named.items(), key=lambda item: item[1])
        for (risen, much), (fallen, little) in zip(challengers, holders, strict=False):
            if much <= _LEAD * little:
                break
            self._swap(risen, fallen)
        for uses in (self._named, self._others):
            for value, use in uses.items():
                uses[value] = use * _KEPT

    def _swap(self, risen: str, fallen: str) -> None:
        self._others[fallen] = self._named.pop(fallen)
        self._named[risen] = self._others.pop(risen)
        for metric in self._metrics:
            metric.remove_by_labels({self._label: fallen})
        for listener in self._listeners:
            listener(risen)
            listener(fallen)
