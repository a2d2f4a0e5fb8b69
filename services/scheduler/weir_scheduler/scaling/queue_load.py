"""Waits of every pool, as the queues tell of them."""

from weir_core.errors import WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_scheduler.scaling.pool_load import PoolLoad
from weir_scheduler.scaling.scaling_key import ScalingKey, key_of_entry

_TOLD = (QueueExit.DISPATCHED, QueueExit.REJECTED)


class QueueLoad:
    """An `Observer`; O(1) for each wait, whatever their number."""

    def __init__(self) -> None:
        self._pools: dict[ScalingKey, PoolLoad] = {}
        self._waiting: dict[str, ScalingKey] = {}
        self._state: SchedulerState | None = None

    def watch(self, state: SchedulerState) -> None:
        """Whose waits they are; before the first of them."""
        self._state = state

    @property
    def seen(self) -> list[ScalingKey]:
        """Pools for which something has waited."""
        return list(self._pools)

    def of(self, key: ScalingKey) -> PoolLoad:
        """The waits of one pool."""
        return self._pools.get(key) or PoolLoad()

    def forget(self, key: ScalingKey) -> None:
        """The pool is no longer there."""
        self._pools.pop(key, None)

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """See `Observer.refused`."""

    def entered(self, record: RequestRecord) -> None:
        """See `Observer.entered`."""
        if self._state is None:
            return
        key = key_of_entry(self._state.rules, record.entry)
        self._waiting[record.entry.request_id] = key
        self._pools.setdefault(key, PoolLoad()).enter(record.entry)

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """See `Observer.waits`."""

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """See `Observer.left`."""
        key = self._waiting.pop(record.entry.request_id, None)
        pool = self._pools.get(key) if key is not None else None
        if pool is None or self._state is None:
            return
        pool.leave(record.entry)
        now_us = self._state.now_us()
        if exit_ is QueueExit.DISPATCHED:
            pool.dispatched(now_us)
        if exit_ in _TOLD and not self._ends_at_cap(record.entry.tenant_id):
            pool.ended(record.entry, now_us)

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """See `Observer.requeued`."""

    def served(self, attempt: Attempt) -> None:
        """See `Observer.served`."""

    def _ends_at_cap(self, tenant_id: str) -> bool:
        """Whether a tenant is at its cap with one more: then it may have waited for that alone."""
        assert self._state is not None, "left is of a watched state"
        cap = self._state.rules.tenant(tenant_id).max_running_requests
        return cap > 0 and self._state.attempts.running_of(tenant_id) + 1 >= cap
