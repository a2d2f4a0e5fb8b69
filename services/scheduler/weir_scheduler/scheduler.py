"""The scheduler: a single-writer state machine under a clock that is passed in."""

from collections.abc import Iterable, Iterator

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.absences import Absences
from weir_scheduler.dispatch.adoption import Adoption
from weir_scheduler.dispatch.announcer import Announcer
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.dispatch.dispatcher import Dispatcher
from weir_scheduler.dispatch.due import DueHandlers
from weir_scheduler.dispatch.faults import Faults, OnFault, raise_fault
from weir_scheduler.dispatch.fleet_events import FleetEvents
from weir_scheduler.dispatch.gateway_events import GatewayEvents
from weir_scheduler.dispatch.intake import Intake
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.observer import Observer, Observers
from weir_scheduler.dispatch.outbox import Outbox
from weir_scheduler.dispatch.output_predictor import OutputPredictor
from weir_scheduler.dispatch.pool_view import PoolStatus, PoolView
from weir_scheduler.dispatch.preempter import Preempter, PreemptionCounts
from weir_scheduler.dispatch.queue_view import QueueView
from weir_scheduler.dispatch.reconfiguration import apply_rules
from weir_scheduler.dispatch.rejections import is_want_of_room
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.takeover import Takeover
from weir_scheduler.dispatch.vacating import Vacating
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.placement.placer import Placer
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import Rules
from weir_scheduler.scaling.queue_load import QueueLoad
from weir_scheduler.scaling.scaling_key import ScalingKey, key_of_worker
from weir_scheduler.scaling.signal_reader import SignalReader
from weir_scheduler.scaling.signals import ScalingSignals
from weir_scheduler.slo.objective import SloStatus
from weir_scheduler.slo.slo_book import Judged
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import AttemptUsage, WorkerReport


