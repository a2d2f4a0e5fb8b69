"""An account with a ledger behind it, and budgets of every kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from tests.ratelimiter.account import Account, directory, limit
from tests.ratelimiter.ledger.support import SECRET
from tests.ratelimiter.valkey import Valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.ledger.ledger import Ledger
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.store.memory_log import MemoryOptions
from weir_ratelimiter.store.redis.options import RedisOptions
from weir_ratelimiter.store.redis.store import RedisStore

CAPACITY = 10**12
# Eight of the first subject below, six of the second, three of the third.
BUDGETS = 17
SUBJECTS = (
    Subject("acme", "bob", "key1", "m", "1"),
    Subject("acme", "bob", "key1", "n"),
    Subject("other", "bob", "key2", "m"),
)


def budget(
    limit_id: str, resource: pb.LimitResource.ValueType, window: str = "day", zone: str = ""
) -> pb.Limit:
    return limit(limit_id, pb.LIMIT_KIND_WINDOW, resource, CAPACITY, window=window, time_zone=zone)


def snapshot() -> pb.Snapshot:
    narrowed = budget("narrowed", pb.LIMIT_RESOURCE_COST, "month", "America/St_Johns")
    narrowed.model = "m"
    made = directory(
        budget("tokens", pb.LIMIT_RESOURCE_TOKENS, zone="Asia/Kolkata"),
        budget("requests", pb.LIMIT_RESOURCE_REQUESTS),
        budget("money", pb.LIMIT_RESOURCE_COST, "month"),
        narrowed,
        user=[budget("input", pb.LIMIT_RESOURCE_INPUT_TOKENS, zone="Asia/Kathmandu")],
        key=[budget("output", pb.LIMIT_RESOURCE_OUTPUT_TOKENS)],
        model=[budget("of_model", pb.LIMIT_RESOURCE_TOKENS, "month")],
        cluster=[budget("all", pb.LIMIT_RESOURCE_COST)],
    )
    made.models[0].price.CopyFrom(
        pb.Price(input_nanos=150, cached_input_nanos=75, output_nanos=600)
    )
    return made


class Billed(Account):
    """An account with a ledger behind it."""

    def __init__(self, path: Path, url: str) -> None:
        self._url = url
        super().__init__(path, MemoryOptions())

    async def move_to(self, valkey: Valkey) -> None:
        """Keep the account in Redis from now on."""
        await self.store.close()
        await self.ledger.database.close()
        options = RedisOptions(timeout_s=10)
        self.store = await RedisStore.open(  # type: ignore[assignment]
            valkey.url, options, forced_ms=self.now_ms
        )
        self.limiter = self._limiter()
        await self.use(snapshot())

    def _limiter(self) -> Limiter:
        self.registry = CollectorRegistry()
        self.ledger = Ledger(self._url, SECRET, self.store, self.registry, self.now_ms)
        return Limiter(
            self.store,
            RecordSigner(b"secret"),
            now_ms=self.now_ms,
            default_ttl_ms=30_000,
            metrics=LimiterMetrics(self.registry),
            budgets=self.ledger.budgets,
        )


@asynccontextmanager
async def billed(path: Path, url: str) -> AsyncIterator[Billed]:
    opened = Billed(path, url)
    try:
        await opened.use(snapshot())
        yield opened
    finally:
        await opened.ledger.database.close()
        await opened.store.close()
