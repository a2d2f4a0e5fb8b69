"""Moves requests from the queues to workers."""

from collections.abc import Mapping
from dataclasses import dataclass

from weir_scheduler.dispatch.faults import Faults
from weir_scheduler.dispatch.preempter import Preempter
from weir_scheduler.dispatch.rejections import too_large
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.sender import Sender
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.fit import blocked_by, nearest_to_room
from weir_scheduler.placement.placement import (
    AwaitsSession,
    Blocked,
    Placed,
    Stranded,
    TooLarge,
)
from weir_scheduler.placement.placer import Placer
from weir_scheduler.placement.selection import Selection
from weir_scheduler.placement.session_map import SessionMap
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.lane_index import LaneIndex
from weir_scheduler.workers.worker_view import WorkerView


@dataclass(slots=True)
class _Pass:
    """One pass over a lane; `only`: the class of the batch that a static worker is filling."""

    lane: Lane
    now_us: int
    selection: Selection
    only: RequestClass | None = None


class Dispatcher:
    """Places the heads of the lanes until one does not fit.

    Nothing is skipped to let something smaller through: what is passed over again and again
    starves, and the fairness bound of the queue would be lost.
    """

    def __init__(
        self,
        state: SchedulerState,
        waiting: WaitingRoom,
        releases: Releases,
        preempter: Preempter,
        placer: Placer,
        faults: Faults,
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._releases = releases
        self._preempter = preempter
        self._placer = placer
        self._faults = faults
        self._sessions = SessionMap()
        self._sender = Sender(state, waiting, releases, self._sessions)

    def pump(self) -> None:
        """Works off the lanes in which something may have become possible."""
        while self._state.to_pump:
            for lane in self._state.lanes_in_turn():
                try:
                    self._work_off(lane, self._state.now_us())
                except Exception as fault:
                    self._faults.of_lane(lane, fault)

    def _work_off(self, lane: Lane, now_us: int) -> None:
        before = lane.waiting_heads()
        lane.end_pass(self._fill(lane, now_us), now_us)
        self._mark_heads(lane, before)

    def _fill(self, lane: Lane, now_us: int) -> tuple[str, WaitReason] | None:
        """Dispatches from a lane; returns the head that must wait, and why."""
        workers = self._state.fleet.serving(lane.key)
        self._note_liveness(lane, any(worker.live(now_us) for worker in workers), now_us)
        lane.begin_pass()
        # Before the look at the heads: a claim must end although nothing waits any more.
        claimant = self._preempter.claimant(lane)
        if claimant is None and not self._may_go(lane, now_us):
            return None
        one = _Pass(lane, now_us, self._selection(lane, now_us))
        while (entry := self._next(one)) is not None:
            try:
                reason = self._try(one, entry)
            except Exception as fault:
                self._faults.of_request(entry, fault)
                if lane.holds(entry):
                    raise
                continue
            if reason is not None:
                return entry.request_id, reason
        return None

    def _try(self, one: _Pass, entry: QueueEntry) -> WaitReason | None:
        """Places a head, or sets it aside; returns why the pass ends with it, if it does."""
        placement = one.selection.place(entry, self._context(one.lane, entry, one.now_us))
        if isinstance(placement, Placed):
            return self._send(one, entry, placement)
        if isinstance(placement, Blocked):
            return self._blocked(one, entry, placement.reason)
        self._set_aside(entry, placement)
        return None

    def _send(self, one: _Pass, entry: QueueEntry, placed: Placed) -> WaitReason | None:
        lane, now_us = one.lane, one.now_us
        if self._gathers(lane, entry, placed.candidate.view, now_us):
            goes_on = lane.pass_over(entry, WaitReason.BATCH_WINDOW)
            return None if goes_on else WaitReason.BATCH_WINDOW
        worker = self._sender.send(lane, entry, placed.candidate, now_us)
        self._state.served(lane)
        self._preempter.dispatched(lane, entry.request_id)
        self._state.fleet.index(lane.key, now_us).refresh(now_us)
        one.only = entry.request_class if worker.info.static_batching else None
        return None

    def _blocked(self, one: _Pass, entry: QueueEntry, reason: WaitReason) -> WaitReason | None:
        lane = one.lane
        reason = self._preempter.consider(lane, entry, reason)
        if reason is WaitReason.PREEMPTING or not lane.pass_over(entry, reason):
            return reason
        if lane.is_owed(entry) and not self._keep_room(entry, one.selection):
            return reason
        return None

    def _may_go(self, lane: Lane, now_us: int) -> bool:
        """Whether anything waits in a lane that may run."""
        return lane.head(now_us) is not None or bool(self._waiting.awaiting_sessions(lane.key))

    def _selection(self, lane: Lane, now_us: int) -> Selection:
        fleet = self._state.fleet
        index = fleet.index(lane.key, now_us)
        index.refresh(now_us)
        self._end_session_waits(lane, index)
        claimed = self._preempter.claimed_elsewhere(lane)
        return Selection(self._placer, index, fleet.prefixes(lane.key.model), claimed)

    def _end_session_waits(self, lane: Lane, index: LaneIndex) -> None:
        """Sessions whose worker has room again, or is gone, wait no longer."""
        for record in self._waiting.awaiting_sessions(lane.key):
            view = index.views.get(record.awaits)
            if view is None or not view.takes_work or blocked_by(record.entry, view) is None:
                self._waiting.unstrand(record)

    def _keep_room(self, entry: QueueEntry, selection: Selection) -> bool:
        """The worker that is nearest to having room for a request takes nobody else.

        Returns:
            Whether another worker is left.
        """
        nearest = nearest_to_room(entry, selection.views())
        if nearest is not None:
            selection.keep_out(nearest.info.worker_id)
        return bool(selection.views())

    def _next(self, one: _Pass) -> QueueEntry | None:
        """Whoever has claimed a place, else whose turn it is."""
        lane, now_us = one.lane, one.now_us
        claimant = self._preempter.claimant(lane)
        return claimant or lane.head(now_us, one.only) or lane.head(now_us)

    def _context(self, lane: Lane, entry: QueueEntry, now_us: int) -> PlacementContext:
        return PlacementContext(
            now_us=now_us,
            session_worker=self._sessions.worker_of(entry.session_id),
            mean_recent=self._state.fleet.index(lane.key, now_us).mean_recent,
            work_weight=self._state.fleet.work_weight(now_us),
            rules=lane.pool.placement,
            may_wait=not self._preempter.keeps_for(lane, entry.request_id),
        )

    def _set_aside(self, entry: QueueEntry, placement: TooLarge | AwaitsSession | Stranded) -> None:
        record = self._record(entry)
        if isinstance(placement, TooLarge):
            self._releases.reject(record, too_large(placement.message))
        elif isinstance(placement, AwaitsSession):
            self._waiting.await_session(record, placement.worker_id, placement.until_us)
        else:
            self._waiting.strand(record)

    def _record(self, entry: QueueEntry) -> RequestRecord:
        record = self._state.requests.get(entry.request_id)
        assert record is not None, "what waits is in the table"
        return record

    def _gathers(self, lane: Lane, entry: QueueEntry, view: WorkerView, now_us: int) -> bool:
        """Whether an idle worker's first batch is still gathering.

        Not for whom a place was taken back: the head of the pass would stay the same for ever.
        """
        if not view.idle or self._preempter.keeps_for(lane, entry.request_id):
            return False
        closes_us = lane.window_closes_us(
            entry, view.rules, view.max_requests, static=view.info.static_batching
        )
        if closes_us is None or closes_us <= now_us:
            return False
        self._state.timers.set_earlier(TimerKind.WINDOW, lane.key, closes_us)
        return True

    def _note_liveness(self, lane: Lane, live: bool, now_us: int) -> None:
        """Bounds the waits of a lane that has lost its last live worker."""
        if live == (lane.no_worker_since_us is None):
            return
        lane.no_worker_since_us = None if live else now_us
        if not live:
            self._waiting.watch_lane(lane, now_us)
        self._state.mark_lane(lane)

    def _mark_heads(self, lane: Lane, before: Mapping[str, WaitReason]) -> None:
        for request_id, _ in before.items() ^ lane.waiting_heads().items():
            record = self._state.requests.get(request_id)
            if record is not None and record.waits:
                entry = record.entry
                self._state.mark(lane.key, entry.request_class, entry.tenant_id)
