"""What requests waited for in the scheduler's queue, on average over a window."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from weir.scheduler.v1.scheduler_service_pb2 import QueueDepth, QueueReason
from weir_cli.doctor.window import Window, seconds_of


class Blocked(StrEnum):
    """What a queue waits for."""

    TENANT_CAP = "tenant cap"
    FULL = "workers full"
    KV = "KV full"
    NO_WORKER = "no worker"
    BATCH_WINDOW = "batch window"
    TURN = "turn"


_BLOCKED = {
    QueueReason.QUEUE_REASON_TENANT_CAP: Blocked.TENANT_CAP,
    QueueReason.QUEUE_REASON_WORKER_FULL: Blocked.FULL,
    QueueReason.QUEUE_REASON_BATCH_FULL: Blocked.FULL,
    QueueReason.QUEUE_REASON_LONG_CAP: Blocked.FULL,
    QueueReason.QUEUE_REASON_SESSION_WAIT: Blocked.FULL,
    QueueReason.QUEUE_REASON_KV_FULL: Blocked.KV,
    QueueReason.QUEUE_REASON_NO_WORKER: Blocked.NO_WORKER,
    QueueReason.QUEUE_REASON_WORKERS_TRIED: Blocked.NO_WORKER,
    QueueReason.QUEUE_REASON_BATCH_WINDOW: Blocked.BATCH_WINDOW,
}
"""Every other reason is to wait for one's turn behind those that wait for these."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Averages of requests that waited.

    Attributes:
        by_cause: what the queue as a whole waited for; those who wait for their turn wait for
            what the head of their queue waits for.
        by_tenant_cap: of those at a cap of their own tenant, by tenant.
        by_reason: as the scheduler names them, without prefix and in lower case.
    """

    by_cause: Mapping[Blocked, float]
    by_tenant_cap: Mapping[str, float]
    by_reason: Mapping[str, float]

    @property
    def all(self) -> float:
        """Every one."""
        return sum(self.by_cause.values())

    def of(self, cause: Blocked) -> float:
        """Those that waited for that."""
        return self.by_cause.get(cause, 0.0)


def waiting_in(window: Window) -> Waiting:
    """What waited for what."""
    sums = _Sums()
    seconds = 0.0
    for sample in window.samples:
        if sample.far_read:
            part = seconds_of(sample)
            seconds += part
            depths = [one for one in sample.depths if window.model in ("", one.model)]
            sums.add(depths, part, window.tenant)
    return Waiting(
        by_cause={cause: held / seconds for cause, held in sums.by_cause.items()},
        by_tenant_cap={tenant: held / seconds for tenant, held in sums.by_tenant_cap.items()},
        by_reason={name: held / seconds for name, held in sums.by_reason.items()},
    )


class _Sums:
    """Requests times seconds."""

    def __init__(self) -> None:
        self.by_cause: dict[Blocked, float] = defaultdict(float)
        self.by_tenant_cap: dict[str, float] = defaultdict(float)
        self.by_reason: dict[str, float] = defaultdict(float)

    def add(self, depths: list[QueueDepth], seconds: float, tenant: str) -> None:
        """Takes one sample: heads of anybody say what the turns of the tenant wait for."""
        heads: dict[Blocked, float] = defaultdict(float)
        turns = 0.0
        for one in depths:
            weight = one.waiting * seconds
            cause = _BLOCKED.get(one.reason, Blocked.TURN)
            if cause not in (Blocked.TURN, Blocked.TENANT_CAP):
                heads[cause] += weight
            if tenant in ("", one.tenant_id):
                self._count(one, cause, weight)
                turns += weight if cause is Blocked.TURN else 0.0
        whole = sum(heads.values())
        for cause, weight in heads.items():
            self.by_cause[cause] += turns * weight / whole
        if turns and not whole:
            self.by_cause[Blocked.FULL] += turns

    def _count(self, one: QueueDepth, cause: Blocked, weight: float) -> None:
        name = QueueReason.Name(one.reason).removeprefix("QUEUE_REASON_").lower()
        self.by_reason[name] += weight
        if cause is not Blocked.TURN:
            self.by_cause[cause] += weight
        if cause is Blocked.TENANT_CAP:
            self.by_tenant_cap[one.tenant_id] += weight
