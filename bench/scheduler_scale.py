"""What a decision of the scheduler costs as queue, tenants and fleet grow.

One decision is what a freed place sets off: the worker's report that an answer has ended, the
end told by the gateway, and the dispatch that follows, in the process, without the wire. Time is
CPU time of the thread, so that what else runs on the machine counts little.
"""

import argparse
import gc
import itertools
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles

from weir_core.clock import ManualClock
from weir_core.errors import WeirError
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.dispatch.new_request import NewRequest, Subject
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.placement.placer import Placer
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.queue_rules import FairQueue, QueueRules
from weir_scheduler.rules.rules import (
    Isolation,
    PoolRules,
    RequestRules,
    TenantRules,
    WorkerRules,
)
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

_SLOTS = 4
_GATEWAY = "gateway"
_FOREVER_US = 10**13
_STEP_US = 1_000
_REPORT_US = 500_000
_DECISIONS = 2_000


@dataclass(frozen=True)
class DecisionTimes:
    """Microseconds of CPU a decision, and memory of what waits.

    Attributes:
        queued: waiting requests throughout.
        tenants: that they belong to.
        workers: all full.
        p50_us: median.
        p99_us: of the single decisions.
        enqueue_us: median of taking one request in.
        bytes_per_request: growth of the process while the queue was filled, per request.
    """

    queued: int
    tenants: int
    workers: int
    p50_us: float
    p99_us: float
    enqueue_us: float
    bytes_per_request: float


def decision_times(
    queued: int,
    tenants: int,
    workers: int,
    *,
    policy: str = "fifo",
    fair_queue: FairQueue = FairQueue.TOKENS,
    decisions: int = _DECISIONS,
) -> DecisionTimes:
    """Measures one size.

    Args:
        queued: requests that wait, kept constant.
        tenants: they belong to as many.
        workers: with 4 places each, all taken.
        policy: within a tenant.
        fair_queue: between tenants.
        decisions: to time.
    """
    fleet = _Fleet(policy, fair_queue, tenants, workers)
    for _ in range(workers * _SLOTS):
        fleet.enqueue()
    fleet.pump()
    gc.collect()
    before = _resident_bytes()
    for _ in range(queued):
        fleet.enqueue()
    fleet.pump()
    grown = _resident_bytes() - before
    gc.collect()
    gc.freeze()
    for _ in range(200):
        fleet.decide()
    times = [fleet.decide() for _ in range(decisions)]
    gc.unfreeze()
    return DecisionTimes(
        queued,
        tenants,
        workers,
        p50_us=round(median(t for t, _ in times) / 1e3, 1),
        p99_us=round(quantiles((t for t, _ in times), n=100)[98] / 1e3, 1),
        enqueue_us=round(median(t for _, t in times) / 1e3, 1),
        bytes_per_request=round(grown / queued),
    )


