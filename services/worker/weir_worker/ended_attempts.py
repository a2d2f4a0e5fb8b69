"""Ends that the scheduler has to hear of."""

from collections import deque

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason
from weir.scheduler.v1.worker_report_pb2 import AttemptEnd
from weir_core.clock import Clock
from weir_core.errors import Reason
from weir_core.errors.faults import is_worker_fault
from weir_worker.attempts import attempt_of
from weir_worker.terminal_records import AttemptKey

MAX_ENDS = 20_000


class EndedAttempts:
    """Ends since the last report, and for a while those of the reports before.

    A report has no answer: one that was written just before the connection broke may never
    have arrived. After a reconnection the ends of the last `keep_s` are told again; the
    scheduler knows them by attempt.

    Args:
        clock: its monotonic reading ages the ends.
        keep_s: seconds for which ends that were told are told again.
        limit: most ends; beyond it the oldest go.
    """

    def __init__(self, clock: Clock, *, keep_s: float = 30.0, limit: int = MAX_ENDS) -> None:
        self._clock = clock
        self._keep_us = round(keep_s * 1e6)
        self._new: deque[AttemptEnd] = deque(maxlen=limit)
        self._told: deque[tuple[int, AttemptEnd]] = deque(maxlen=limit)

    def add(self, record: TerminalRecord) -> None:
        """Notes the end of an attempt that had run or waited here.

        What was the request's own fault is told as a rejection: it says nothing about the worker.
        """
        reason = record.finish_reason
        if reason == FinishReason.FINISH_REASON_ERROR and not _is_fault(record):
            reason = FinishReason.FINISH_REASON_REJECTED
        self._new.append(
            AttemptEnd(attempt=record.attempt, finish_reason=reason, usage=record.usage)
        )

    def add_unknown(self, key: AttemptKey) -> None:
        """Notes that an attempt which the scheduler asked about is not here; no usage is known."""
        self._new.append(AttemptEnd(attempt=attempt_of(key)))

    def take(self) -> list[AttemptEnd]:
        """Ends that have not been told, in order; from now on they have."""
        now_us = self._clock.monotonic_us()
        ends = list(self._new)
        self._new.clear()
        self._told.extend((now_us, end) for end in ends)
        while self._told and self._told[0][0] < now_us - self._keep_us:
            self._told.popleft()
        return ends

    def tell_again(self) -> None:
        """The connection was made anew: what was told of late is told once more."""
        since_us = self._clock.monotonic_us() - self._keep_us
        again = [end for told_us, end in self._told if told_us >= since_us]
        self._told.clear()
        self._new.extendleft(reversed(again))


def _is_fault(record: TerminalRecord) -> bool:
    name = ErrorReason.Name(record.error_reason).removeprefix("ERROR_REASON_")
    return name not in Reason.__members__ or is_worker_fault(Reason[name])
