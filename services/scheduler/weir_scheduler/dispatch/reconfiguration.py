"""A new version of the configuration, applied to what is there already."""

from weir_core.errors import WeirError
from weir_scheduler.dispatch.assignment import assign
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.queues.lane import Lane
from weir_scheduler.rules.routing import pool_named


def apply_rules(state: SchedulerState, waiting: WaitingRoom) -> None:
    """Brings queues, caps and the bounds of workers in line with `state.rules`."""
    for lane in state.lanes.values():
        try:
            pool = state.rules.pool(lane.key.model)
        except WeirError:
            continue  # The model was removed: what waits is worked off by its last rules.
        pool = pool_named(pool, lane.key.pool)
        if pool != lane.pool:
            lane.reconfigure(pool, state.now_us())
            state.mark_lane(lane)
    for tenant_id in {entry.tenant_id for lane in state.lanes.values() for entry in lane.entries()}:
        state.update_cap(tenant_id)
    for worker in state.fleet:
        before = worker.rules
        assign(state, worker)
        if worker.rules != before:
            state.outbox.parameters(worker.info.worker_id, worker.rules)
    for lane in list(state.lanes.values()):
        _reroute(lane, waiting, state.now_us())
    state.to_pump.update(dict.fromkeys(state.lanes))


def _reroute(lane: Lane, waiting: WaitingRoom, now_us: int) -> None:
    """What waits for a pool that was removed, or has no workers, goes by the new rules."""
    if lane.key.pool and lane.pool.name != lane.key.pool:
        waiting.move_away(lane)
    elif lane.no_worker_since_us is not None:
        waiting.watch_lane(lane, now_us)