def figures(*, quick: bool = False) -> dict[str, float]:
    """Medians at 100 and 100,000 waiting requests of a tenth as many tenants, 8 workers."""
    decisions = 300 if quick else _DECISIONS
    small, large = (
        decision_times(queued, queued // 10, 8, decisions=decisions) for queued in (100, 100_000)
    )
    return {"decision_us_100": small.p50_us, "decision_us_100000": large.p50_us}


class _Rules:
    """The configuration of one pool."""

    def __init__(self, policy: str, fair_queue: FairQueue) -> None:
        queue = QueueRules(fair_queue=fair_queue)
        self._pool = PoolRules("default", Isolation.WEIGHTED, policy, queue=queue)
        self._request = RequestRules(500, 0, _FOREVER_US, 10**7)
        self._tenant = TenantRules(1, 0, 10**6)
        self._worker = WorkerRules(_SLOTS, 10**6, 512, _SLOTS)

    def pool(self, model: str) -> PoolRules:
        return self._pool

    def request(self, model: str, tenant_id: str) -> RequestRules:
        return self._request

    def tenant(self, tenant_id: str) -> TenantRules:
        return self._tenant

    def worker(self, model: str, profile: str) -> WorkerRules:
        return self._worker


@dataclass
class _Outbox:
    """Keeps dispatches; the rest goes nowhere."""

    dispatches: list[Dispatch] = field(default_factory=list)

    def queued(self, gateway: str, request_id: str, position: int, reason: WaitReason) -> None:
        pass

    def dispatched(self, gateway: str, dispatch: Dispatch) -> None:
        self.dispatches.append(dispatch)

    def requeued(self, gateway: str, request_id: str, cause: WeirError, position: int) -> None:
        raise AssertionError(f"{request_id} was requeued: {cause}")

    def preempt(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        raise AssertionError(f"{key} was pre-empted: {cause}")

    def rejected(self, gateway: str, request_id: str, cause: WeirError) -> None:
        raise AssertionError(f"{request_id} was rejected: {cause}")

    def attempt_lost(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        raise AssertionError(f"{key} was lost: {cause}")

    def abort(self, worker_id: str, keys: Sequence[AttemptKey], why: str) -> None:
        pass

    def drain(self, worker_id: str, *, cancel: bool) -> None:
        pass

    def parameters(self, worker_id: str, rules: WorkerRules) -> None:
        pass


class _Fleet:
    """A scheduler, its workers, and a queue that is kept at one length."""

    def __init__(self, policy: str, fair_queue: FairQueue, tenants: int, workers: int) -> None:
        self._clock = ManualClock()
        self._out = _Outbox()
        self._rng = random.Random(1)
        self._scheduler = Scheduler(
            clock=self._clock,
            rules=_Rules(policy, fair_queue),
            outbox=self._out,
            bounds=Bounds(max_queued_requests=10**7, loss_us=_FOREVER_US),
            placer=Placer(rng=random.Random(2)),
        )
        self._tenants = max(1, tenants)
        self._running: dict[str, list[AttemptKey]] = {f"w{n}": [] for n in range(workers)}
        self._order = list(self._running)
        self._reporters = itertools.cycle(self._order)
        self._count = 0
        for worker_id in self._order:
            self._scheduler.register_worker(
                WorkerInfo(worker_id, f"{worker_id}:1", "m", total_kv_blocks=10_000)
            )
            self._scheduler.worker_report(worker_id, self._report(worker_id))

    def enqueue(self) -> int:
        """Takes one request in; nanoseconds of CPU."""
        self._count += 1
        number = self._count
        subject = Subject(f"tenant{number % self._tenants}", "u", "k", "m", "", "p")
        request = NewRequest(
            request_id=f"r{number}",
            subject=subject,
            priority=number % 4,
            prompt_tokens=self._rng.randint(10, 1_000),
            max_new_tokens=100,
            prefix_hashes=(number.to_bytes(32, "little"),),
        )
        begin = time.thread_time_ns()
        self._scheduler.enqueue(_GATEWAY, request)
        return time.thread_time_ns() - begin

    def pump(self) -> None:
        """Lets everything happen that can."""
        self._scheduler.pump()
        self._start()

    def decide(self) -> tuple[int, int]:
        """An answer ends and the next request goes: nanoseconds of that, and of a new arrival."""
        self._clock.advance_us(_STEP_US)
        for worker_id in itertools.islice(
            self._reporters, len(self._order) * _STEP_US // _REPORT_US
        ):
            self._scheduler.worker_report(worker_id, self._report(worker_id))
        worker_id = self._order[self._rng.randrange(len(self._order))]
        key = self._running[worker_id].pop(0)
        usage = AttemptUsage(prompt_tokens=100, completion_tokens=20)
        report = self._report(worker_id, AttemptEnd(key, usage))
        begin = time.thread_time_ns()
        self._scheduler.finish(_GATEWAY, key, usage)
        self._scheduler.worker_report(worker_id, report)
        self._scheduler.pump()
        elapsed = time.thread_time_ns() - begin
        assert len(self._out.dispatches) == 1, "a freed place is one dispatch"
        self._start()
        arrival = self.enqueue()
        self._scheduler.pump()
        return elapsed, arrival

    def _start(self) -> None:
        for dispatch in self._out.dispatches:
            self._running[dispatch.worker.worker_id].append(dispatch.key)
        self._out.dispatches.clear()

    def _report(self, worker_id: str, *ends: AttemptEnd) -> WorkerReport:
        running = tuple(
            AttemptProgress(key, AttemptUsage(prompt_tokens=50), 4)
            for key in self._running[worker_id]
        )
        load = WorkerLoad(free_kv_blocks=9_000, report_time_us=self._clock.now_us())
        return WorkerReport(load=load, running=running, finished=ends)


def _resident_bytes() -> int:
    """Of this process; 0 where /proc is missing."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * 4_096
    except OSError:
        return 0


_SIZES = ((100, 10, 8), (10_000, 1_000, 8), (100_000, 10_000, 8), (100_000, 10_000, 1_000))


def main() -> None:
    """Prints a line a size, and all of it as JSON at last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=_DECISIONS)
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--fair-queue", default="tokens", choices=[f.value for f in FairQueue])
    arguments = parser.parse_args()
    rows = []
    for queued, tenants, workers in _SIZES:
        row = decision_times(
            queued,
            tenants,
            workers,
            policy=arguments.policy,
            fair_queue=FairQueue(arguments.fair_queue),
            decisions=arguments.decisions,
        )
        print(row, file=sys.stderr)
        rows.append(asdict(row))
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
