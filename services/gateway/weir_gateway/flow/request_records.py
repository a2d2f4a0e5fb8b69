"""Requests that live, and the records of those that ended, for 10 minutes."""

from collections import OrderedDict
from collections.abc import Iterator

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_request import LiveRequest

_KEPT_US = 600 * 1_000_000


class RequestRecords:
    """Look-up by id.

    Args:
        clock: for the age of records.
        max_records: ended requests kept; the oldest go first.
    """

    def __init__(self, clock: Clock, *, max_records: int = 20_000) -> None:
        self._clock = clock
        self._max_records = max_records
        self._live: dict[str, LiveRequest] = {}
        self._ended: OrderedDict[str, tuple[int, LifecycleRecord]] = OrderedDict()

    def __len__(self) -> int:
        """Requests that live."""
        return len(self._live)

    def __iter__(self) -> Iterator[LiveRequest]:
        return iter(list(self._live.values()))

    def add(self, live: LiveRequest) -> None:
        """A request has arrived."""
        self._live[live.id] = live

    def live(self, request_id: str) -> LiveRequest | None:
        """The living request of that id."""
        return self._live.get(request_id)

    def drop(self, live: LiveRequest) -> None:
        """It was refused: no record."""
        self._live.pop(live.id, None)

    def close(self, live: LiveRequest, record: LifecycleRecord) -> None:
        """It has ended; this is its one terminal record."""
        self._live.pop(live.id, None)
        now_us = self._clock.monotonic_us()
        self._ended[live.id] = (now_us, record)
        while self._ended:
            ended_us, _ = next(iter(self._ended.values()))
            if len(self._ended) <= self._max_records and now_us - ended_us < _KEPT_US:
                return
            self._ended.popitem(last=False)

    def find(self, tenant_id: str, request_id: str) -> tuple[LifecycleRecord, bool]:
        """The record of a tenant's request, and whether it is terminal.

        Raises:
            WeirError: NOT_FOUND, alike for unknown ids and those of other tenants.
        """
        live = self._live.get(request_id)
        if live is not None and live.prepared.subject.tenant_id == tenant_id:
            return record_of(live), False
        ended = self._ended.get(request_id)
        fresh = ended is not None and self._clock.monotonic_us() - ended[0] < _KEPT_US
        if ended is None or not fresh or ended[1].subject.tenant_id != tenant_id:
            raise WeirError(
                Reason.NOT_FOUND,
                "there is no such request of this tenant; records are kept for 10 minutes",
                field="request_id",
            )
        return ended[1], True
