"""Events, an outbox that keeps them in a list, and a ledger behind it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_ratelimiter.domain.change import EventKind, LedgerEvent
from weir_ratelimiter.domain.ids import reservation_id
from weir_ratelimiter.domain.price import Price
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.ledger.filters import RowFilter
from weir_ratelimiter.ledger.ledger import Ledger
from weir_ratelimiter.ledger.reader import pages
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.store.base import Backlog, Mark, OutboxEntry

NOW_MS = 1_800_000_123_456
HOUR_MS = 3_600_000
LARGEST_ID = "ffffffff-ffff-7fff-bfff-ffffffffffff"
SECRET = b"secret of the tests"
ACME = Subject("acme", "bob", "key1", "m", "1")
MOST = 2**53 - 1
USAGE = Usage(10, 4, 5)
PRICE = Price(3, 1, 7)


class ListOutbox:
    """Keeps events until they are acknowledged."""

    def __init__(self) -> None:
        self.entries: list[OutboxEntry] = []
        self._last = 0

    def put(self, *events: LedgerEvent) -> None:
        for event in events:
            self._last += 1
            self.entries.append(OutboxEntry(str(self._last), event))

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        return self.entries[:most]

    async def acknowledge(self, ids: Sequence[str]) -> None:
        gone = set(ids)
        self.entries = [entry for entry in self.entries if entry.id not in gone]

    async def backlog(self) -> Backlog:
        oldest = self.entries[0].event.settled_ms if self.entries else None
        return Backlog(len(self.entries), oldest)

    async def mark(self, tenant_id: str) -> Mark:
        return {0: self._last}

    async def is_past(self, mark: Mark) -> bool:
        return not self.entries or int(self.entries[0].id) > mark[0]


@dataclass
class Time:
    """Wall time that a test sets."""

    ms: int = NOW_MS

    def now_ms(self) -> int:
        return self.ms


@dataclass
class Book:
    """A ledger and the outbox in front of it."""

    ledger: Ledger
    outbox: ListOutbox
    registry: CollectorRegistry
    time: Time = field(default_factory=Time)

    async def write(self, *events: LedgerEvent) -> None:
        self.outbox.put(*events)
        await self.ledger.pump.flush()

    async def rows(self, **wanted: str | int) -> list[LedgerRow]:
        found = pages(self.ledger.database, RowFilter(**wanted))  # type: ignore[arg-type]
        return [row async for page in found for row in page]


@asynccontextmanager
async def open_book(url: str, outbox: ListOutbox | None = None) -> AsyncIterator[Book]:
    """A ledger whose pump does not run by itself."""
    time, registry = Time(), CollectorRegistry()
    events = outbox or ListOutbox()
    ledger = Ledger(url, SECRET, events, registry, time.now_ms)
    try:
        yield Book(ledger, events, registry, time)
    finally:
        await ledger.database.close()


def charge(
    request_id: str,
    usage: Usage = USAGE,
    *,
    subject: Subject = ACME,
    price: Price = PRICE,
    price_version: int = 1,
    at_ms: int = NOW_MS,
    settled_ms: int | None = None,
    requests: int = 1,
    life: LifecycleRecord | None = None,
    previous: Usage | None = None,
) -> LedgerEvent:
    """A charge; with `previous` an adjustment."""
    return LedgerEvent(
        reservation_id=reservation_id(subject.tenant_id, request_id),
        kind=EventKind.CHARGE if previous is None else EventKind.ADJUST,
        request_id=request_id,
        subject=subject,
        charged=usage,
        previous=previous or Usage(),
        quality=Quality.EXACT,
        outcome=1,
        price_version=price_version,
        created_ms=at_ms,
        settled_ms=at_ms + 1_500 if settled_ms is None else settled_ms,
        lifecycle=b"" if life is None else life.SerializeToString(),
        price=price,
        requests=requests,
    )


def grant(
    adjustment_id: str,
    limit_id: str,
    units: int,
    *,
    subject: Subject = ACME,
    at_ms: int = NOW_MS,
    note: str = "goodwill",
) -> LedgerEvent:
    return LedgerEvent(
        reservation_id=adjustment_id,
        kind=EventKind.GRANT,
        request_id="",
        subject=subject,
        charged=Usage(),
        previous=Usage(),
        quality=Quality.EXACT,
        outcome=0,
        price_version=0,
        created_ms=at_ms,
        settled_ms=at_ms,
        lifecycle=b"",
        limit_id=limit_id,
        units=units,
        note=note,
    )
