"""A limiter with a memory store, a hand-moved clock and a directory, for the tests."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration
from prometheus_client import CollectorRegistry

from weir.directory.v1 import directory_pb2 as pb
from weir_core.clock import ManualClock
from weir_core.directory import DirectoryIndex
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.budget_source import BudgetSource
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.ids import reservation_id
from weir_ratelimiter.domain.retry_hint import spread
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.limiter import Admission, Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.base import Ended, ExtendedReservation
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions

OK, CANCELLED, SHED = 1, 2, 6
ACME = Subject("acme", "bob", "key1", "m", "1")


def limit(
    limit_id: str,
    kind: pb.LimitKind.ValueType,
    resource: pb.LimitResource.ValueType,
    capacity: int,
    *,
    period_s: int | None = None,
    **fields: Any,
) -> pb.Limit:
    message = pb.Limit(id=limit_id, kind=kind, resource=resource, capacity=capacity)
    if period_s is not None:
        message.period.CopyFrom(Duration(seconds=period_s))
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def tpm(capacity: int, limit_id: str = "tpm", **fields: Any) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_TOKENS
    return limit(limit_id, kind, resource, capacity, period_s=60, **fields)


def rpm(capacity: int, limit_id: str = "rpm", **fields: Any) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_REQUESTS
    return limit(limit_id, kind, resource, capacity, period_s=60, **fields)


def parallel(capacity: int, limit_id: str = "parallel", **fields: Any) -> pb.Limit:
    return limit(limit_id, pb.LIMIT_KIND_LEASE, pb.LIMIT_RESOURCE_CONCURRENCY, capacity, **fields)


def in_flight(capacity: int, limit_id: str = "in_flight", **fields: Any) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_HOLD, pb.LIMIT_RESOURCE_IN_FLIGHT_TOKENS
    return limit(limit_id, kind, resource, capacity, **fields)


def budget(
    capacity: int,
    limit_id: str = "budget",
    *,
    unit: str = "month",
    resource: pb.LimitResource.ValueType = pb.LIMIT_RESOURCE_COST,
    **fields: Any,
) -> pb.Limit:
    return limit(limit_id, pb.LIMIT_KIND_WINDOW, resource, capacity, window=unit, **fields)


def context(capacity: int, limit_id: str = "context", **fields: Any) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_CONTEXT, pb.LIMIT_RESOURCE_CONTEXT_TOKENS
    return limit(limit_id, kind, resource, capacity, **fields)


def hint(wait_s: float, request_id: str) -> float:
    """After how long `acme` is told to retry a request that would fit in `wait_s`."""
    return spread(wait_s, reservation_id("acme", request_id))


def directory(
    *tenant_limits: pb.Limit,
    version: int = 1,
    cluster: Iterable[pb.Limit] = (),
    user: Iterable[pb.Limit] = (),
    key: Iterable[pb.Limit] = (),
    model: Iterable[pb.Limit] = (),
    plan: Iterable[pb.Limit] = (),
    suspended: bool = False,
    revoked: bool = False,
    policy: pb.Policy | None = None,
    price: pb.Price | None = None,
) -> pb.Snapshot:
    """Tenants `acme` (limited as given) and `other` (not at all), both with user `bob`."""
    acme = pb.Tenant(
        id="acme", plan_id="plan", limits=tenant_limits, suspended=suspended, policy=policy
    )
    return pb.Snapshot(
        version=version,
        plans=[pb.Plan(id="plan", limits=plan)],
        tenants=[acme, pb.Tenant(id="other", plan_id="plan")],
        users=[
            pb.User(id="bob", tenant_id="acme", limits=user),
            pb.User(id="bob", tenant_id="other", limits=user),
        ],
        api_keys=[
            pb.ApiKey(id="key1", tenant_id="acme", user_id="bob", limits=key, revoked=revoked),
            pb.ApiKey(id="key2", tenant_id="other", user_id="bob"),
        ],
        models=[pb.Model(name="m", limits=model, price=price), pb.Model(name="n")],
        cluster_limits=cluster,
    )


class Account:
    """What a gateway sees of a limiter, without the wire."""

    def __init__(
        self, path: Path, options: MemoryOptions, budgets: BudgetSource | None = None
    ) -> None:
        self.budgets = budgets
        self.path = path
        self.options = options
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.store = self._open()
        self.limiter = self._limiter()

    def _open(self) -> MemoryStore:
        self.log = MemoryLog.open(self.path, self.options, self.now_ms())
        return MemoryStore(self.log, self.now_ms)

    def _limiter(self) -> Limiter:
        self.registry = CollectorRegistry()
        return Limiter(
            self.store,
            RecordSigner(b"secret"),
            now_ms=self.now_ms,
            default_ttl_ms=30_000,
            metrics=LimiterMetrics(self.registry),
            budgets=self.budgets,
        )

    def now_ms(self) -> int:
        return self.clock.now_ms()

    def advance(self, ms: int) -> None:
        self.clock.advance_us(ms * 1_000)

    async def use(self, snapshot: pb.Snapshot) -> None:
        self.limiter.use(LimitBook(DirectoryIndex(snapshot)))

    async def restart(self, snapshot: pb.Snapshot, *, path: Path | None = None) -> None:
        """Open the journal again, or another one: a store that has lost its state."""
        await self.store.close()
        self.path = path or self.path
        self.store = self._open()
        self.limiter = self._limiter()
        await self.use(snapshot)

    async def reserve(
        self,
        request_id: str = "r1",
        *,
        prompt: int = 10,
        output: int = 20,
        subject: Subject = ACME,
        streams: bool = False,
        dry_run: bool = False,
        ttl_ms: int | None = None,
    ) -> Admission:
        ask = Ask(request_id, subject, prompt, output, streams=streams, ttl_ms=ttl_ms)
        return await self.limiter.reserve(ask, dry_run=dry_run)

    async def extend(
        self, record: bytes, output: int = 0, *, more: int = 0, prompt: int = 0, sent: bool = True
    ) -> ExtendedReservation:
        progress = Usage(prompt, 0, output)
        known = self.limiter.read(record)
        return await self.limiter.extend(known, Extension(progress, more, dispatched=sent))

    async def settle(
        self, record: bytes, prompt: int, completion: int, *, quality: Quality = Quality.EXACT
    ) -> Ended:
        usage = None if quality is Quality.UNKNOWN else Usage(prompt, 0, completion)
        return await self.limiter.settle(record, Report(usage, quality, OK))

    async def refund(self, record: bytes) -> Ended:
        return await self.limiter.refund(record, SHED, b"")

    async def remaining(self, subject: Subject = ACME) -> dict[str, int]:
        """What is free of every counted limit, by key."""
        states = await self.limiter.states(subject)
        return {state.limit.key: state.remaining for state in states}

    async def events(self) -> list[LedgerEvent]:
        """What the ledger has not acknowledged, oldest first."""
        return [entry.event for entry in await self.store.outbox(1_000)]

    async def left(self, key: str, subject: Subject = ACME) -> int:
        return (await self.remaining(subject))[key]


@asynccontextmanager
async def account(
    path: Path,
    snapshot: pb.Snapshot,
    options: MemoryOptions | None = None,
    *,
    budgets: BudgetSource | None = None,
) -> AsyncIterator[Account]:
    opened = Account(path, options or MemoryOptions(), budgets)
    try:
        await opened.use(snapshot)
        yield opened
    finally:
        await opened.store.close()
