"""Terminal records of ended attempts, kept for a while so that a lost answer can be read again."""

from collections import OrderedDict

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir_core.clock import Clock

AttemptKey = tuple[str, int]
"""Request id and attempt number."""

KEEP_S = 600
MAX_RECORDS = 100_000


class TerminalRecords:
    """The ends of the last 10 minutes, serialised (some 200 bytes each), oldest first.

    Args:
        clock: its monotonic reading ages the records.
        keep_s: seconds for which a record can be read.
        limit: most records; beyond it the oldest go early.
    """

    def __init__(self, clock: Clock, *, keep_s: float = KEEP_S, limit: int = MAX_RECORDS) -> None:
        self.keep_s = keep_s
        self._clock = clock
        self._keep_us = round(keep_s * 1_000_000)
        self._limit = limit
        self._records: OrderedDict[AttemptKey, tuple[int, bytes]] = OrderedDict()
        self._newest: dict[str, int] = {}

    def __len__(self) -> int:
        self._drop_old()
        return len(self._records)

    def add(self, record: TerminalRecord) -> None:
        """Keeps a record. The first one of an attempt stands: an attempt ends once."""
        key = (record.attempt.request_id, record.attempt.number)
        self._drop_old()
        if key in self._records:
            return
        self._records[key] = (self._clock.monotonic_us(), record.SerializeToString())
        self._newest[key[0]] = max(key[1], self.newest_number(key[0]))
        while len(self._records) > self._limit:
            self._drop_first()

    def get(self, request_id: str, number: int) -> TerminalRecord | None:
        """The record of an attempt, or of the newest one for number 0; None when unknown."""
        self._drop_old()
        found = self._records.get((request_id, number or self.newest_number(request_id)))
        return None if found is None else TerminalRecord.FromString(found[1])

    def newest_number(self, request_id: str) -> int:
        """The highest attempt number of the request that has ended here; 0 when none has."""
        return self._newest.get(request_id, 0)

    def _drop_old(self) -> None:
        oldest_kept = self._clock.monotonic_us() - self._keep_us
        while self._records and next(iter(self._records.values()))[0] < oldest_kept:
            self._drop_first()

    def _drop_first(self) -> None:
        (request_id, number), _ = self._records.popitem(last=False)
        if self._newest.get(request_id) == number:
            del self._newest[request_id]
