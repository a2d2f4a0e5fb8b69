"""Which pool a worker belongs to, and its bounds there."""

from dataclasses import replace

from weir_core.errors import WeirError
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.rules.pool_scope import PromptLength
from weir_scheduler.rules.routing import pool_of_worker
from weir_scheduler.workers.worker import Worker


def assign(state: SchedulerState, worker: Worker) -> None:
    """Gives a worker pool, owner and bounds by `state.rules`, now and when these change."""
    info = worker.info
    rules = state.rules.worker(info.model, info.profile)
    pool, owner = "", info.dedicated_tenant_id
    try:
        first = state.rules.pool(info.model)
    except WeirError:
        first = None  # A model that the directory does not know (yet) has no pools.
    if first is not None:
        mine = pool_of_worker(first, info.profile, info.dedicated_tenant_id)
        pool = "" if mine is first else mine.name
        owner = mine.scope.tenant_id or owner
        if mine.scope.length is PromptLength.LONG:
            rules = replace(rules, max_running_long=0)
    if rules != worker.rules:
        worker.set_rules(rules)
    if (pool, owner) != (worker.pool, worker.owner):
        worker.pool, worker.owner = pool, owner
        state.fleet.changed()
