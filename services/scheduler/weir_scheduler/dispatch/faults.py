"""Exceptions that nobody foresaw: each costs one request, or one look, and nobody else."""

from collections.abc import Callable

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.request_record import Phase, RequestRecord
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import Timer, TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.lane import Lane
from weir_scheduler.queues.wait_reason import QueueExit
from weir_scheduler.workers.attempt_key import AttemptKey

OnFault = Callable[[str, Exception], None]
"""Told what an exception has cost: the id of a request, or the name of a lane or timer."""

_AGAIN_US = 1_000_000
_OF_REQUESTS = frozenset(
    {
        TimerKind.WAIT_ENDS,
        TimerKind.NO_WORKER,
        TimerKind.RETRY_EXCLUDED,
        TimerKind.SESSION_WAIT,
        TimerKind.LINGER,
    }
)


def raise_fault(what: str, fault: Exception) -> None:
    """For tests and simulations: a fault is not to be survived unseen."""
    raise fault


class Faults:
    """Keeps the scheduler going: a request at fault is rejected, all else is looked at again.

    Args:
        state: of the scheduler.
        waiting: its queues.
        releases: its ends.
        told: told of every fault, after what it cost is settled.
    """

    def __init__(
        self, state: SchedulerState, waiting: WaitingRoom, releases: Releases, told: OnFault
    ) -> None:
        self._state = state
        self._waiting = waiting
        self._releases = releases
        self._told = told

    def of_request(self, entry: QueueEntry, fault: Exception) -> None:
        """Rejects the request that was being placed, in whatever state that has left it.

        Raises:
            Exception: `fault`, if the request cannot even be taken out of its lane.
        """
        record = self._state.requests.get(entry.request_id)
        if record is not None:
            self._leave(record, fault)
            self._free(record, AttemptKey(entry.request_id, entry.attempts + 1))
            self._releases.reject(record, _internal(entry.request_id))
        self._told(entry.request_id, fault)

    def of_lane(self, lane: Lane, fault: Exception) -> None:
        """Looks at a lane again a little later."""
        self._state.timers.set_earlier(TimerKind.WINDOW, lane.key, self._later_us())
        self._told(f"lane {lane.key}", fault)

    def of_timer(self, timer: Timer, fault: Exception) -> None:
        """Rejects the request that a timer is of; any other timer is due again a little later."""
        record = self._state.requests.get(str(timer.id)) if timer.kind in _OF_REQUESTS else None
        if record is not None:
            self.of_request(record.entry, fault)
            return
        self._state.timers.set(timer.kind, timer.id, self._later_us())
        self._told(f"timer {timer.kind} of {timer.id}", fault)

    def _leave(self, record: RequestRecord, fault: Exception) -> None:
        if not record.waits:
            return
        try:
            self._waiting.leave(record, QueueExit.REJECTED, _internal(record.entry.request_id))
        except Exception:
            lane = self._state.lanes.get(record.lane_key)
            if lane is not None and lane.holds(record.entry):
                raise fault from None
            record.phase = Phase.NEW

    def _free(self, record: RequestRecord, unsent: AttemptKey) -> None:
        """The place: at once when nobody has heard of it, else when its worker says so."""
        if record.attempt is not None:
            self._releases.abort(record.attempt, "the scheduler failed")
            return
        attempt = self._state.attempts.get(unsent)
        if attempt is not None:
            self._releases.end(attempt, None)

    def _later_us(self) -> int:
        return self._state.now_us() + _AGAIN_US


def _internal(request_id: str) -> WeirError:
    return WeirError(
        Reason.INTERNAL,
        f"internal error in the scheduler, id {request_id}",
        metadata={"id": request_id},
    )
