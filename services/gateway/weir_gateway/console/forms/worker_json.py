"""Workers as the pages get them."""

from collections.abc import Sequence
from typing import Any

from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir_gateway.console.forms.moments import duration_s, moment


def worker_json(view: WorkerView) -> dict[str, Any]:
    """One worker."""
    info, load = view.registration, view.load
    return {
        "id": info.worker_id,
        "model": info.model,
        "model_version": info.model_version,
        "pool": view.pool,
        "profile": info.profile,
        "address": info.address,
        "device": info.gpu_id,
        "state": view.state,
        "state_reason": view.state_reason,
        "drain_time": moment(view, "drain_time"),
        "last_report_time": moment(view, "last_report_time"),
        "running": view.running_attempts,
        "pending": view.pending_attempts,
        "waiting": load.waiting_requests,
        "max_running": info.max_concurrent_requests,
        "kv_blocks": info.total_kv_blocks,
        "kv_free_blocks": load.free_kv_blocks,
        "kv_cached_blocks": load.cached_kv_blocks,
        "kv_held_blocks": load.held_kv_blocks,
        "kv_use": _share(load.held_kv_blocks, info.total_kv_blocks),
        "block_tokens": info.block_size,
        "step_s": duration_s(load, "step_time"),
        "device_use": _millis(load.device_utilisation_millis),
        "device_memory_bytes": load.device_memory_used_bytes or None,
        "device_memory_total_bytes": load.device_memory_total_bytes or None,
        "prefix_hit_rate": _share(load.prefix_hits_total, load.prefix_queries_total),
        "preemptions": load.preemptions_total,
        "dedicated_tenant": info.dedicated_tenant_id or None,
    }


def fleet_json(views: Sequence[WorkerView]) -> dict[str, Any]:
    """All workers in a few numbers; those that are lost count for their state alone."""
    states = [view.state for view in views]
    here = [view for view in views if view.state != "lost"]
    total = sum(view.registration.total_kv_blocks for view in here)
    held = sum(view.load.held_kv_blocks for view in here)
    return {
        "ready": states.count("ready"),
        "draining": states.count("draining"),
        "suspect": states.count("suspect"),
        "lost": states.count("lost"),
        "total": len(views),
        "running": sum(view.running_attempts for view in here),
        "waiting": sum(view.load.waiting_requests for view in here),
        "kv_blocks": total,
        "kv_free_blocks": sum(view.load.free_kv_blocks for view in here),
        "kv_use": _share(held, total),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _millis(value: int) -> float | None:
    return value / 1_000 if value > 0 else None
