"""What waits, and why, as the queue page gets it."""

from typing import Any

from weir.common.v1.subject_pb2 import RequestClass
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_gateway.console.forms.moments import duration_s, moment, word

_TEXTS = {
    "WORKER_FULL": "Every worker runs as many requests as it may (max_concurrent_requests).",
    "BATCH_FULL": "Every worker's batch is full (max_batch_size or max_batch_tokens).",
    "KV_FULL": "No worker has enough free KV blocks.",
    "TENANT_CAP": "The tenant runs as many requests as it may (max_running_requests).",
    "BEHIND_OTHERS": "Others are ahead.",
    "NO_WORKER": "No live worker serves the model at this moment.",
    "BATCH_WINDOW": "The batch window is open: more requests are being gathered.",
    "LONG_CAP": "Every worker runs as many long requests as it may (max_running_long).",
    "CLASS_SHARE": "Requests of the other class are ahead, by the shares of the classes.",
    "LENGTH_SHARE": "Requests of other length are ahead, by the shares of short and long ones.",
    "WORKERS_TRIED": "Every live worker has failed it; it tries again soon.",
    "SESSION_WAIT": "The worker of its session is full; it goes elsewhere soon.",
    "PREEMPTED": "It gave its place to a more urgent request and waits for another.",
    "PREEMPTING": "It waits for the place of a less urgent request.",
}
_CLASSES = {RequestClass.REQUEST_CLASS_BATCH: "batch"}


def reason_word(reason: int) -> str:
    """`KV_FULL`, or `UNKNOWN`."""
    return word(wire.QueueReason, reason, "QUEUE_REASON_") or "UNKNOWN"


def reason_text(reason: str) -> str:
    """A reason for people."""
    return _TEXTS.get(reason, "The scheduler has not said why.")


def waiting_json(queued: wire.QueuedRequest, now_us: int) -> dict[str, Any]:
    """One request that waits."""
    reason = reason_word(queued.reason)
    return {
        "request_id": queued.request_id,
        "tenant": queued.subject.tenant_id,
        "user": queued.subject.user_id,
        "key": queued.subject.api_key_id,
        "model": queued.subject.model,
        "position": queued.position,
        "reason": reason,
        "text": reason_text(reason),
        "arrival_time": moment(queued, "arrival_time"),
        "enqueue_time": moment(queued, "enqueue_time"),
        "waited_s": waited_s(queued, now_us),
        "estimated_tokens": queued.estimated_cost,
        "priority": queued.priority,
    }


def waited_s(queued: wire.QueuedRequest, now_us: int) -> float:
    """How long it waits by now."""
    return max(0, now_us - queued.enqueue_time.ToMicroseconds()) / 1e6


def pool_json(pool: wire.PoolStatus) -> dict[str, Any]:
    """One pool, with what waits in it."""
    return {
        "pool": pool.pool,
        "model": pool.model,
        "model_version": pool.model_version,
        "tenant": pool.tenant_id,
        "isolation": pool.isolation,
        "policy": pool.scheduler_policy,
        "live_workers": pool.live_workers,
        "workers": pool.workers,
        "drain_tokens_per_s": pool.drain_tokens_per_second or None,
        "queues": [_group_json(queue) for queue in pool.queues],
    }


def _group_json(queue: wire.QueueStatus) -> dict[str, Any]:
    return {
        "class": _CLASSES.get(getattr(queue, "class"), "interactive"),
        "long": queue.long,
        "waiting": queue.waiting,
        "waiting_tokens": queue.waiting_tokens,
        "tenants": queue.tenants,
        "share": queue.share_millis / 1_000,
        "predicted_wait_s": duration_s(queue, "predicted_wait"),
    }


def reasons_json(depths: list[wire.QueueDepth]) -> list[dict[str, Any]]:
    """How many wait for what, most first."""
    counts: dict[str, int] = {}
    for depth in depths:
        reason = reason_word(depth.reason)
        counts[reason] = counts.get(reason, 0) + depth.waiting
    return [
        {"reason": reason, "text": reason_text(reason), "count": counts[reason]}
        for reason in sorted(counts, key=lambda name: (-counts[name], name))
    ]
