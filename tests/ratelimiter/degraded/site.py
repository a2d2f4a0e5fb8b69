"""A shared store that fails on command, and ratelimiters around it, with one hand-moved clock."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tests.ratelimiter.account import Account
from weir.directory.v1 import directory_pb2 as pb
from weir_core.clock import ManualClock
from weir_core.directory import DirectoryIndex
from weir_ratelimiter.budget_source import BudgetSource
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.away import StoreAway
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.degraded.assembly import Assembled, AwayOptions, assemble
from weir_ratelimiter.store.degraded.shared import Connected
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions

PROBED_MS = 2_000
"""No probe is further away."""


class Outage:
    """What is wrong with the shared store at the moment."""

    def __init__(self) -> None:
        self.refuses = False
        self.hangs = False
        self.loses_replies = False

    async def before(self) -> None:
        if self.refuses:
            raise StoreAway("no connection", refused=True)
        if self.hangs:
            await asyncio.Event().wait()

    async def after(self) -> None:
        if self.loses_replies:
            await asyncio.Event().wait()


class FailingStore:
    """A memory store behind an outage."""

    def __init__(self, store: MemoryStore, outage: Outage) -> None:
        self._store = store
        self._outage = outage

    @property
    def epoch(self) -> str:
        return self._store.epoch

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            await self._outage.before()
            answer = await method(*args, **kwargs)
            await self._outage.after()
            return answer

        return call

    async def close(self) -> None:
        """It outlives its clients."""


class FixedReplicas:
    """Counts as many as it is told to."""

    def __init__(self, live: int, outage: Outage) -> None:
        self._live = live
        self._outage = outage

    async def beat(self) -> int:
        await self._outage.before()
        await self._outage.after()
        return self._live

    async def close(self) -> None:
        return


class Site:
    """A shared store, the number of ratelimiters that it counts, and the directory."""

    def __init__(self, path: Path, snapshot: pb.Snapshot, live: int) -> None:
        self.path = path
        self.snapshot = snapshot
        self.live = live
        self.clock = ManualClock()
        self.outage = Outage()
        self.shared = self._open("shared")

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def advance(self, ms: int) -> None:
        self.clock.advance_us(ms * 1_000)

    async def empty(self) -> None:
        """The shared store loses its state."""
        await self.shared.close()
        self.shared = self._open("emptied")

    async def connect(self) -> Connected:
        await self.outage.before()
        store: Any = FailingStore(self.shared, self.outage)
        return Connected(store, FixedReplicas(self.live, self.outage))

    async def events(self) -> list[LedgerEvent]:
        return [entry.event for entry in await self.shared.outbox(1_000)]

    def _open(self, name: str) -> MemoryStore:
        log = MemoryLog.open(self.path / name, MemoryOptions(), self.now_ms())
        return MemoryStore(log, self.now_ms)


class Replica(Account):
    """One ratelimiter of a site."""

    def __init__(
        self, site: Site, name: str, budgets: BudgetSource | None = None, **options: Any
    ) -> None:
        self.site = site
        self.away = AwayOptions(site.path / name, timeout_s=0.02, **options)
        self.parts: Assembled
        super().__init__(site.path / name, MemoryOptions(), budgets)
        self.clock = site.clock

    def _open(self) -> Any:
        self.registry = CollectorRegistry()
        self.parts = assemble(
            self.site.connect,
            self.away,
            now_ms=self.site.now_ms,
            limits_of=self.limits_of,
            registry=self.registry,
        )
        return self.parts.store

    def _limiter(self) -> Limiter:
        return Limiter(
            self.store,
            RecordSigner(b"secret"),
            now_ms=self.site.now_ms,
            default_ttl_ms=30_000,
            metrics=LimiterMetrics(self.registry),
            budgets=self.budgets,
            degraded=lambda: self.parts.mode.degraded,
        )

    async def begin(self) -> None:
        self.limiter.use(LimitBook(DirectoryIndex(self.site.snapshot)))
        await self.parts.shared.open()

    async def come_back(self) -> None:
        """The store is well again, and this replica notices and catches up."""
        self.site.outage.refuses = self.site.outage.hangs = False
        self.site.outage.loses_replies = False
        self.site.advance(PROBED_MS)
        await self.parts.watch.tick()
        assert not self.parts.mode.degraded

    async def killed(self) -> "Replica":
        """What starts again after a kill -9: with nothing but what is on the disk."""
        await self.parts.local.close()
        again = Replica(self.site, self.away.folder.name, self.budgets)
        await again.begin()
        return again

    async def running(self) -> Sequence[Reservation]:
        return await self.store.open_reservations("acme", (0, ""), 100)

    def sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"weir_ratelimiter_{name}", labels) or 0.0

    def limits_of(self, subject: Subject) -> Limits:
        return self.limiter.book.resolve_for_ending(subject).by_key


@asynccontextmanager
async def site(path: Path, snapshot: pb.Snapshot, *, live: int = 1) -> AsyncIterator[Site]:
    opened = Site(path, snapshot, live)
    try:
        yield opened
    finally:
        await opened.shared.close()


@asynccontextmanager
async def replica(site: Site, name: str = "a", **options: Any) -> AsyncIterator[Replica]:
    """A ratelimiter that has reached the store, if that can be."""
    opened = Replica(site, name, **options)
    try:
        await opened.begin()
        yield opened
    finally:
        await opened.store.close()
