"""Gateways and workers of the shape of the real ones, around schedulers that replace each other."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.scheduler.support import SECOND, FixedRules, RecordingOutbox, new_request, worker_info
from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.placement.placer import Placer
from weir_scheduler.rules.rules import TenantRules, WorkerRules
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptProgress,
    AttemptUsage,
    WorkerLoad,
    WorkerReport,
)

OUTPUT = 5
CAP = 3
HOLD_US = SECOND


class State(Enum):
    QUEUED = auto()
    STARTED = auto()
    STREAMING = auto()
    ENDED = auto()


@dataclass
class Request:
    """As its gateway knows it; `streamed` are the attempts that its client has tokens of."""

    id: str
    tenant: str
    arrived_us: int
    state: State = State.QUEUED
    attempt: int = 0
    worker: str = ""
    told: int = 0
    was_queued: bool = False
    waiting_since_us: int = 0
    streamed: set[int] = field(default_factory=set)
    ends: list[str] = field(default_factory=list)


class Wire(RecordingOutbox):
    """What is said to gateways, in order, until it is delivered or lost with its stream."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.news: list[tuple[Gateway, int, Callable[[], None]]] = []
        self._world = world

    def dispatched(self, gateway: str, dispatch: Dispatch) -> None:
        self._say(gateway, lambda to: to.on_dispatched(dispatch))

    def requeued(self, gateway: str, request_id: str, cause: WeirError, position: int) -> None:
        self._say(gateway, lambda to: to.on_requeued(request_id))

    def rejected(self, gateway: str, request_id: str, cause: WeirError) -> None:
        self._say(gateway, lambda to: to.on_rejected(request_id))

    def attempt_lost(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        self._say(gateway, lambda to: to.on_attempt_lost(key))

    def _say(self, name: str, news: Callable[["Gateway"], None]) -> None:
        gateway = self._world.gateways[name]
        if gateway.connected:
            self.news.append((gateway, gateway.connection, lambda: news(gateway)))


class Gateway:
    """The states and moves of `weir_gateway.flow.live_request`, without the rest of it."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.connection = 0
        self.requests: dict[str, Request] = {}

    @property
    def connected(self) -> bool:
        return self.connection == self.world.connections.get(self.name, -1)

    def connect(self) -> None:
        self.connection += 1
        self.world.connections[self.name] = self.connection
        self.world.scheduler.gateway_came(self.name)
        for request in list(self.requests.values()):
            if request.state is State.QUEUED:
                self.enqueue(request)
            elif request.state is not State.ENDED:
                self._tell_running(request)

    def arrives(self, request: Request) -> None:
        request.waiting_since_us = request.arrived_us
        self.requests[request.id] = request
        self.enqueue(request)

    def enqueue(self, request: Request) -> None:
        request.state = State.QUEUED
        if not self.connected:
            return
        request.told = self.connection
        since = request.waiting_since_us if request.was_queued else None
        request.was_queued = True
        self._send(request, waiting_since_wall_us=since)

    def on_dispatched(self, dispatch: Dispatch) -> None:
        request = self._open(dispatch.key.request_id)
        if request is None or dispatch.key.number <= request.attempt:
            return
        if request.state is State.STREAMING:
            self._end(request, "moved while it streamed")
            return
        if request.state is State.STARTED:
            self._leave(request, abort=True)
        request.attempt, request.worker = dispatch.key.number, dispatch.worker.worker_id
        request.state = State.STARTED
        worker = self.world.workers.get(request.worker)
        if worker is None:
            self.on_terminal(dispatch.key, failed=True)
        else:
            worker.start(dispatch.key, self)

    def on_requeued(self, request_id: str) -> None:
        request = self._open(request_id)
        if request is not None and request.state is State.STARTED:
            self._leave(request, abort=True)
        elif request is not None and request.state is State.STREAMING:
            self._end(request, "lost")

    def on_rejected(self, request_id: str) -> None:
        request = self._open(request_id)
        if request is None or request.state is State.STREAMING:
            return
        if request.state is State.STARTED:
            self._leave(request, abort=True)
        self._end(request, "rejected")

    def on_attempt_lost(self, key: AttemptKey) -> None:
        request = self._open(key.request_id)
        if request is None or request.attempt != key.number:
            return
        if request.state is State.STARTED:
            self._leave(request, abort=True)
            self.enqueue(request)
        elif request.state is State.STREAMING:
            self._end(request, "lost")

    def on_token(self, key: AttemptKey) -> None:
        request = self._open(key.request_id)
        if request is None or request.attempt != key.number or request.state is State.QUEUED:
            return
        request.streamed.add(key.number)
        if request.state is State.STARTED:
            request.state = State.STREAMING
            if self.connected:
                self.world.scheduler.first_token(self.name, key)

    def on_terminal(self, key: AttemptKey, *, failed: bool) -> None:
        request = self._open(key.request_id)
        if request is None or request.attempt != key.number or request.state is State.QUEUED:
            return
        if not failed:
            self._end(request, "answered")
        elif request.state is State.STREAMING:
            self._end(request, "lost")
        else:
            self._leave(request, abort=False)
            if self.connected and request.told == self.connection:
                self.world.scheduler.attempt_failed(
                    self.name, key, Reason.WORKER_LOST, worker_fault=True
                )
            else:
                self.enqueue(request)

    def _tell_running(self, request: Request) -> None:
        request.told = self.connection
        self._send(request, running_worker_id=request.worker)
        if request.state is State.STREAMING:
            key = AttemptKey(request.id, request.attempt)
            self.world.scheduler.first_token(self.name, key)

    def _send(self, request: Request, **fields: object) -> None:
        message = new_request(
            request.id,
            request.tenant,
            attempts=request.attempt,
            arrival_wall_us=request.arrived_us,
            max_new_tokens=OUTPUT,
            **fields,
        )
        self.world.scheduler.enqueue(self.name, message)

    def _leave(self, request: Request, *, abort: bool) -> None:
        request.waiting_since_us = self.world.clock.now_us()
        request.state = State.QUEUED
        if abort and (worker := self.world.workers.get(request.worker)) is not None:
            worker.abort(AttemptKey(request.id, request.attempt))

    def _end(self, request: Request, how: str) -> None:
        key = AttemptKey(request.id, request.attempt)
        request.state = State.ENDED
        request.ends.append(how)
        if how != "answered" and (worker := self.world.workers.get(request.worker)) is not None:
            worker.abort(key)
        if self.connected and request.attempt:
            self.world.scheduler.finish(self.name, key, AttemptUsage(10, 0, OUTPUT))

    def _open(self, request_id: str) -> Request | None:
        request = self.requests.get(request_id)
        return None if request is None or request.state is State.ENDED else request


class Worker:
    """Runs what it is told to, refuses an older number, and knows what really runs."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.connected = False
        self.running: dict[AttemptKey, int] = {}
        self.gateways: dict[AttemptKey, Gateway] = {}
        self.newest: dict[str, int] = {}
        self.ends: list[AttemptEnd] = []

    def start(self, key: AttemptKey, gateway: Gateway) -> None:
        if key.number <= self.newest.get(key.request_id, 0):
            gateway.on_terminal(key, failed=True)
            return
        self.abort(AttemptKey(key.request_id, self.newest.get(key.request_id, 0)))
        self.newest[key.request_id] = key.number
        self.running[key], self.gateways[key] = 0, gateway

    def abort(self, key: AttemptKey) -> None:
        if key in self.running:
            self._end(key, failed=True, worker_fault=False)

    def step(self) -> None:
        """A token for everything that runs."""
        for key in list(self.running):
            self.running[key] += 1
            self.gateways[key].on_token(key)
            if self.running.get(key, 0) >= OUTPUT:
                self._end(key, failed=False)

    def connect(self) -> None:
        self.connected = True
        self.world.scheduler.register_worker(worker_info(self.name), list(self.running))
        self.report()

    def report(self) -> None:
        if not self.connected:
            return
        running = tuple(
            AttemptProgress(key, AttemptUsage(10, 0, output), 1)
            for key, output in self.running.items()
        )
        held = len(running)
        load = WorkerLoad(
            free_kv_blocks=100 - held,
            held_kv_blocks=held,
            report_time_us=self.world.clock.now_us(),
        )
        ends, self.ends = tuple(self.ends), []
        self.world.scheduler.worker_report(self.name, WorkerReport(load, running, ends))

    def _end(self, key: AttemptKey, *, failed: bool, worker_fault: bool = True) -> None:
        output = self.running.pop(key)
        usage = AttemptUsage(10, 0, output)
        self.ends.append(AttemptEnd(key, usage, failed=failed and worker_fault))
        self.gateways.pop(key).on_terminal(key, failed=failed)


class World:
    """One scheduler at a time; streams break, and what was under way on them is lost."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = ManualClock()
        self.connections: dict[str, int] = {}
        self.wire = Wire(self)
        self.scheduler = self._new_scheduler()
        self.gateways = {name: Gateway(self, name) for name in ("g1", "g2")}
        self.workers: dict[str, Worker] = {}
        self.count = 0
        self.born = 0

    def requests(self) -> Sequence[Request]:
        return [r for gateway in self.gateways.values() for r in gateway.requests.values()]

    def arrive(self) -> None:
        self.count += 1
        gateway = self.dice.choice(list(self.gateways.values()))
        tenant = self.dice.choice(["a", "b", "capped"])
        gateway.arrives(Request(f"r{self.count}", tenant, self.clock.now_us()))

    def new_worker(self) -> None:
        self.born += 1
        worker = self.workers[f"w{self.born}"] = Worker(self, f"w{self.born}")
        worker.connect()

    def crash_worker(self, worker: Worker) -> None:
        """kill -9: its gateways see the streams break, the scheduler that of its registration."""
        del self.workers[worker.name]
        if worker.connected:
            self.scheduler.worker_disconnected(worker.name)
        for key, gateway in list(worker.gateways.items()):
            gateway.on_terminal(key, failed=True)

    def lose_stream(self, gateway: Gateway) -> None:
        """Between a gateway and the scheduler; what was under way to it goes with it."""
        if self.connections.pop(gateway.name, None) is not None:
            self.scheduler.gateway_away(gateway.name)

    def fail_over(self) -> None:
        """Another scheduler becomes active; everybody finds it in a time of their own."""
        self.scheduler.vacate()
        assert (self.scheduler.requests, self.scheduler.attempts, self.scheduler.waiting) == (
            0, 0, 0,
        )  # fmt: skip
        self.connections.clear()
        for worker in self.workers.values():
            worker.connected = False
        self.wire = Wire(self)
        self.scheduler = self._new_scheduler()
        self.scheduler.take_over(HOLD_US)

    def pump(self) -> None:
        """Decides, and delivers what was said to those that are connected."""
        self.scheduler.pump()
        news, self.wire.news = self.wire.news, []
        for gateway, connection, say in news:
            if gateway.connected and gateway.connection == connection:
                say()
        for worker_id, key in list(self.wire.aborts):
            worker = self.workers.get(worker_id)
            if worker is not None and worker.connected:
                worker.abort(key)
        self.wire.aborts.clear()

    def pass_time(self, us: int) -> None:
        self.clock.advance_us(us)
        self.pump()

    def check(self) -> None:
        """What must hold at every moment: one end, and tokens of one attempt alone."""
        for request in self.requests():
            assert len(request.ends) <= 1, request
            assert len(request.streamed) <= 1, request

    def _new_scheduler(self) -> Scheduler:
        rules = FixedRules(
            tenants={"capped": TenantRules(1, CAP, 0)},
            workers=WorkerRules(4, 65_536, 512, 4),
            queue_timeout_us=60 * SECOND,
        )
        return Scheduler(
            clock=self.clock,
            rules=rules,
            outbox=self.wire,
            bounds=Bounds(),
            placer=Placer(rng=random.Random(7)),
        )
