"""A scheduler on a manual clock with scripted workers, and what it said."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir_core.clock import ManualClock
from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.dispatch.faults import OnFault, raise_fault
from weir_scheduler.dispatch.new_request import NewRequest, Subject
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.placement.placer import Placer
from weir_scheduler.queues.entry import LatencySla, QueueEntry, RequestClass
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.rules.pool_scope import PoolScope, WhenGone
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.queue_rules import QueueRules
from weir_scheduler.rules.rules import (
    Isolation,
    PoolRules,
    RequestRules,
    TenantRules,
    WorkerRules,
)
from weir_scheduler.rules.shares import Shares
from weir_scheduler.rules.shedding_rules import SheddingRules
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptProgress,
    AttemptUsage,
    WorkerLoad,
    WorkerReport,
)

SECOND = 1_000_000
GATEWAY = "gw"
ROOMY = WorkerRules(64, 65_536, 512, 64)


def entry(request_id: str, sequence: int = 0, **fields: Any) -> QueueEntry:
    """A queue entry of tenant `t` with small defaults."""
    defaults: dict[str, Any] = {
        "tenant_id": "t",
        "model": "m",
        "model_version": "",
        "request_class": RequestClass.INTERACTIVE,
        "priority": 0,
        "latency_sla": LatencySla.NORMAL,
        "prompt_tokens": 10,
        "max_new_tokens": 10,
        "estimated_cost": 15,
        "predicted_output": 5,
        "arrival_us": sequence,
        "enqueued_us": sequence,
        "deadline_us": 10**12,
    }
    return QueueEntry(request_id=request_id, sequence=sequence, **(defaults | fields))


def new_request(request_id: str, tenant: str = "t", **fields: Any) -> NewRequest:
    """A request of a tenant for model `m`."""
    subject = Subject(tenant, "u", "k", fields.pop("model", "m"), fields.pop("version", ""), "p")
    defaults = {"prompt_tokens": 10, "max_new_tokens": 10}
    return NewRequest(request_id=request_id, subject=subject, **(defaults | fields))


def worker_info(worker_id: str = "w1", **fields: Any) -> WorkerInfo:
    """A worker for model `m` with room for 100 blocks of 16 tokens."""
    defaults: dict[str, Any] = {
        "address": f"{worker_id}:1",
        "model": "m",
        "max_context_tokens": 1_000,
        "total_kv_blocks": 100,
    }
    return WorkerInfo(worker_id=worker_id, **(defaults | fields))


@dataclass
class FixedRules:
    """Configuration that tests set directly."""

    isolation: Isolation = Isolation.WEIGHTED
    policy: str = "fifo"
    batch_wait_us: int = 0
    queue_timeout_us: int = 30 * SECOND
    max_queued_requests: int = 1_000
    tenants: dict[str, TenantRules] = field(default_factory=dict)
    workers: WorkerRules = ROOMY
    models: frozenset[str] = frozenset({"m", "n"})
    placement: PlacementRules = field(default_factory=PlacementRules)
    preemption: PreemptionRules | None = None
    queue: QueueRules = field(default_factory=QueueRules)
    further: tuple[PoolRules, ...] = ()
    scope: PoolScope = field(default_factory=PoolScope)
    shares: Shares = field(default_factory=Shares)
    shedding: SheddingRules = field(default_factory=SheddingRules)
    when_gone: WhenGone = WhenGone.REFUSE
    long_context_threshold: int = 0

    def pool(self, model: str) -> PoolRules:
        if model not in self.models:
            raise WeirError(Reason.MODEL_NOT_FOUND, f"model {model!r} is unknown")
        return PoolRules(
            "default",
            self.isolation,
            self.policy,
            placement=self.placement,
            preemption=self.preemption,
            queue=self.queue,
            scope=self.scope,
            shares=self.shares,
            shedding=self.shedding,
            when_gone=self.when_gone,
            further=self.further,
        )

    def request(self, model: str, tenant_id: str) -> RequestRules:
        return RequestRules(
            500,
            self.batch_wait_us,
            self.queue_timeout_us,
            self.max_queued_requests,
            long_context_threshold=self.long_context_threshold,
        )

    def tenant(self, tenant_id: str) -> TenantRules:
        return self.tenants.get(tenant_id, TenantRules(1, 0, 0))

    def worker(self, model: str, profile: str) -> WorkerRules:
        return self.workers


@dataclass
class RecordingOutbox:
    """Everything that was sent, by kind."""

    dispatches: list[Dispatch] = field(default_factory=list)
    rejections: list[tuple[str, WeirError]] = field(default_factory=list)
    requeues: list[tuple[str, WeirError, int]] = field(default_factory=list)
    lost: list[tuple[AttemptKey, WeirError]] = field(default_factory=list)
    positions: list[tuple[str, int, WaitReason]] = field(default_factory=list)
    aborts: list[tuple[str, AttemptKey]] = field(default_factory=list)
    drains: list[tuple[str, bool]] = field(default_factory=list)
    preempts: list[AttemptKey] = field(default_factory=list)
    parameter_changes: list[tuple[str, WorkerRules]] = field(default_factory=list)

    def queued(self, gateway: str, request_id: str, position: int, reason: WaitReason) -> None:
        self.positions.append((request_id, position, reason))

    def dispatched(self, gateway: str, dispatch: Dispatch) -> None:
        self.dispatches.append(dispatch)

    def requeued(self, gateway: str, request_id: str, cause: WeirError, position: int) -> None:
        self.requeues.append((request_id, cause, position))

    def preempt(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        self.preempts.append(key)

    def rejected(self, gateway: str, request_id: str, cause: WeirError) -> None:
        self.rejections.append((request_id, cause))

    def attempt_lost(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        self.lost.append((key, cause))

    def abort(self, worker_id: str, keys: Sequence[AttemptKey], why: str) -> None:
        self.aborts.extend((worker_id, key) for key in keys)

    def drain(self, worker_id: str, *, cancel: bool) -> None:
        self.drains.append((worker_id, cancel))

    def parameters(self, worker_id: str, rules: WorkerRules) -> None:
        self.parameter_changes.append((worker_id, rules))


@dataclass
class RecordingObserver:
    """Begin and end of every wait."""

    entered_ids: list[str] = field(default_factory=list)
    exits: list[tuple[str, QueueExit]] = field(default_factory=list)
    refused_ids: list[str] = field(default_factory=list)
    service: Counter[str] = field(default_factory=Counter)

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        self.refused_ids.append(request.request_id)

    def entered(self, record: RequestRecord) -> None:
        self.entered_ids.append(record.entry.request_id)

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        pass

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        self.exits.append((record.entry.request_id, exit_))

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        pass

    def served(self, attempt: Attempt) -> None:
        self.service[attempt.tenant_id] += attempt.charged


class Bench:
    """A scheduler with everything around it under the test's control."""

    def __init__(
        self, rules: FixedRules | None = None, *, on_fault: OnFault = raise_fault, **bounds: int
    ) -> None:
        self.clock = ManualClock()
        self.rules = rules or FixedRules()
        self.out = RecordingOutbox()
        self.seen = RecordingObserver()
        self.scheduler = Scheduler(
            clock=self.clock,
            rules=self.rules,
            outbox=self.out,
            bounds=Bounds(**bounds),
            observers=[self.seen],
            placer=Placer(rng=random.Random(7)),
            on_fault=on_fault,
        )
        self.running: dict[str, dict[AttemptKey, AttemptProgress]] = {}
        self.blocks: dict[str, int] = {}

    def worker(self, worker_id: str = "w1", **fields: Any) -> None:
        """Registers a worker and takes its first report."""
        info = worker_info(worker_id, **fields)
        self.scheduler.register_worker(info)
        self.running[worker_id] = {}
        self.blocks[worker_id] = info.total_kv_blocks
        self.report(worker_id)

    def enqueue(self, request_id: str, tenant: str = "t", **fields: Any) -> None:
        """Enqueues, and dispatches what can be."""
        self.scheduler.enqueue(GATEWAY, new_request(request_id, tenant, **fields))
        self.scheduler.pump()

    def advance(self, us: int, step_us: int = 100_000) -> None:
        """Lets time pass, in steps, pumping and with every worker reporting."""
        while us > 0:
            self.clock.advance_us(min(us, step_us))
            us -= step_us
            self.scheduler.pump()

    def advance_reporting(self, us: int, step_us: int = 500_000) -> None:
        """Lets time pass while every worker reports."""
        while us > 0:
            self.advance(min(us, step_us))
            us -= step_us
            for worker_id in self.running:
                self.report(worker_id)

    def report(
        self,
        worker_id: str = "w1",
        *,
        finished: Sequence[AttemptEnd] = (),
        load: Mapping[str, Any] | None = None,
        draining: bool = False,
    ) -> None:
        """A report of a worker: what it runs by the test's script."""
        running = tuple(self.running[worker_id].values())
        held = sum(progress.kv_blocks for progress in running)
        values: dict[str, Any] = {
            "free_kv_blocks": self.blocks[worker_id] - held,
            "held_kv_blocks": held,
            "report_time_us": self.clock.now_us(),
        } | dict(load or {})
        report = WorkerReport(
            load=WorkerLoad(**values), running=running, finished=tuple(finished), draining=draining
        )
        self.scheduler.worker_report(worker_id, report)
        self.scheduler.pump()

    def start(self, dispatch: Dispatch, output: int = 0, *, kv_blocks: int = 1) -> None:
        """The worker has an attempt and reports it."""
        usage = AttemptUsage(prompt_tokens=10, completion_tokens=output)
        progress = AttemptProgress(dispatch.key, usage, kv_blocks)
        self.running[dispatch.worker.worker_id][dispatch.key] = progress
        self.report(dispatch.worker.worker_id)

    def end(self, dispatch: Dispatch, output: int = 10, *, failed: bool = False) -> None:
        """The worker reports the end of an attempt; the gateway says so too."""
        worker_id = dispatch.worker.worker_id
        self.running[worker_id].pop(dispatch.key, None)
        usage = AttemptUsage(prompt_tokens=10, completion_tokens=output)
        self.report(worker_id, finished=[AttemptEnd(dispatch.key, usage, failed)])
        if not failed:
            self.scheduler.finish(GATEWAY, dispatch.key, usage)
            self.scheduler.pump()

    def fail(
        self,
        dispatch: Dispatch,
        reason: Reason = Reason.WORKER_LOST,
        *,
        worker_fault: bool = True,
    ) -> None:
        """The gateway reports that an attempt broke before its first token."""
        self.scheduler.attempt_failed(GATEWAY, dispatch.key, reason, worker_fault=worker_fault)
        self.scheduler.pump()

    def first_token(self, dispatch: Dispatch) -> None:
        """The gateway has streamed something."""
        self.scheduler.first_token(GATEWAY, dispatch.key)
        self.scheduler.pump()

    def dispatched_ids(self) -> list[str]:
        """Request ids in order of dispatch."""
        return [dispatch.key.request_id for dispatch in self.out.dispatches]

    def requests_of(self, worker_id: str = "w1") -> int:
        """Attempts that the scheduler counts on a worker."""
        return next(w.requests for w in self.scheduler.workers() if w.info.worker_id == worker_id)
