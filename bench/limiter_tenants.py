"""Time of a decision and memory of the store by number of tenants, with ten limits each.

    python -m bench.limiter_tenants memory 10000

Prints one JSON object: CPU microseconds a decision (one Reserve or one Settle, without the
wire), and bytes a tenant once each has made a request and settled it.
"""

import argparse
import asyncio
import gc
import json
import random
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import cast

import redis
from google.protobuf.duration_pb2 import Duration
from prometheus_client import CollectorRegistry

from bench.limiter_deployment import say
from tests.ratelimiter.valkey import running_valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_core.directory import DirectoryIndex
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.base import Store
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

FEW, MANY = 10, 10_000
_DECISIONS = 4_000
_PARTS = 5
_FORGET_MS = 1_000
_FORGOTTEN_S = 30.0


async def tenant_figures() -> dict[str, object]:
    """Every size in a process of its own."""
    few = await _run("memory", FEW)
    many = await _run("memory", MANY)
    shared = await _run("redis", MANY)
    return {
        "us_at_10_tenants": few["us"],
        "us_at_10000_tenants": many["us"],
        "bytes_per_tenant": {"memory": many["bytes"], "redis": shared["bytes"]},
    }


async def _run(store: str, tenants: int) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.limiter_tenants",
        store,
        str(tenants),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), 120)
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    say(f"{store}, {tenants} tenants: {found}")
    return found


class Tenants:
    """Requests of many tenants for one limiter."""

    def __init__(self, store: Store, tenants: int) -> None:
        self._store = store
        self._limiter = Limiter(
            store,
            RecordSigner(b"secret"),
            now_ms=_now_ms,
            default_ttl_ms=30_000,
            metrics=LimiterMetrics(CollectorRegistry()),
        )
        book = LimitBook(DirectoryIndex(_snapshot(tenants)))
        self._limiter.use(book)
        self._subjects = [Subject(f"t{number}", "", "", "m", "1") for number in range(tenants)]
        for subject in self._subjects:
            book.resolve(subject)
        self._made = 0

    async def once_each(self) -> None:
        """A request of each tenant, settled."""
        for subject in self._subjects:
            await self._request(subject)
        await self._acknowledge()

    async def cpu_us(self) -> float:
        """CPU microseconds a decision; median of some parts."""
        dice = random.Random(1)
        parts = []
        for _ in range(_PARTS):
            began = time.process_time()
            for _ in range(_DECISIONS // 2):
                await self._request(dice.choice(self._subjects))
            parts.append((time.process_time() - began) / _DECISIONS * 1e6)
            await self._acknowledge()
        return median(parts)

    async def _request(self, subject: Subject) -> None:
        self._made += 1
        ask = Ask(f"r{self._made}", subject, prompt_tokens=100, max_new_tokens=28, streams=True)
        admission = await self._limiter.reserve(ask)
        usage = Usage(prompt_tokens=100, completion_tokens=20)
        await self._limiter.settle(admission.record, Report(usage, Quality.EXACT, 1))
        if self._made % 500 == 0:
            await self._acknowledge()

    async def _acknowledge(self) -> None:
        while entries := await self._store.outbox(1_000):
            await self._store.acknowledge([entry.id for entry in entries])


async def _memory(tenants: int) -> dict[str, float]:
    with TemporaryDirectory(prefix="weir-bench-") as folder:
        options = MemoryOptions(most_ended=1)
        store = MemoryStore(MemoryLog.open(Path(folder), options, _now_ms()), _now_ms)
        try:
            work = Tenants(store, tenants)
            before = _resident()
            await work.once_each()
            used = _resident() - before
            return {"us": round(await work.cpu_us(), 1), "bytes": round(used / tenants)}
        finally:
            await store.close()


async def _redis(tenants: int) -> dict[str, float]:
    with TemporaryDirectory(prefix="weir-bench-") as folder, running_valkey(Path(folder)) as server:
        async with _redis_store(server.url) as store:
            work = Tenants(store, tenants)
            with server.client() as client:
                before = _used_memory(client)
                await work.once_each()
                await _reservations_forgotten(client)
                used = _used_memory(client) - before
        return {"bytes": round(used / tenants)}


@asynccontextmanager
async def _redis_store(url: str) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(url, RedisOptions(timeout_s=2.0, remember_ms=_FORGET_MS))
    try:
        yield store
    finally:
        await store.close()


async def _reservations_forgotten(client: redis.Redis) -> None:
    """Returns when what has ended is remembered no more."""
    async with asyncio.timeout(_FORGOTTEN_S):
        while any(client.scan_iter("*:reservation:*", count=10_000)):  # noqa: ASYNC110 - keys expire silently
            await asyncio.sleep(0.2)


def _used_memory(client: redis.Redis) -> int:
    return int(cast("dict[str, int]", client.info("memory"))["used_memory"])


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _snapshot(tenants: int) -> pb.Snapshot:
    return pb.Snapshot(
        version=1,
        plans=[pb.Plan(id="plan", limits=_limits())],
        tenants=[pb.Tenant(id=f"t{number}", plan_id="plan") for number in range(tenants)],
        models=[pb.Model(name="m")],
    )


def _limits() -> list[pb.Limit]:
    bucket, lease, window = pb.LIMIT_KIND_BUCKET, pb.LIMIT_KIND_LEASE, pb.LIMIT_KIND_WINDOW
    tokens, requests = pb.LIMIT_RESOURCE_TOKENS, pb.LIMIT_RESOURCE_REQUESTS
    shapes = [
        ("rps", bucket, requests, 1, ""),
        ("rpm", bucket, requests, 60, ""),
        ("tpm", bucket, tokens, 60, ""),
        ("tph", bucket, tokens, 3_600, ""),
        ("itpm", bucket, pb.LIMIT_RESOURCE_INPUT_TOKENS, 60, ""),
        ("otpm", bucket, pb.LIMIT_RESOURCE_OUTPUT_TOKENS, 60, ""),
        ("concurrency", lease, pb.LIMIT_RESOURCE_CONCURRENCY, 0, ""),
        ("streams", lease, pb.LIMIT_RESOURCE_STREAMS, 0, ""),
        ("day", window, tokens, 0, "day"),
        ("month", window, tokens, 0, "month"),
    ]
    return [
        pb.Limit(
            id=limit_id,
            kind=kind,
            resource=counted,
            capacity=10**12,
            period=Duration(seconds=period_s) if period_s else None,
            window=of,
        )
        for limit_id, kind, counted, period_s, of in shapes
    ]


async def main() -> None:
    """One store, one size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["memory", "redis"])
    parser.add_argument("tenants", type=int)
    given = parser.parse_args()
    run = _memory if given.store == "memory" else _redis
    print(json.dumps(await run(given.tenants)))


if __name__ == "__main__":
    asyncio.run(main())
