"""Which attempts have been here: the guard against running one that is out of date."""

from collections import OrderedDict

from weir_core.errors import Reason, WeirError
from weir_worker.terminal_records import AttemptKey, TerminalRecords

# Aborts of attempts that were never seen here are remembered, so that a start that was
# overtaken by its own abort does not run.
MAX_ABORTED_UNSEEN = 10_000


class AttemptHistory:
    """Newest attempts that run, ends that are recorded, and aborts that came too early.

    Args:
        records: the ends.
    """

    def __init__(self, records: TerminalRecords) -> None:
        self._records = records
        self._newest: dict[str, int] = {}
        self._aborted_unseen: OrderedDict[str, int] = OrderedDict()

    def check_fresh(self, key: AttemptKey) -> None:
        """Passes if nothing here is newer than the attempt, or the attempt itself.

        Raises WeirError(STALE_ATTEMPT), saying what was here.
        """
        request_id, number = key
        running = self._newest.get(request_id, 0)
        newest = max(running, self._records.newest_number(request_id))
        if newest > number:
            raise _stale(key, f"attempt {newest} has been here")
        if running == number:
            raise _stale(key, "it runs here already")
        if self._records.get(request_id, number) is not None:
            raise _stale(key, "it has ended here already")
        if number <= self._aborted_unseen.get(request_id, 0):
            raise _stale(key, "it was aborted before it arrived")

    def running_number(self, request_id: str) -> int:
        """The newest attempt of the request that runs here; 0 when none does."""
        return self._newest.get(request_id, 0)

    def note_start(self, key: AttemptKey) -> None:
        """It runs, and is the newest of its request."""
        self._newest[key[0]] = key[1]

    def note_end(self, key: AttemptKey) -> None:
        """It runs no more; its record tells from now on."""
        if self._newest.get(key[0]) == key[1]:
            del self._newest[key[0]]

    def note_aborted_unseen(self, key: AttemptKey) -> None:
        """Its start, and that of an older one, will be refused should it still come."""
        request_id, number = key
        self._aborted_unseen[request_id] = max(number, self._aborted_unseen.get(request_id, 0))
        while len(self._aborted_unseen) > MAX_ABORTED_UNSEEN:
            self._aborted_unseen.popitem(last=False)


def _stale(key: AttemptKey, why: str) -> WeirError:
    return WeirError(
        Reason.STALE_ATTEMPT, f"attempt {key[1]} of request {key[0]} is refused: {why}"
    )
