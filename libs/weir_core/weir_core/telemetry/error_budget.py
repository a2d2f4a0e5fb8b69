"""How many traces of errors a process writes that nobody had decided to record."""

import time
from collections import OrderedDict
from collections.abc import Callable

from weir_core.telemetry.error_kind import ErrorKind, ErrorsKept

_REMEMBERED = 4_096
_KINDS: dict[str, frozenset[ErrorKind]] = {
    "all": frozenset(ErrorKind),
    "faults": frozenset({ErrorKind.FAULT}),
    "none": frozenset(),
}


class ErrorBudget:
    """Bounds them by the second, so that a storm of errors is no storm of spans.

    Faults and refusals have a bucket each: a storm of one hides nothing of the other. What was
    decided about a trace holds for all its spans of this process.

    Args:
        kept: kinds that are written at all.
        per_s: traces of a kind and second, on average; as many may come at once.
        on_dropped: told of each trace that was not written for want of budget.
        now: monotonic seconds.
    """

    def __init__(
        self,
        kept: ErrorsKept = "all",
        per_s: float = 10.0,
        *,
        on_dropped: Callable[[ErrorKind], None] = lambda kind: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kept = _KINDS[kept]
        self._per_s = per_s
        self._on_dropped = on_dropped
        self._now = now
        started = now()
        self._left = {kind: (max(1.0, per_s), started) for kind in ErrorKind}
        self._decided: OrderedDict[int, bool] = OrderedDict()

    def takes(self, trace_id: int, kind: ErrorKind) -> bool:
        """Whether the spans of a trace are to be written."""
        if kind not in self._kept or self._per_s <= 0:
            return False
        known = self._decided.get(trace_id)
        if known is None:
            known = self._decided[trace_id] = self._spend(kind)
            if len(self._decided) > _REMEMBERED:
                self._decided.popitem(last=False)
            if not known:
                self._on_dropped(kind)
        return known

    def _spend(self, kind: ErrorKind) -> bool:
        left, since = self._left[kind]
        now = self._now()
        left = min(max(1.0, self._per_s), left + (now - since) * self._per_s)
        self._left[kind] = (left - 1 if left >= 1 else left, now)
        return left >= 1
