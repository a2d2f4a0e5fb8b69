"""What a scheduler does that is not the active one any more."""

from weir_scheduler.dispatch.absences import Absences
from weir_scheduler.dispatch.fleet_events import FleetEvents
from weir_scheduler.dispatch.gateway_events import GatewayEvents
from weir_scheduler.dispatch.preempter import Preempter
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.state import SchedulerState


class Vacating:
    """Forgets requests, attempts, workers and counters: another scheduler is told them.

    By the same paths as their losses, so that each is released once; nobody hears of it, as
    every stream has been cut.
    """

    def __init__(
        self,
        state: SchedulerState,
        gateways: GatewayEvents,
        fleet: FleetEvents,
        releases: Releases,
        preempter: Preempter,
        absences: Absences,
    ) -> None:
        self._state = state
        self._gateways = gateways
        self._fleet = fleet
        self._releases = releases
        self._preempter = preempter
        self._absences = absences

    def vacate(self) -> None:
        """Leaves nothing behind, timers included: their lanes and requests are gone."""
        state = self._state
        for gateway in state.requests.gateways():
            self._gateways.gateway_lost(gateway)
        for worker in list(state.fleet):
            self._fleet.lose(worker, "this scheduler is on standby")
            state.fleet.remove(worker.info.worker_id)
        for attempt in list(state.attempts):
            # Taken over, and its worker never came.
            self._releases.end(attempt, None)
        self._preempter.forget()
        self._absences.forget()
        state.lanes.clear()
        state.timers.clear()
        state.to_pump.clear()
        state.to_announce.clear()
        state.hold_until_us = 0
