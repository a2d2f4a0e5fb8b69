"""A new version of the configuration, applied to what is there already."""

from weir_core.errors import WeirError
from weir_scheduler.dispatch.state import SchedulerState


def apply_rules(state: SchedulerState) -> None:
    """Brings queues, caps and the bounds of workers in line with `state.rules`."""
    for lane in state.lanes.values():
        try:
            pool = state.rules.pool(lane.key.model)
        except WeirError:
            continue  # The model was removed: what waits is worked off by its last rules.
        if pool != lane.pool:
            lane.reconfigure(pool)
            state.mark_lane(lane)
    for tenant_id in {entry.tenant_id for lane in state.lanes.values() for entry in lane.entries()}:
        state.update_cap(tenant_id)
    for worker in state.fleet:
        rules = state.rules.worker(worker.info.model, worker.info.profile)
        if rules != worker.rules:
            worker.set_rules(rules)
            state.outbox.parameters(worker.info.worker_id, rules)
    state.to_pump.update(dict.fromkeys(state.lanes))
