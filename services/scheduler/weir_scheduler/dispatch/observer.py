"""Who watches the queue: metrics, traces, tests."""

from collections.abc import Sequence
from typing import Protocol

from weir_core.errors import WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason


class Observer(Protocol):
    """Told of every wait; must not block and must not call back."""

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """A request was refused on arrival; it never waited."""

    def entered(self, record: RequestRecord) -> None:
        """A wait begins."""

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """Reason or position of a wait has changed."""

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """A wait has ended; `cause` says why when it ended in a refusal."""

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """An attempt failed and a new wait is about to begin."""

    def served(self, attempt: Attempt) -> None:
        """An attempt has ended; its `charged` is final."""


class Observers:
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """Passes it on."""
        for observer in self._observers:
            observer.refused(request, cause)

    def entered(self, record: RequestRecord) -> None:
        """Passes it on."""
        for observer in self._observers:
            observer.entered(record)

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """Passes it on."""
        for observer in self._observers:
            observer.waits(record, reason, position)

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """Passes it on."""
        for observer in self._observers:
            observer.left(record, exit_, cause)

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """Passes it on."""
        for observer in self._observers:
            observer.requeued(record, cause)

    def served(self, attempt: Attempt) -> None:
        """Passes it on."""
        for observer in self._observers:
            observer.served(attempt)
