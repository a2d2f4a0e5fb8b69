"""What the parts of the scheduler share; written by one thread only."""

from weir_core.clock import Clock
from weir_scheduler.dispatch.attempt_table import AttemptTable
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.dispatch.observer import Observer
from weir_scheduler.dispatch.outbox import Outbox
from weir_scheduler.dispatch.output_predictor import OutputPredictor
from weir_scheduler.dispatch.promises import Promises
from weir_scheduler.dispatch.request_table import RequestTable
from weir_scheduler.dispatch.timers import TimerKind, Timers
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.rules.rules import Rules
from weir_scheduler.slo.slo_book import SloBook
from weir_scheduler.workers.fleet import Fleet
from weir_scheduler.workers.worker import Worker


class SchedulerState:
    """Tables, timers, and the two ways out (outbox and observer)."""

    def __init__(
        self,
        *,
        clock: Clock,
        rules: Rules,
        bounds: Bounds,
        outbox: Outbox,
        observer: Observer,
        predictor: OutputPredictor | None = None,
    ) -> None:
        self.clock = clock
        self.rules = rules
        self.bounds = bounds
        self.outbox = outbox
        self.observer = observer
        self.requests = RequestTable()
        self.attempts = AttemptTable()
        self.fleet = Fleet()
        self.lanes: dict[LaneKey, Lane] = {}
        self._dispatches = 0
        self.timers = Timers()
        self.predictor = predictor or OutputPredictor()
        self.promises = Promises()
        self.slo = SloBook(lambda tenant_id: rules.tenant(tenant_id).slo)
        self.closed = False
        """Takes no new requests: the process is shutting down."""
        self.hold_until_us = 0
        """After a takeover: nothing is dispatched before, nor refused for its size."""
        self.to_pump: dict[LaneKey, None] = {}
        """Lanes in which something may have become possible."""
        self.to_announce: dict[tuple[LaneKey, RequestClass, str], None] = {}
        """Tenant queues of which positions or reasons may have changed."""

    def now_us(self) -> int:
        """The monotonic clock."""
        return self.clock.monotonic_us()

    @property
    def holding(self) -> bool:
        """Whether gateways and workers of the scheduler before are waited for."""
        return self.now_us() < self.hold_until_us

    def wake_model(self, model: str) -> None:
        """Looks again at every lane of a model."""
        self.to_pump.update({key: None for key in self.lanes if key.model == model})

    def lanes_in_turn(self) -> list[Lane]:
        """Takes the lanes to be worked off, the one served longest ago first.

        Lanes may share workers, such as two versions of a model.
        """
        lanes = sorted((self.lanes[key] for key in self.to_pump), key=lambda lane: lane.served)
        self.to_pump.clear()
        return lanes

    def served(self, lane: Lane) -> None:
        """A request of the lane goes to a worker."""
        self._dispatches += 1
        lane.served = self._dispatches

    def watch_breaker(self, worker: Worker) -> None:
        """Looks again at the lanes of a worker whose breaker has moved, now and when it may."""
        self.fleet.touched(worker)
        self.wake_model(worker.info.model)
        open_until_us = worker.breaker.open_until_us
        if open_until_us is not None:
            self.timers.set(TimerKind.BREAKER, worker.info.worker_id, open_until_us)

    def mark(self, key: LaneKey, request_class: RequestClass, tenant_id: str) -> None:
        """Positions or reasons of a tenant's queue may have changed."""
        self.to_announce[key, request_class, tenant_id] = None
        self.timers.set_earlier(TimerKind.ANNOUNCE, None, self.now_us() + self.bounds.announce_us)

    def mark_lane(self, lane: Lane) -> None:
        """Likewise for everything in a lane."""
        for group, tenant_id, _ in lane.queues():
            self.mark(lane.key, group.request_class, tenant_id)

    def at_cap(self, tenant_id: str) -> bool:
        """Whether a tenant has as many attempts running as its policy allows."""
        cap = self.rules.tenant(tenant_id).max_running_requests
        return cap > 0 and self.attempts.running_of(tenant_id) >= cap

    def update_cap(self, tenant_id: str) -> None:
        """Blocks or unblocks a tenant in every lane, as its running attempts say."""
        blocked = self.at_cap(tenant_id)
        for lane in self.lanes.values():
            if lane.set_blocked(tenant_id, blocked=blocked):
                self.to_pump[lane.key] = None
                for request_class in RequestClass:
                    self.mark(lane.key, request_class, tenant_id)
