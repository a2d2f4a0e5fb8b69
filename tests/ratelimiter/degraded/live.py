"""Ratelimiters on a real Valkey, opened as a process opens them, in real time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from tests.ratelimiter.account import Account
from weir.directory.v1 import directory_pb2 as pb
from weir_core.clock import SystemClock
from weir_core.config import load_settings
from weir_core.directory import DirectoryIndex
from weir_core.repeating import Repeating
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.opened_store import OpenedStore
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.steady_time import SteadyTime
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.stores import open_store

DEADLINE_S = 20.0


class LiveReplica(Account):
    """One ratelimiter with its periodic work going on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.system = SystemClock()
        self.store: Any

    def now_ms(self) -> int:
        return self.system.now_ms()

    def begin(self, opened: OpenedStore, snapshot: pb.Snapshot, ttl_ms: int) -> None:
        self.store = opened.store
        self.limiter = Limiter(
            opened.store,
            RecordSigner(b"secret"),
            now_ms=self.now_ms,
            default_ttl_ms=ttl_ms,
            metrics=LimiterMetrics(self.registry),
            degraded=opened.degraded,
        )
        self.limiter.use(LimitBook(DirectoryIndex(snapshot)))

    def limits_of(self, subject: Subject) -> Limits:
        return self.limiter.book.resolve_for_ending(subject).by_key

    def sample(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"weir_ratelimiter_{name}", labels) or 0.0

    async def is_back(self) -> bool:
        """Whether the store decides again and knows everything."""
        return not self.limiter.degraded and self.sample("pending_replays") == 0

    async def charges(self) -> list[LedgerEvent]:
        return [entry.event for entry in await self.store.outbox(1_000)]


@asynccontextmanager
async def live_replica(
    url: str,
    journal: Path,
    snapshot: pb.Snapshot,
    *,
    timeout_s: float = 1.0,
    ttl_ms: int = 30_000,
) -> AsyncIterator[LiveReplica]:
    registry = CollectorRegistry()
    settings = load_settings(
        RateLimiterSettings,
        [f"--store={url}", f"--journal={journal}", f"--store-timeout-s={timeout_s}"],
    )
    replica = LiveReplica(registry)
    time = SteadyTime(replica.system)
    async with AsyncExitStack() as closing:
        opened = await open_store(settings, time, registry, replica.limits_of)
        closing.push_async_callback(opened.store.close)
        replica.begin(opened, snapshot, ttl_ms)
        for task in (*opened.tasks, Repeating("sweep", replica.limiter.sweep, 0.1)):
            task.start()
            closing.push_async_callback(task.stop)
        yield replica


async def run_some(account: LiveReplica, name: str, requests: int) -> int:
    """Requests from Reserve to Settle; returns the tokens that they were charged."""
    charged = 0
    for number in range(requests):
        record = (await account.reserve(f"{name}{number}")).record
        await account.extend(record, 3)
        await account.settle(record, 10, 3 + number)
        charged += 13 + number
    return charged


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it did not within 20 s.
    """
    async with asyncio.timeout(DEADLINE_S):
        while not await holds():
            await asyncio.sleep(0.02)


class DelayingProxy:
    """Passes everything on, `delay_s` later, though who sent it has gone meanwhile."""

    def __init__(self, target_port: int) -> None:
        self.delay_s = 0.0
        self.delayed = 0
        self.port = 0
        self._target_port = target_port
        self._tasks: set[asyncio.Task[None]] = set()

    async def is_through(self) -> bool:
        """Whether nothing is on its way."""
        return self.delayed == 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        for pump in (self._pump(reader, up_writer), self._pump(up_reader, writer)):
            task = asyncio.create_task(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                await self._delay()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def _delay(self) -> None:
        self.delayed += 1
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.delayed -= 1


@asynccontextmanager
async def delaying_proxy(target_port: int) -> AsyncIterator[DelayingProxy]:
    proxy = DelayingProxy(target_port)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
