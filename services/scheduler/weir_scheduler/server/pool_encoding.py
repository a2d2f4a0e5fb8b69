"""Pools and targets, to the wire."""

import math
from collections import Counter
from collections.abc import Iterable

from google.protobuf.duration_pb2 import Duration

from weir.common.v1 import subject_pb2
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir_scheduler.dispatch.pool_view import (
    GroupStatus,
    PoolStatus,
    TenantService,
    TenantStatus,
)
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.recent_service import WINDOW_US
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.slo.objective import SloStatus, WindowStatus

_MOST_DEPTHS = 256
_CLASSES = {
    RequestClass.INTERACTIVE: subject_pb2.REQUEST_CLASS_INTERACTIVE,
    RequestClass.BATCH: subject_pb2.REQUEST_CLASS_BATCH,
}


def pool_status(status: PoolStatus) -> wire.PoolStatus:
    """One pool."""
    return wire.PoolStatus(
        pool=status.rules.name,
        model=status.key.model,
        model_version=status.key.version,
        tenant_id=status.key.owner,
        isolation=status.rules.isolation.value,
        scheduler_policy=status.rules.policy,
        live_workers=status.live_workers,
        workers=status.workers,
        drain_tokens_per_second=status.drain_per_s,
        queues=[_queue(group) for group in status.groups],
        services=[_service(one) for one in status.services],
        service_window=_duration(WINDOW_US),
    )


def queue_depths(
    waiting: Iterable[tuple[str, str, str, WaitReason, int]],
) -> list[wire.QueueDepth]:
    """What waits, by pool, tenant and reason; the largest."""
    counts: Counter[tuple[str, str, str, WaitReason]] = Counter()
    for model, pool, tenant_id, reason, count in waiting:
        counts[model, pool, tenant_id, reason] += count
    return [
        wire.QueueDepth(
            model=model,
            pool=pool,
            tenant_id=tenant_id,
            reason=wire.QueueReason.Value(f"QUEUE_REASON_{reason.name}"),
            waiting=count,
        )
        for (model, pool, tenant_id, reason), count in counts.most_common(_MOST_DEPTHS)
    ]


def slo_status(status: SloStatus) -> wire.SloStatus:
    """One target of one tenant."""
    return wire.SloStatus(
        tenant_id=status.tenant_id,
        objective=status.objective.value,
        target=_duration(status.target_us),
        attainment_target_millis=status.attainment_millis,
        windows=[_window(window) for window in status.windows],
    )


def _queue(status: GroupStatus) -> wire.QueueStatus:
    message = wire.QueueStatus(
        long=status.group.long,
        waiting=status.waiting,
        waiting_tokens=status.waiting_cost,
        tenants=status.tenants,
        share_millis=round(status.share * 1000),
        tenant_queues=[_tenant(tenant) for tenant in status.most],
    )
    setattr(message, "class", _CLASSES[status.group.request_class])
    if status.newcomer is not None and math.isfinite(status.newcomer.wait_s):
        message.predicted_wait.CopyFrom(_duration(round(status.newcomer.wait_s * 1e6)))
    return message


def _tenant(status: TenantStatus) -> wire.TenantQueue:
    return wire.TenantQueue(
        tenant_id=status.tenant_id,
        weight=status.weight,
        waiting=status.waiting,
        waiting_tokens=status.waiting_cost,
        share_millis=round(status.share * 1000),
        counter=status.counter,
    )


def _service(status: TenantService) -> wire.TenantService:
    return wire.TenantService(
        tenant_id=status.tenant_id,
        weight=status.weight,
        served_tokens=status.served,
        running=status.running,
    )


def _window(window: WindowStatus) -> wire.SloWindow:
    return wire.SloWindow(
        length=_duration(window.length_us),
        good=window.good,
        total=window.total,
        burn_rate=window.burn_rate,
    )


def _duration(micros: int) -> Duration:
    length = Duration()
    length.FromMicroseconds(micros)
    return length