class Scheduler:
    """Queues requests, places them on workers, and tracks every place until it is free.

    Not thread-safe and never blocking: one event loop (or simulator) calls it. After each call
    or batch of calls, and whenever `next_wake_us` is due, `pump` must be called.

    Args:
        clock: both its readings are used.
        rules: configuration; read at every decision.
        outbox: where events and commands go.
        bounds: of waits and counts.
        observers: metrics, traces.
        placer: placement policy.
        predictor: of the length of answers.
        on_fault: told of exceptions that nobody foresaw, each of which costs one request or
            one look alone; by default they go on to the caller.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rules: Rules,
        outbox: Outbox,
        bounds: Bounds | None = None,
        observers: Iterable[Observer] = (),
        placer: Placer | None = None,
        predictor: OutputPredictor | None = None,
        on_fault: OnFault = raise_fault,
    ) -> None:
        load = QueueLoad()
        self._state = SchedulerState(
            clock=clock,
            rules=rules,
            bounds=bounds or Bounds(),
            outbox=outbox,
            observer=Observers([*observers, load]),
            predictor=predictor,
        )
        load.watch(self._state)
        self._signals = SignalReader(self._state, load)
        self._waiting = WaitingRoom(self._state)
        self._releases = Releases(self._state, self._waiting)
        self._intake = Intake(self._state, self._waiting)
        self._preempter = Preempter(self._state)
        faults = Faults(self._state, self._waiting, self._releases, on_fault)
        self._gateways = GatewayEvents(self._state, self._releases, self._preempter)
        self._fleet = FleetEvents(self._state, self._waiting, self._releases)
        self._view = QueueView(self._state, self._waiting)
        announcer = Announcer(self._state, self._waiting, self._view)
        self._dispatcher = Dispatcher(
            self._state, self._waiting, self._releases, self._preempter, placer or Placer(), faults
        )
        self._adoption = Adoption(self._state, self._intake, self._waiting, self._releases)
        self._absences = Absences(self._state, self._releases)
        self._takeover = Takeover(self._state)
        self._vacating = Vacating(
            self._state,
            self._gateways,
            self._fleet,
            self._releases,
            self._preempter,
            self._absences,
        )
        self._due = DueHandlers(
            self._state,
            self._waiting,
            self._releases,
            self._fleet,
            announcer,
            self._adoption,
            self._absences,
            faults,
        )

    def enqueue(self, gateway: str, request: NewRequest) -> None:
        """Takes a request in, or over if it runs already; or rejects it through the outbox."""
        runs = bool(request.running_worker_id)
        self._absences.named(gateway, request.request_id, runs=runs)
        try:
            (self._adoption.adopt if runs else self._intake.enqueue)(gateway, request)
        except WeirError as refusal:
            self._state.observer.refused(request, refusal)
            if is_want_of_room(refusal):
                tenant_id = request.subject.tenant_id
                self._state.slo.missed(tenant_id, request.request_class, self._state.now_us())
            self._state.outbox.rejected(gateway, request.request_id, refusal)

    def withdraw(self, gateway: str, request_id: str) -> None:
        """The client is gone or has cancelled."""
        self._gateways.withdraw(gateway, request_id)

    def attempt_failed(
        self, gateway: str, key: AttemptKey, reason: Reason, *, worker_fault: bool
    ) -> None:
        """An attempt could not start, or broke before its first token."""
        self._gateways.attempt_failed(gateway, key, reason, worker_fault=worker_fault)

    def first_token(self, gateway: str, key: AttemptKey) -> None:
        """Something was streamed."""
        self._gateways.first_token(gateway, key)

    def finish(self, gateway: str, key: AttemptKey, usage: AttemptUsage | None) -> None:
        """The attempt has ended and the gateway has its terminal record."""
        self._gateways.finish(gateway, key, usage)

    def gateway_came(self, gateway: str) -> None:
        """A gateway's stream has begun; it names what it has waiting and running."""
        self._absences.begin(gateway)
        self._takeover.came(gateway)

    def gateway_away(self, gateway: str) -> None:
        """A gateway's stream has ended.

        What waits is dropped, what runs goes on for a while: the gateway names both again.
        """
        self._absences.begin(gateway)

    def gateway_lost(self, gateway: str) -> None:
        """A gateway is gone for good: nobody is left to answer to."""
        self._gateways.gateway_lost(gateway)

    def take_over(self, hold_us: int) -> None:
        """This scheduler has become the active one, after another.

        For at most `hold_us` it takes in what gateways and workers tell and dispatches nothing:
        requests of all gateways are to be in order, and no worker is to be missed.
        """
        self._takeover.begin(hold_us)

    def expect(self, peers: Iterable[str]) -> None:
        """Gateways and workers of the scheduler before: once all are there, the hold ends."""
        self._takeover.expect(peers)

    def vacate(self) -> None:
        """Another scheduler is the active one: forgets everything, and tells nobody."""
        self._vacating.vacate()

    def register_worker(self, info: WorkerInfo, running: Iterable[AttemptKey] = ()) -> Worker:
        """A worker connects, for the first time or again; `running` as it says."""
        self._takeover.came(info.worker_id)
        return self._fleet.register(info, running)

    def worker_report(self, worker_id: str, report: WorkerReport) -> None:
        """Takes a report. Raises WeirError NOT_FOUND for a worker that is not registered."""
        self._fleet.report(worker_id, report)

    def worker_heard(self, worker_id: str) -> None:
        """A frame without report came. Raises WeirError NOT_FOUND."""
        self._fleet.heard(worker_id)

    def worker_disconnected(self, worker_id: str) -> None:
        """A worker's stream has ended."""
        self._fleet.disconnected(worker_id)

    def drain_worker(self, worker_id: str, *, cancel: bool = False) -> Worker:
        """Sends no more work to a worker, or again. Raises WeirError NOT_FOUND."""
        return self._fleet.drain(worker_id, cancel=cancel)

    def rules_changed(self) -> None:
        """The configuration has changed: pools, caps and bounds of workers follow."""
        apply_rules(self._state, self._waiting)

    def close(self) -> None:
        """Refuses new requests from now on; what waits is still dispatched."""
        self._state.closed = True

    def pump(self) -> None:
        """Does what is due and dispatches what can be dispatched."""
        self._due.run()
        if not self._state.holding:
            self._dispatcher.pump()

    def next_wake_us(self) -> int | None:
        """Monotonic moment of the next `pump` if nothing else happens; None for never."""
        return self._state.timers.next_us()

    @property
    def waiting(self) -> int:
        """Requests in the queues."""
        return len(self._waiting)

    @property
    def attempts(self) -> int:
        """Attempts that take up a place on a worker."""
        return len(self._state.attempts)

    @property
    def requests(self) -> int:
        """Requests that it is responsible for."""
        return len(self._state.requests)

    @property
    def preemptions(self) -> PreemptionCounts:
        """Pre-emptions by policy since the process began."""
        return self._preempter.counts

    def charged(self) -> Iterator[tuple[str, int]]:
        """Tenant and service charged so far, of each attempt that takes up a place."""
        return ((attempt.tenant_id, attempt.charged) for attempt in self._state.attempts)

    def workers(self) -> list[Worker]:
        """Every worker that is known, lost ones included."""
        return list(self._state.fleet)

    def queued(self, tenant_id: str = "") -> list[RequestRecord]:
        """Waiting requests in order of arrival; an empty id for those of all tenants."""
        return self._view.waiting(tenant_id)

    def place(self, record: RequestRecord) -> tuple[int, WaitReason]:
        """Position of a waiting request in its tenant's queue, from 1, and why it waits."""
        return self._view.position(record), self._view.reason(record)

    def pool_of(self, worker: Worker) -> str:
        """Name of the pool that a worker belongs to; empty while its model is unknown."""
        try:
            return key_of_worker(self._state.rules, worker.info).pool
        except WeirError:
            return ""

    def scaling_signals(self, models: Iterable[str] = ()) -> dict[ScalingKey, ScalingSignals]:
        """Load of every pool that has workers or had requests, and of all pools of `models`."""
        return self._signals.read_all(models)

    def pools(self) -> list[PoolStatus]:
        """Every pool that has a queue or a worker."""
        return PoolView(self._state).pools()

    def on_judged(self, listener: Judged) -> None:
        """`listener` is told how every request kept the targets of its tenant."""
        self._state.slo.on_judged = listener

    def slos(self, tenant_id: str = "") -> list[SloStatus]:
        """How the targets of a tenant, or of all, are kept."""
        return list(self._state.slo.status(self._state.now_us(), tenant_id))

    @property
    def promises(self) -> tuple[int, int]:
        """Retry-Afters that were kept, and that were broken."""
        return self._state.promises.kept, self._state.promises.broken

    def queue_depth(self) -> Iterator[tuple[str, WaitReason, int]]:
        """Waiting requests by tenant and reason; pairs may come more than once."""
        return self._view.depth()

    def queue_depth_of_pools(self) -> Iterator[tuple[str, str, str, WaitReason, int]]:
        """Likewise, with model and pool before."""
        return self._view.depth_of_pools()
