"""Name of what is scaled."""

from typing import NamedTuple

from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.rules.pool_scope import PromptLength
from weir_scheduler.rules.routing import pool_of_worker, pools_for
from weir_scheduler.rules.rules import Rules
from weir_scheduler.workers.worker_info import WorkerInfo


class ScalingKey(NamedTuple):
    """Workers of one pool that serve one model, whatever its version."""

    model: str
    pool: str


def key_of_entry(rules: Rules, entry: QueueEntry) -> ScalingKey:
    """The pool that is meant for a request, though another may have to run it.

    So a pool without workers is asked for by what it should have run. Raises WeirError for an
    unknown model.
    """
    first = rules.pool(entry.model)
    length = PromptLength.LONG if entry.long else PromptLength.SHORT
    fitting = pools_for(first, entry.tenant_id, entry.request_class, length)
    return ScalingKey(entry.model, (fitting[0] if fitting else first).name)


def key_of_worker(rules: Rules, info: WorkerInfo) -> ScalingKey:
    """The pool that a worker belongs to. Raises WeirError for an unknown model."""
    pool = pool_of_worker(rules.pool(info.model), info.profile, info.dedicated_tenant_id)
    return ScalingKey(info.model, pool.name)
