"""What waits, where and why: for gateways, operators and metrics."""

from collections.abc import Iterator

from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.group import Group, group_of
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
            return self._stranded_reason(record)
        known = lane.waiting_heads().get(record.entry.request_id)
        if known is not None:
            return known
        if record.was_preempted:
            return WaitReason.PREEMPTED
        return self._common_reason(lane, group_of(record.entry), record.entry.tenant_id)

    def position(self, record: RequestRecord) -> int:
        """Place in its tenant's queue, from 1; O(length of that queue)."""
        entry = record.entry
        lane = self._state.lanes[record.lane_key]
        queue = lane.queue_of(entry.request_class, entry.tenant_id, long=entry.long)
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
            yield from self._depth_of(lane)

    def depth_of_pools(self) -> Iterator[tuple[str, str, str, WaitReason, int]]:
        """Likewise, by model and pool too."""
        for lane in self._state.lanes.values():
            for tenant_id, reason, count in self._depth_of(lane):
                yield lane.key.model, lane.pool.name, tenant_id, reason, count

    def _depth_of(self, lane: Lane) -> Iterator[tuple[str, WaitReason, int]]:
        heads = lane.waiting_heads()
        for group, tenant_id, queue in lane.queues():
            mine = [reason for request_id, reason in heads.items() if request_id in queue]
            for reason in mine:
                yield tenant_id, reason, 1
            others = len(queue) - len(mine)
            if others:
                yield tenant_id, self._common_reason(lane, group, tenant_id), others
        for record in self._waiting.stranded(lane.key):
            yield record.entry.tenant_id, self._stranded_reason(record), 1

    def _stranded_reason(self, record: RequestRecord) -> WaitReason:
        """Whether there is a worker that it might try again."""
        if record.awaits:
            return WaitReason.SESSION_WAIT
        now_us, excluded = self._state.now_us(), record.entry.excluded
        serving = self._state.fleet.serving(record.lane_key) if excluded else ()
        tried = any(w.info.worker_id in excluded and w.live(now_us) for w in serving)
        return WaitReason.WORKERS_TRIED if tried else WaitReason.NO_WORKER

    def _common_reason(self, lane: Lane, group: Group, tenant_id: str) -> WaitReason:
        """Why those wait that are not a head."""
        if lane.no_worker_since_us is not None:
            return WaitReason.NO_WORKER
        if lane.is_blocked(tenant_id):
            return WaitReason.TENANT_CAP
        passed = lane.passed(group)
        if passed in (WaitReason.LONG_CAP, WaitReason.BATCH_WINDOW):
            return passed
        return WaitReason.BEHIND_OTHERS if passed is not None else self._turn_reason(lane, group)

    def _turn_reason(self, lane: Lane, group: Group) -> WaitReason:
        """Whose turn it is instead."""
        head = self._state.requests.get(lane.blocked[0]) if lane.blocked is not None else None
        if head is None or lane.blocked is None:
            return WaitReason.BEHIND_OTHERS
        if lane.blocked[1] is WaitReason.BATCH_WINDOW:
            return WaitReason.BATCH_WINDOW
        if head.entry.request_class is not group.request_class:
            return WaitReason.CLASS_SHARE
        if head.entry.long != group.long:
            return WaitReason.LENGTH_SHARE
        return WaitReason.BEHIND_OTHERS
