"""Who waits, as the scheduler says (`Observer`)."""

from collections import Counter

from weir_core.errors import WeirError
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.new_request import NewRequest
from weir_scheduler.dispatch.request_record import RequestRecord
from weir_scheduler.queues.wait_reason import QueueExit, WaitReason
from weir_sim.core.stage import Stage


class QueueWatch:
    """Counts waiting requests by tenant, and passes begins and ends on to the books."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.waiting: Counter[str] = Counter()

    def refused(self, request: NewRequest, cause: WeirError) -> None:
        """The outbox tells the journal."""

    def entered(self, record: RequestRecord) -> None:
        """A wait begins."""
        self.waiting[record.entry.tenant_id] += 1
        self._stage.journal.queued(record.entry.request_id, self._stage.now_us)

    def waits(self, record: RequestRecord, reason: WaitReason, position: int) -> None:
        """Positions are shown to nobody."""

    def left(self, record: RequestRecord, exit_: QueueExit, cause: WeirError | None) -> None:
        """A wait has ended."""
        self.waiting[record.entry.tenant_id] -= 1

    def requeued(self, record: RequestRecord, cause: WeirError) -> None:
        """The wait that follows is told by `entered`."""

    def served(self, attempt: Attempt) -> None:
        """An attempt has ended; its charge is final."""
        self._stage.meter.ended(attempt)
