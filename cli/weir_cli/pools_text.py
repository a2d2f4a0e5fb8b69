"""Pools, what waits in them, and tenants' targets, as text."""

from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from weir.common.v1.subject_pb2 import RequestClass
from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus, QueueStatus, SloStatus
from weir_cli.output import table

_HEAD = (
    *("POOL", "MODEL", "VERSION", "TENANTS", "POLICY", "WORKERS", "CLASS", "PROMPT", "SHARE"),
    *("WAITING", "TOKENS", "TOKENS/S", "WAIT"),
)
_TENANT_HEAD = (
    "POOL",
    "MODEL",
    "CLASS",
    "PROMPT",
    "TENANT",
    "WEIGHT",
    "SHARE",
    "WAITING",
    "TOKENS",
)
_SLO_HEAD = ("TENANT", "TARGET", "OF REQUESTS", "WINDOW", "KEPT", "REQUESTS", "BURN RATE")


def pools_text(pools: Sequence[PoolStatus], slos: Sequence[SloStatus]) -> str:
    """One table of pools, one of tenants that wait, and one of targets, where there are some."""
    rows = [row for pool in pools for row in _pool(pool)]
    parts = [table([_HEAD, *rows], right=(5, 8, 9, 10, 11, 12)) if rows else "no pools"]
    tenants = [row for pool in pools for row in _tenants(pool)]
    if tenants:
        parts.append(table([_TENANT_HEAD, *tenants], right=(5, 6, 7, 8)))
    if slos:
        windows = [row for slo in slos for row in _slo(slo)]
        parts.append(table([_SLO_HEAD, *windows], right=(2, 3, 4, 5, 6)))
    return "\n\n".join(parts)


def _pool(pool: PoolStatus) -> list[tuple[str, ...]]:
    """A row for each class and length in which something waits, or one for all that may."""
    own = (
        pool.pool,
        pool.model,
        pool.model_version or "any",
        pool.tenant_id or pool.isolation,
        pool.scheduler_policy,
        f"{pool.live_workers} of {pool.workers}",
    )
    waiting = [queue for queue in pool.queues if queue.waiting] or list(pool.queues[:1])
    if not waiting:
        return [(*own, "-", "-", "-", "0", "0", _rate(pool), "-")]
    return [(*own, *_queue(queue, pool)) for queue in waiting]


def _queue(queue: QueueStatus, pool: PoolStatus) -> tuple[str, ...]:
    known = queue.HasField("predicted_wait")
    return (
        _class(queue),
        "long" if queue.long else "short",
        f"{queue.share_millis / 10:.0f} %",
        str(queue.waiting),
        str(queue.waiting_tokens),
        _rate(pool),
        f"{queue.predicted_wait.ToMilliseconds() / 1_000:.1f} s" if known else "-",
    )


def _tenants(pool: PoolStatus) -> list[tuple[str, ...]]:
    """A row for each tenant of which something waits, the most first."""
    return [
        (
            pool.pool,
            pool.model,
            _class(queue),
            "long" if queue.long else "short",
            tenant.tenant_id,
            str(tenant.weight),
            f"{tenant.share_millis / 10:.0f} %" if tenant.share_millis else "-",
            str(tenant.waiting),
            str(tenant.waiting_tokens),
        )
        for queue in pool.queues
        for tenant in queue.tenant_queues
    ]


def _class(queue: QueueStatus) -> str:
    name = RequestClass.Name(getattr(queue, "class"))
    return name.removeprefix("REQUEST_CLASS_").lower()


def _rate(pool: PoolStatus) -> str:
    return f"{pool.drain_tokens_per_second:.0f}" if pool.drain_tokens_per_second else "-"


def _slo(slo: SloStatus) -> list[tuple[str, ...]]:
    target = f"{slo.objective} {slo.target.ToMilliseconds()} ms"
    return [
        (
            slo.tenant_id,
            target,
            f"{slo.attainment_target_millis / 10:g} %",
            _length(window.length),
            f"{100 * window.good / window.total:.1f} %" if window.total else "-",
            str(window.total),
            f"{window.burn_rate:.1f}",
        )
        for window in slo.windows
    ]


def _length(length: Duration) -> str:
    minutes = length.ToSeconds() // 60
    return f"{minutes // 60} h" if minutes >= 60 else f"{minutes} min"
