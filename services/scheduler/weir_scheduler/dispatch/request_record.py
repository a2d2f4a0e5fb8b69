"""A request from Enqueue until its gateway or the scheduler is done with it."""

from dataclasses import dataclass
from enum import StrEnum

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import Subject, TraceRef
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.queues.wait_reason import WaitReason


class Phase(StrEnum):
    """Where a request is."""

    NEW = "new"
    WAITING = "waiting"
    STRANDED = "stranded"
    DISPATCHED = "dispatched"


@dataclass(slots=True)
class RequestRecord:
    """One request of one gateway.

    Attributes:
        entry: what the queue knows; replaced when it is dispatched or requeued.
        subject: who asks for what.
        gateway: the gateway's stream.
        trace: parent of its queue spans.
        lane_key: lane in which it waits, or waited last.
        phase: where it is.
        expires_us: end of the present wait by queue timeout or deadline, monotonic.
        attempt: the current one; None while it waits.
        last_failure: why the last attempt failed.
        first_token_us: when its first token was streamed, monotonic.
        announced: position and reason last sent to the gateway.
        preemptions: times that it gave its place to a more urgent request.
        awaits: full worker of its session that it waits for; empty for none.
        overtaken: times that a pre-empting request was dispatched instead of it.
    """

    entry: QueueEntry
    subject: Subject
    gateway: str
    trace: TraceRef
    lane_key: LaneKey
    phase: Phase = Phase.NEW
    expires_us: int = 0
    attempt: Attempt | None = None
    last_failure: WeirError | None = None
    first_token_us: int | None = None
    announced: tuple[int, WaitReason] | None = None
    preemptions: int = 0
    overtaken: int = 0
    awaits: str = ""

    @property
    def waits(self) -> bool:
        """Whether it is in a queue."""
        return self.phase in (Phase.WAITING, Phase.STRANDED)

    @property
    def was_preempted(self) -> bool:
        """Whether its last attempt gave its place to a more urgent request."""
        return self.last_failure is not None and self.last_failure.reason is Reason.PREEMPTED
