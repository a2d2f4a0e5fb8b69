"""Service beside weights, as the fairness page gets it."""

from collections.abc import Sequence
from typing import Any

from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus, TenantQueue, TenantService
from weir_gateway.console.forms.moments import duration_s


def fairness_json(pool: PoolStatus) -> dict[str, Any]:
    """One pool."""
    waiting = _waiting(pool)
    served = sum(one.served_tokens for one in pool.services)
    weights = sum(_weight(one) for one in pool.services)
    tenants = [
        _tenant_json(one, waiting.get(one.tenant_id, []), served, weights) for one in pool.services
    ]
    return {
        "pool": pool.pool,
        "model": pool.model,
        "model_version": pool.model_version,
        "isolation": pool.isolation,
        "window_s": duration_s(pool, "service_window"),
        "jain_index": jain_index(
            [one.served_tokens / _weight(one) for one in pool.services if one.tenant_id in waiting]
        ),
        "tenants": tenants,
    }


def jain_index(values: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 when all are equal, 1/n when one has everything.

    Source: Jain, Chiu and Hawe, "A Quantitative Measure of Fairness" (1984). None for less than
    two, or where nobody has anything.
    """
    squares = sum(value * value for value in values)
    if len(values) < 2 or not squares:
        return None
    return float(sum(values) ** 2 / (len(values) * squares))


def _tenant_json(
    one: TenantService, queues: Sequence[TenantQueue], served: int, weights: int
) -> dict[str, Any]:
    weight = _weight(one)
    return {
        "tenant": one.tenant_id,
        "weight": weight,
        "waiting": sum(queue.waiting for queue in queues),
        "waiting_tokens": sum(queue.waiting_tokens for queue in queues),
        "running": one.running,
        "served_tokens": one.served_tokens,
        "service_share": one.served_tokens / served if served else None,
        "weight_share": weight / weights if weights else None,
        "service_per_weight": one.served_tokens / weight,
        "counter": max((queue.counter for queue in queues), default=None),
    }


def _waiting(pool: PoolStatus) -> dict[str, list[TenantQueue]]:
    """What waits by tenant, over classes and lengths."""
    found: dict[str, list[TenantQueue]] = {}
    for queue in pool.queues:
        for one in queue.tenant_queues:
            found.setdefault(one.tenant_id, []).append(one)
    return found


def _weight(one: TenantService) -> int:
    return max(1, one.weight)
