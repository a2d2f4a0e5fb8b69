"""What a scheduler does that is not the active one any more."""

from weir_scheduler.dispatch.fleet_events import FleetEvents
from weir_scheduler.dispatch.gateway_events import GatewayEvents
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind


def vacate(
    state: SchedulerState, gateways: GatewayEvents, fleet: FleetEvents, releases: Releases
) -> None:
    """Forgets requests, attempts, workers and counters: another scheduler is told them.

    By the same paths as their losses, so that each is released once; nobody hears of it, as
    every stream has been cut.
    """
    for gateway in state.requests.gateways():
        gateways.gateway_lost(gateway)
    for worker in list(state.fleet):
        fleet.lose(worker, "this scheduler is on standby")
        state.timers.cancel(TimerKind.FORGET_WORKER, worker.info.worker_id)
        state.fleet.remove(worker.info.worker_id)
    for attempt in list(state.attempts):
        # Taken over, and its worker never came.
        releases.end(attempt, None)
    state.lanes.clear()
    state.to_pump.clear()
    state.to_announce.clear()
    state.hold_until_us = 0
