"""Workers and the load of their pools, as text."""

from collections.abc import Sequence

from weir.scheduler.v1.scheduler_service_pb2 import PoolScaling, WorkerView
from weir_cli.output import table

_HEAD = (
    *("WORKER", "MODEL", "VERSION", "PROFILE", "POOL", "STATE", "RUNNING", "PENDING", "KV"),
    *("STEP AGE", "WHY"),
)
_POOL_HEAD = (
    *("MODEL", "POOL", "WORKERS", "WANTED", "WHY", "QUEUED", "P95 WAIT", "OLDEST", "IN USE"),
)


def workers_text(workers: Sequence[WorkerView], pools: Sequence[PoolScaling]) -> str:
    """One table of workers and one of pools."""
    parts = [
        table([_HEAD, *map(_worker, workers)], right=(6, 7, 8, 9)) if workers else "no workers"
    ]
    if pools:
        parts.append(table([_POOL_HEAD, *map(_pool, pools)], right=(2, 5, 6, 7, 8)))
    return "\n\n".join(parts)


def _worker(view: WorkerView) -> tuple[str, ...]:
    registration = view.registration
    return (
        registration.worker_id,
        registration.model,
        registration.model_version or "any",
        registration.profile or "-",
        view.pool,
        view.state,
        str(view.running_attempts),
        str(view.pending_attempts),
        _kv(view),
        f"{view.load.step_age.ToMilliseconds() / 1_000:.1f} s",
        view.state_reason,
    )


def _kv(view: WorkerView) -> str:
    total = view.registration.total_kv_blocks
    return f"{100 * view.load.held_kv_blocks / total:.0f} %" if total else "-"


def _pool(pool: PoolScaling) -> tuple[str, ...]:
    signals, advice = pool.signals, pool.recommendation
    why = ", ".join(part for part in (advice.reason, advice.driver) if part)
    return (
        pool.model,
        pool.pool,
        str(signals.workers),
        f"{advice.workers} of {pool.min_workers}..{pool.max_workers}",
        why,
        str(signals.queued_requests + signals.capped_requests),
        f"{signals.queue_time_p95.ToMilliseconds() / 1_000:.1f} s",
        f"{signals.oldest_wait.ToMilliseconds() / 1_000:.1f} s",
        _use(pool),
    )


def _use(pool: PoolScaling) -> str:
    slots = pool.signals.request_slots
    return f"{100 * pool.signals.running_requests / slots:.0f} %" if slots else "-"
