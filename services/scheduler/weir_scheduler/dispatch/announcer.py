"""Tells gateways where their requests stand."""

from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.tenant_queue import TenantQueue
from weir_scheduler.queues.wait_reason import WaitReason


class Announcer:
    """Sends position and reason when they change, at a bounded rate.

    A round comes at most every `announce_us` and looks at about `announce_budget` requests,
    and of one queue at the first so many; what is left over comes first in the next. A request
    that is dispatched within the first round's delay is never announced.
    """

    def __init__(self, state: SchedulerState, waiting: WaitingRoom) -> None:
        self._state = state
        self._waiting = waiting

    def announce(self) -> None:
        """One round."""
        state = self._state
        whole = left = state.bounds.announce_budget
        while state.to_announce and left > 0:
            key, request_class, tenant_id = next(iter(state.to_announce))
            queue = state.lanes[key].queue_of(request_class, tenant_id)
            if queue is not None and len(queue) > left and left < whole:
                break
            del state.to_announce[key, request_class, tenant_id]
            left -= 1 + self._announce_queue(key, queue, tenant_id, whole)
        if state.to_announce:
            at_us = state.now_us() + state.bounds.announce_us
            state.timers.set_earlier(TimerKind.ANNOUNCE, None, at_us)

    def reason(self, record: RequestRecord) -> WaitReason:
        """Why a request waits at this moment."""
        lane = self._state.lanes[record.lane_key]
        if record.phase is Phase.STRANDED or lane.no_worker_since_us is not None:
            return WaitReason.NO_WORKER
        if lane.is_blocked(record.entry.tenant_id):
            return WaitReason.TENANT_CAP
        if lane.blocked is not None and lane.blocked[0] == record.entry.request_id:
            return lane.blocked[1]
        return WaitReason.BEHIND_OTHERS

    def positions(self, lane: Lane, limit: int) -> dict[str, int]:
        """Positions in every tenant queue of a lane, the first `limit` of each."""
        places = {
            entry.request_id: place
            for _, _, queue in lane.queues()
            for place, entry in enumerate(queue.ordered(limit), start=1)
        }
        places.update({r.entry.request_id: 1 for r in self._waiting.stranded(lane.key)})
        return places

    def _announce_queue(
        self, key: LaneKey, queue: TenantQueue | None, tenant_id: str, limit: int
    ) -> int:
        """Announces one tenant's queue; returns how many requests were looked at."""
        entries = queue.ordered(limit) if queue is not None else []
        for position, entry in enumerate(entries, start=1):
            record = self._state.requests.get(entry.request_id)
            if record is not None:
                self._announce_one(record, position)
        stranded = [r for r in self._waiting.stranded(key) if r.entry.tenant_id == tenant_id]
        for record in stranded:
            self._announce_one(record, 1)
        return len(entries) + len(stranded)

    def _announce_one(self, record: RequestRecord, position: int) -> None:
        news = position, self.reason(record)
        if record.announced == news:
            return
        record.announced = news
        self._state.outbox.queued(record.gateway, record.entry.request_id, *news)
        self._state.observer.waits(record, news[1], position)
