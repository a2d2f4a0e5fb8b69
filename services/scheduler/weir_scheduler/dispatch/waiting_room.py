"""The only way into and out of the queues."""

from weir_core.errors import WeirError
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.route import route
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.queues.batch_window import window_us
from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.wait_reason import QueueExit
from weir_scheduler.rules.pool_scope import WhenGone


class WaitingRoom:
    """Keeps lanes, counts and timers of waiting requests in step.

    A request that no worker may take at the moment, while others of its lane are served, is
    *stranded*: it stays counted and timed here, outside the lane, so that it holds up nobody.
    """

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._stranded: dict[LaneKey, dict[str, RequestRecord]] = {}
        self._by_tenant: dict[str, int] = {}
        self._by_model: dict[str, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return self._total

    def of_tenant(self, tenant_id: str) -> int:
        """Waiting requests of a tenant."""
        return self._by_tenant.get(tenant_id, 0)

    def of_model(self, model: str) -> int:
        """Waiting requests for a model."""
        return self._by_model.get(model, 0)

    def stranded(self, key: LaneKey) -> list[RequestRecord]:
        """Stranded requests of a lane."""
        return list(self._stranded.get(key, {}).values())

    def enter(self, record: RequestRecord) -> None:
        """Begins a wait. Raises WeirError when the model is unknown."""
        entry = record.entry
        lane = self.lane_for(entry)
        record.lane_key = lane.key
        record.expires_us = self._expiry(entry)
        self._place_in(lane, record)
        self._count(entry, 1)
        self._state.timers.set(TimerKind.WAIT_ENDS, entry.request_id, record.expires_us)
        if lane.no_worker_since_us is not None:
            self._watch_for_worker(lane, entry, self._state.now_us())
        self._state.observer.entered(record)

    def leave(
        self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None = None
    ) -> None:
        """Ends a wait; the caller sets the next phase. Raises ValueError if it does not wait."""
        entry = record.entry
        lane = self._state.lanes[record.lane_key]
        if record.phase is Phase.STRANDED:
            self._take_from_stranded(record)
        elif record.phase is not Phase.WAITING:
            raise ValueError(f"request {entry.request_id} does not wait")
        elif exit_ is QueueExit.DISPATCHED:
            lane.dispatched(entry, self._state.now_us())
        else:
            lane.remove(entry)
            self._state.to_pump[lane.key] = None
        self._count(entry, -1)
        for kind in (TimerKind.WAIT_ENDS, TimerKind.NO_WORKER, TimerKind.RETRY_EXCLUDED):
            self._state.timers.cancel(kind, entry.request_id)
        self._state.mark(lane.key, entry.request_class, entry.tenant_id)
        record.phase = Phase.NEW
        record.announced = None
        self._state.observer.left(record, exit_, cause)

    def strand(self, record: RequestRecord) -> None:
        """Sets a waiting request aside until workers change."""
        entry, now_us = record.entry, self._state.now_us()
        lane = self._state.lanes[record.lane_key]
        lane.remove(entry)
        self._stranded.setdefault(record.lane_key, {})[entry.request_id] = record
        record.phase = Phase.STRANDED
        self._state.mark(record.lane_key, entry.request_class, entry.tenant_id)
        self._watch_for_worker(lane, entry, now_us)
        if entry.excluded:
            self._state.timers.set_earlier(
                TimerKind.RETRY_EXCLUDED,
                entry.request_id,
                now_us + self._state.bounds.retry_excluded_us,
            )

    def await_session(self, record: RequestRecord, worker_id: str, until_us: int) -> None:
        """Sets a request aside until the worker of its session has room, or for so long."""
        self._state.lanes[record.lane_key].remove(record.entry)
        self._stranded.setdefault(record.lane_key, {})[record.entry.request_id] = record
        record.phase, record.awaits = Phase.STRANDED, worker_id
        self._state.mark(record.lane_key, record.entry.request_class, record.entry.tenant_id)
        self._state.timers.set(TimerKind.SESSION_WAIT, record.entry.request_id, until_us)

    def awaiting_sessions(self, key: LaneKey) -> list[RequestRecord]:
        """Requests of a lane that wait for the worker of their session."""
        return [record for record in self._stranded.get(key, {}).values() if record.awaits]

    def unstrand(self, record: RequestRecord) -> None:
        """Puts a stranded request back into its lane, at its old place.

        Its timers run on: being looked at in vain must not prolong the wait.
        """
        self._take_from_stranded(record)
        self._place_in(self._state.lanes[record.lane_key], record)

    def lane_for(self, entry: QueueEntry) -> Lane:
        """The lane in which a request would wait. Raises WeirError when the model is unknown."""
        state = self._state
        key, pool = route(state, entry)
        lane = state.lanes.get(key)
        if lane is None:
            lane = Lane(
                key,
                pool,
                lambda tenant_id: state.rules.tenant(tenant_id).weight,
                state.fleet.prefixes(entry.model),
            )
            now_us = state.now_us()
            live = any(worker.live(now_us) for worker in state.fleet.serving(key))
            lane.no_worker_since_us = None if live else now_us
            state.lanes[key] = lane
        return lane

    def watch_lane(self, lane: Lane, now_us: int) -> None:
        """No live worker serves a lane any more: what is in it goes elsewhere, or waits less."""
        if lane.pool.when_gone is WhenGone.SHARED or lane.key.version:
            self.move_away(lane)
        for entry in lane.entries():
            self._watch_for_worker(lane, entry, now_us)

    def no_worker_us(self, entry: QueueEntry) -> int:
        """How long a request waits while no live worker serves it."""
        bounds = self._state.bounds
        if entry.request_class is RequestClass.BATCH:
            return bounds.no_worker_batch_us
        return bounds.no_worker_us

    def _place_in(self, lane: Lane, record: RequestRecord) -> None:
        entry = record.entry
        lane.set_blocked(entry.tenant_id, blocked=self._state.at_cap(entry.tenant_id))
        rules = self._state.rules.request(entry.model, entry.tenant_id)
        lane.add(entry, self._state.now_us(), window_us(entry, rules))
        record.phase = Phase.WAITING
        self._state.to_pump[lane.key] = None
        self._state.mark(lane.key, entry.request_class, entry.tenant_id)

    def move_away(self, lane: Lane) -> None:
        """Moves what waits in a lane to where such requests go now, if that is another."""
        waiting = [self._state.requests.get(entry.request_id) for entry in lane.entries()]
        for record in [*waiting, *self.stranded(lane.key)]:
            elsewhere = None if record is None else self._elsewhere(record)
            if record is None or elsewhere is None:
                continue
            if record.phase is Phase.STRANDED:
                self._take_from_stranded(record)
            else:
                lane.remove(record.entry)
            record.lane_key = elsewhere.key
            self._place_in(elsewhere, record)

    def _elsewhere(self, record: RequestRecord) -> Lane | None:
        """Another lane that would take a request now."""
        try:
            lane = self.lane_for(record.entry)
        except WeirError:
            return (
                None  # Its model was removed, or no pool takes it any more: it waits where it is.
            )
        return lane if lane.key != record.lane_key else None

    def _take_from_stranded(self, record: RequestRecord) -> None:
        of_lane = self._stranded[record.lane_key]
        del of_lane[record.entry.request_id]
        if record.awaits:
            record.awaits = ""
            self._state.timers.cancel(TimerKind.SESSION_WAIT, record.entry.request_id)
        if not of_lane:
            del self._stranded[record.lane_key]

    def _expiry(self, entry: QueueEntry) -> int:
        if entry.request_class is RequestClass.BATCH:
            return entry.deadline_us
        timeout_us = self._state.rules.request(entry.model, entry.tenant_id).queue_timeout_us
        return min(entry.deadline_us, entry.enqueued_us + timeout_us)

    def _watch_for_worker(self, lane: Lane, entry: QueueEntry, now_us: int) -> None:
        if lane.pool.when_gone is WhenGone.WAIT:
            return
        at_us = now_us + self.no_worker_us(entry)
        self._state.timers.set_earlier(TimerKind.NO_WORKER, entry.request_id, at_us)

    def _count(self, entry: QueueEntry, change: int) -> None:
        self._total += change
        for counts, key in ((self._by_tenant, entry.tenant_id), (self._by_model, entry.model)):
            counts[key] = counts.get(key, 0) + change
            if not counts[key]:
                del counts[key]
