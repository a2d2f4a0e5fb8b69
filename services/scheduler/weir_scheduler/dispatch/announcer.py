"""Tells gateways where their requests stand."""

from collections.abc import Sequence

from weir_scheduler.dispatch.queue_view import QueueView
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.tenant_queue import TenantQueue
from weir_scheduler.queues.wait_reason import WaitReason

_OF_ONE_QUEUE = 1_000


class Announcer:
    """Sends reason and position when they change, at a bounded rate.

    A position has changed when it has by a tenth: near the head every place counts, far back
    one dispatch would else be news for everybody behind it.

    A round comes at most every `announce_us` and looks at about `announce_budget` requests,
    and of one queue at the first 1,000; what is left over comes first in another round soon
    after, so that none of them holds up a dispatch for long. A request that is dispatched
    within the first round's delay is never announced.
    """

    def __init__(self, state: SchedulerState, waiting: WaitingRoom, view: QueueView) -> None:
        self._state = state
        self._waiting = waiting
        self._view = view

    def announce(self) -> None:
        """One round."""
        state = self._state
        whole = left = state.bounds.announce_budget
        while state.to_announce and left > 0:
            key, request_class, tenant_id = next(iter(state.to_announce))
            lane = state.lanes[key]
            queues = [
                queue
                for long in (False, True)
                if (queue := lane.queue_of(request_class, tenant_id, long=long)) is not None
            ]
            if sum(map(len, queues)) > left and left < whole:
                break
            del state.to_announce[key, request_class, tenant_id]
            left -= 1 + self._announce_queues(key, queues, tenant_id, _OF_ONE_QUEUE)
        if state.to_announce:
            at_us = state.now_us() + state.bounds.announce_left_us
            state.timers.set_earlier(TimerKind.ANNOUNCE, None, at_us)

    def _announce_queues(
        self, key: LaneKey, queues: Sequence[TenantQueue], tenant_id: str, limit: int
    ) -> int:
        """Announces one tenant's queues; returns how many requests were looked at."""
        looked_at = 0
        for queue in queues:
            for position, entry in enumerate(queue.ordered(limit), start=1):
                looked_at += 1
                record = self._state.requests.get(entry.request_id)
                if record is not None:
                    self._announce_one(record, position)
        stranded = [r for r in self._waiting.stranded(key) if r.entry.tenant_id == tenant_id]
        for record in stranded:
            self._announce_one(record, 1)
        return looked_at + len(stranded)

    def _announce_one(self, record: RequestRecord, position: int) -> None:
        news = position, self._view.reason(record)
        if record.announced is not None and not _is_news(record.announced, news):
            return
        record.announced = news
        self._state.outbox.queued(record.gateway, record.entry.request_id, *news)
        self._state.observer.waits(record, news[1], position)


def _is_news(before: tuple[int, WaitReason], now: tuple[int, WaitReason]) -> bool:
    moved = 10 * abs(before[0] - now[0]) >= before[0]
    return before[1] is not now[1] or (before[0] != now[0] and moved)
