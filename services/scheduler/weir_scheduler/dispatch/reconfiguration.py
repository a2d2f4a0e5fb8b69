"""A new version of the configuration, applied to what is there already."""

from weir_core.errors import WeirError
from weir_scheduler.dispatch.assignment import assign
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.rules.routing import pool_named


def apply_rules(state: SchedulerState) -> None:
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
    state.to_pump.update(dict.fromkeys(state.lanes))
