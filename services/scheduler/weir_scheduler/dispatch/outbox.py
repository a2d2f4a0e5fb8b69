"""What the scheduler tells gateways and workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weir_core.errors import WeirError
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_info import WorkerInfo


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Permission to run one attempt on one worker.

    Attributes:
        key: request and attempt number.
        worker: where.
        tenant_id: whose.
        request_class: as enqueued.
        priority: as enqueued.
        max_new_tokens: bound that the grant allows, tokens.
        queue_us: length of the wait that ended.
        expire_wall_us: Unix microseconds from which the worker refuses to start it.
    """

    key: AttemptKey
    worker: WorkerInfo
    tenant_id: str
    request_class: RequestClass
    priority: int
    max_new_tokens: int
    queue_us: int
    expire_wall_us: int


class Outbox(Protocol):
    """Where events and commands go; must not block and must not call back.

    Those for a gateway or worker whose stream has ended are dropped: the end of the stream
    has its own consequences.
    """

    def queued(self, gateway: str, request_id: str, position: int, reason: WaitReason) -> None:
        """The request waits, at a position from 1 in its tenant's queue."""

    def dispatched(self, gateway: str, dispatch: Dispatch) -> None:
        """The request has a worker."""

    def requeued(self, gateway: str, request_id: str, cause: WeirError, position: int) -> None:
        """The request went back to the queue."""

    def preempt(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        """A more urgent request needs the place of an attempt.

        A gateway that has passed nothing of it on ends it and reports `attempt_failed` with
        the reason PREEMPTED; one that has, does nothing.
        """

    def rejected(self, gateway: str, request_id: str, cause: WeirError) -> None:
        """The request will not run."""

    def attempt_lost(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        """The attempt was lost after something was streamed."""

    def abort(self, worker_id: str, keys: Sequence[AttemptKey], why: str) -> None:
        """End these attempts."""

    def drain(self, worker_id: str, *, cancel: bool) -> None:
        """Take no new attempts; or take them again."""

    def parameters(self, worker_id: str, rules: WorkerRules) -> None:
        """The bounds of the worker have changed."""
