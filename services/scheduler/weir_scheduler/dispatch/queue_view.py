"""What waits, where and why: for gateways, operators and metrics."""

from collections.abc import Iterator

from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.wait_reason import WaitReason


class QueueView:
    """Reads the queues; changes nothing."""

    def __init__(self, state: SchedulerState, waiting: WaitingRoom) -> None:
        self._state = state
        self._waiting = waiting

    def reason(self, record: RequestRecord) -> WaitReason:
        """Why a request waits at this moment."""
        lane = self._state.lanes[record.lane_key]
        if record.phase is Phase.STRANDED:
            return WaitReason.NO_WORKER
        if lane.blocked is not None and lane.blocked[0] == record.entry.request_id:
            return lane.blocked[1]
        if record.was_preempted:
            return WaitReason.PREEMPTED
        return self._common_reason(lane, record.entry.tenant_id)

    def position(self, record: RequestRecord) -> int:
        """Place in its tenant's queue, from 1; O(length of that queue)."""
        entry = record.entry
        lane = self._state.lanes[record.lane_key]
        queue = lane.queue_of(entry.request_class, entry.tenant_id)
        if queue is None or entry.request_id not in queue:
            return 1
        return queue.position(entry.request_id)

    def waiting(self, tenant_id: str = "") -> list[RequestRecord]:
        """Waiting requests in order of arrival; an empty id for those of all tenants."""
        records = [
            record
            for record in self._state.requests
            if record.waits and tenant_id in ("", record.entry.tenant_id)
        ]
        records.sort(key=lambda record: (record.entry.arrival_us, record.entry.sequence))
        return records

    def depth(self) -> Iterator[tuple[str, WaitReason, int]]:
        """Waiting requests by tenant and reason; O(tenants that wait), not requests."""
        for lane in self._state.lanes.values():
            blocked = lane.blocked[0] if lane.blocked is not None else ""
            for _, tenant_id, queue in lane.queues():
                others = len(queue)
                if lane.blocked is not None and blocked in queue:
                    others -= 1
                    yield tenant_id, lane.blocked[1], 1
                if others:
                    yield tenant_id, self._common_reason(lane, tenant_id), others
            for record in self._waiting.stranded(lane.key):
                yield record.entry.tenant_id, WaitReason.NO_WORKER, 1

    def _common_reason(self, lane: Lane, tenant_id: str) -> WaitReason:
        if lane.no_worker_since_us is not None:
            return WaitReason.NO_WORKER
        if lane.is_blocked(tenant_id):
            return WaitReason.TENANT_CAP
        return WaitReason.BEHIND_OTHERS
