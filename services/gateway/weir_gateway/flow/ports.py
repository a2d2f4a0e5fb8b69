"""What a live request can do to the world. Every call queues something and returns at once."""

from collections.abc import Callable
from typing import Protocol

from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, TerminalRecord
from weir.common.v1.usage_pb2 import Usage
from weir.scheduler.v1.scheduler_service_pb2 import Enqueue
from weir.worker.v1.worker_service_pb2 import AttemptDelta, StartAttempt
from weir_core.errors import Reason


class AttemptListener(Protocol):
    """Who wants to hear of an attempt."""

    def on_delta(self, number: int, delta: AttemptDelta) -> None:
        """New tokens of attempt `number`."""

    def on_terminal(self, record: TerminalRecord) -> None:
        """The end of an attempt."""

    def on_worker_lost(self, number: int, *, reached: bool, message: str) -> None:
        """The stream of attempt `number` broke; `reached`: the worker may have begun it."""


class SchedulerPort(Protocol):
    """The queue. What is sent while there is no scheduler is dropped, but for `enqueue`'s
    answer, which tells.
    """

    @property
    def epoch(self) -> int:
        """Number of the present connection; grows with each. 0 while there is none."""

    def enqueue(self, message: Enqueue) -> bool:
        """Asks for a worker; False while there is no scheduler."""

    def withdraw(self, request_id: str) -> None:
        """Takes a request out of the queue."""

    def attempt_failed(self, attempt: Attempt, reason: Reason, *, worker_fault: bool) -> None:
        """Asks for another worker."""

    def first_token(self, attempt: Attempt) -> None:
        """Tells that the request can no longer move."""

    def finish(self, attempt: Attempt, usage: Usage, outcome: "Outcome.ValueType") -> None:
        """Tells that an attempt has ended."""


class WorkerPort(Protocol):
    """The workers, each over one shared stream."""

    def start(
        self, worker_id: str, address: str, message: StartAttempt, listener: AttemptListener
    ) -> None:
        """Starts an attempt; a worker that cannot be reached is told as lost."""

    def abort(self, worker_id: str, attempt: Attempt, outcome: "Outcome.ValueType") -> None:
        """Asks for the end of an attempt."""

    def forget(self, worker_id: str, attempt: Attempt) -> None:
        """Drops the listener of an attempt."""

    def gpu_id(self, worker_id: str) -> str:
        """The device of a worker, as far as it has told."""

    def recover(
        self,
        worker_id: str,
        attempt: Attempt,
        outcome: "Outcome.ValueType",
        then: Callable[[TerminalRecord | None], None],
    ) -> None:
        """Aborts over a call of its own and fetches the record, in bounded time."""


class Timer(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """It will not fire."""


CallLater = Callable[[float, Callable[[], None]], Timer]
