"""Puts a shared store, its local account and what ties them together."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.degraded.breaker import Breaker, BreakerOptions
from weir_ratelimiter.store.degraded.credit import Credit
from weir_ratelimiter.store.degraded.local import LocalAccount
from weir_ratelimiter.store.degraded.metrics import DegradedMetrics, GapCollector
from weir_ratelimiter.store.degraded.mode import Mode
from weir_ratelimiter.store.degraded.pending_log import PendingLog
from weir_ratelimiter.store.degraded.replay import Replay
from weir_ratelimiter.store.degraded.replicas import ReplicaCount
from weir_ratelimiter.store.degraded.resilient import ResilientStore
from weir_ratelimiter.store.degraded.shared import Connected, SharedStore
from weir_ratelimiter.store.degraded.watch import StoreWatch
from weir_ratelimiter.store.memory import MemoryStore
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions

_LOCAL_HORIZON_MS = 600_000
_LOCAL_MOST_ENDED = 100_000


class AwayOptions(msgspec.Struct, frozen=True):
    """What happens while the shared store is away.

    Attributes:
        folder: of the local account, for this process alone.
        memory: durability of the local account.
        timeout_s: of one call to the shared store.
        admits: whether new requests are admitted on a share of the limits.
        budget_credit: percent of each budget that may be spent meanwhile, by each replica.
        least_replicas: number to divide by before others were counted.
        most_pending: reservations kept for the shared store before none is admitted.
        breaker: when to stop asking.
    """

    folder: Path
    memory: MemoryOptions = MemoryOptions()
    timeout_s: float = 0.1
    admits: bool = True
    budget_credit: float = 1.0
    least_replicas: int = 1
    most_pending: int = 100_000
    breaker: BreakerOptions = BreakerOptions()


class Assembled(msgspec.Struct, frozen=True):
    """A store, and what its owner has to start and to call."""

    store: ResilientStore
    shared: SharedStore
    local: MemoryStore
    watch: StoreWatch
    mode: Mode


def assemble(
    connect: Callable[[], Awaitable[Connected]],
    options: AwayOptions,
    *,
    now_ms: Callable[[], int],
    limits_of: Callable[[Subject], Limits],
    registry: CollectorRegistry,
) -> Assembled:
    """Open the local account and tie it to a shared store, which is not reached yet.

    Args:
        connect, limits_of: see `SharedStore` and `Replay`.
        options: what happens while the store is away.
        now_ms: Unix milliseconds that only run.
        registry: of the metrics.

    Raises:
        StartupError: the folder is in use, not writable, or damaged.
    """
    memory = msgspec.structs.replace(
        options.memory, horizon_ms=_LOCAL_HORIZON_MS, most_ended=_LOCAL_MOST_ENDED
    )
    account = MemoryStore(MemoryLog.open(options.folder, memory, now_ms()), now_ms)
    pending = PendingLog.open(
        options.folder / "pending.db", fsync=memory.fsync, most=options.most_pending
    )
    mode = Mode()
    count = ReplicaCount(options.folder / "replicas", options.least_replicas)
    credit = Credit(options.budget_credit)
    metrics = DegradedMetrics(registry)
    shared = SharedStore(
        connect,
        breaker=Breaker(options.breaker),
        mode=mode,
        count=count,
        timeout_s=options.timeout_s,
        now_ms=now_ms,
    )
    GapCollector(shared, mode, pending, count, now_ms, registry)
    local = LocalAccount(account, pending, credit, count, mode, now_ms, admits=options.admits)
    replay = Replay(shared, local, pending, limits_of, metrics, now_ms)
    store = ResilientStore(
        shared, local, pending, replay, credit=credit, mode=mode, metrics=metrics
    )
    watch = StoreWatch(shared, local, pending, replay, mode=mode, now_ms=now_ms)
    return Assembled(store, shared, account, watch, mode)
