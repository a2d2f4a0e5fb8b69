"""Gateways whose stream has ended, or has just begun again."""

from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.queues.wait_reason import QueueExit

_WHY = "its gateway was away for too long"


class Absences:
    """A broken stream must not end what runs: tokens never pass through it.

    What waits is dropped at once, for its gateway enqueues it again at its old place. What
    runs is *doubted*, and aborted unless the gateway comes back in time and names it.
    """

    def __init__(self, state: SchedulerState, releases: Releases) -> None:
        self._state = state
        self._releases = releases
        self._doubted: dict[str, set[str]] = {}

    def begin(self, gateway: str) -> None:
        """The gateway's stream has ended, or a newer one has begun."""
        running = set()
        for record in self._state.requests.of_gateway(gateway):
            if record.waits or record.attempt is None or record.attempt.aborting:
                self._releases.drop(record, QueueExit.GATEWAY_LOST, _WHY)
            else:
                running.add(record.entry.request_id)
        self._doubted.pop(gateway, None)
        if running:
            self._doubted[gateway] = running
            due_us = self._state.now_us() + self._state.bounds.gateway_away_us
            self._state.timers.set(TimerKind.GATEWAY_AWAY, gateway, due_us)

    def forget(self) -> None:
        """Nothing is doubted any more."""
        self._doubted.clear()

    def named(self, gateway: str, request_id: str, *, runs: bool) -> None:
        """The gateway speaks of a request: as running, or it asks for a worker (again)."""
        doubted = self._doubted.get(gateway)
        if doubted is None or request_id not in doubted:
            return
        doubted.discard(request_id)
        record = self._state.requests.owned(gateway, request_id)
        if record is not None and not runs:
            # It never heard of that dispatch.
            self._releases.drop(record, QueueExit.GATEWAY_LOST, "its gateway asked again")

    def ends(self, gateway: str) -> None:
        """The time of a gateway to name what it has running is over."""
        for request_id in self._doubted.pop(gateway, ()):
            record = self._state.requests.owned(gateway, request_id)
            if record is not None:
                self._releases.drop(record, QueueExit.GATEWAY_LOST, _WHY)
