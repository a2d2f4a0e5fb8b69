"""Which lane a request waits in."""

from dataclasses import replace

from weir_core.errors import InvalidField
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.rules.pool_scope import PromptLength, WhenGone
from weir_scheduler.rules.routing import pools_for
from weir_scheduler.rules.rules import PoolRules


def route(state: SchedulerState, entry: QueueEntry) -> tuple[LaneKey, PoolRules]:
    """The lane of a request, and the pool that it belongs to.

    The pool that is meant for it; while that has no live worker and says `when_gone: shared`,
    the next one that may run it and has one. While no pool that it may use has a live worker of
    its own version, the same for the first of its fall-back versions that has one there.

    Raises:
        WeirError: the model is unknown.
        InvalidField: no pool of the model takes such requests.
    """
    first = state.rules.pool(entry.model)
    pools = _pools(first, entry)
    own = _lane_of(state, entry, first, pools)
    if not entry.fallback_versions or _has_live(state, own[0]):
        return own
    for version in entry.fallback_versions:
        other = _lane_of(state, replace(entry, model_version=version), first, pools)
        if _has_live(state, other[0]):
            return other
    return own


def _pools(first: PoolRules, entry: QueueEntry) -> list[PoolRules]:
    """Pools of the model that may run a request, the one that is meant for it first."""
    if not first.further and not _is_bound(first):
        return [first]
    length = PromptLength.LONG if entry.long else PromptLength.SHORT
    pools = pools_for(first, entry.tenant_id, entry.request_class, length)
    if not pools:
        raise _not_served(entry, length)
    return pools


def _lane_of(
    state: SchedulerState, entry: QueueEntry, first: PoolRules, pools: list[PoolRules]
) -> tuple[LaneKey, PoolRules]:
    """The lane of a request of one version."""
    lanes = [(_key(state, entry, pool, first), pool) for pool in pools]
    for key, pool in lanes:
        if pool.when_gone is not WhenGone.SHARED or len(lanes) == 1 or _has_live(state, key):
            return key, pool
    return lanes[0]


def _is_bound(pool: PoolRules) -> bool:
    return pool.scope.specificity > 0


def _key(state: SchedulerState, entry: QueueEntry, pool: PoolRules, first: PoolRules) -> LaneKey:
    owner = pool.scope.tenant_id
    if pool is first and not owner:
        owner = state.fleet.owner_for(entry.model, entry.model_version, entry.tenant_id)
    name = "" if pool is first else pool.name
    return LaneKey(entry.model, entry.model_version, owner, name)


def _has_live(state: SchedulerState, key: LaneKey) -> bool:
    now_us = state.now_us()
    return any(worker.live(now_us) for worker in state.fleet.serving(key))


def _not_served(entry: QueueEntry, length: PromptLength) -> InvalidField:
    asked = f"{entry.request_class} with a {length} prompt"
    bound = f"what a pool of model {entry.model} takes for this tenant (see its `further_pools`)"
    return InvalidField("class", asked, bound)
