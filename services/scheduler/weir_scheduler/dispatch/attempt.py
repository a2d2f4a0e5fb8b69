"""A dispatched attempt: a place on a worker, until the worker says that it is gone."""

from dataclasses import dataclass, field

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptUsage


@dataclass(slots=True)
class Attempt:
    """One try of a request on one worker.

    Attributes:
        key: request and number.
        worker_id: where.
        tenant_id: whose running cap and service it counts in.
        lane_key: which lane's counters it is charged in.
        request_class: likewise.
        prompt_tokens: of the request.
        uncached_estimate: prompt tokens expected to be computed.
        arrival_deadline_us: by when a report must name it, monotonic.
        expire_wall_us: end of its grant, Unix microseconds.
        charged: service charged so far, weighted tokens.
        named: it has arrived: a report has named it, or its first token came.
        reported: a report has named it: one that does not any more says that it is gone.
        streamed: its gateway has passed something on; it can no longer move.
        aborting: the worker has been told to end it.
        faulted: its failure has been counted against the worker.
        started: a token of it was sampled, as far as is known; it is no victim any more.
        asked: its gateway was asked to give its place to a more urgent request.
        preempted: it has given it; what it has computed is charged to nobody.
        long: which length's service it is charged to.
        choices: answers that it makes at once.
        usage: as of the last report.
    """

    key: AttemptKey
    worker_id: str
    tenant_id: str
    lane_key: LaneKey
    request_class: RequestClass
    prompt_tokens: int
    uncached_estimate: int
    arrival_deadline_us: int
    expire_wall_us: int
    charged: int = 0
    named: bool = False
    reported: bool = False
    streamed: bool = False
    aborting: bool = False
    faulted: bool = False
    started: bool = False
    asked: bool = False
    preempted: bool = False
    long: bool = False
    choices: int = 1
    usage: AttemptUsage = field(default_factory=AttemptUsage)
