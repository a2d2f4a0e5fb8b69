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
    the next one that may run it and has one. Likewise the first of its fall-back versions with a
    live worker while its own version has none.

    Raises:
        WeirError: the model is unknown.
        InvalidField: no pool of the model takes such requests.
    """
    first = state.rules.pool(entry.model)
    entry = _of_live_version(state, entry)
    if not first.further and not _is_bound(first):
        owner = state.fleet.owner_for(entry.model, entry.model_version, entry.tenant_id)
        return LaneKey(entry.model, entry.model_version, owner), first
    length = PromptLength.LONG if entry.long else PromptLength.SHORT
    pools = pools_for(first, entry.tenant_id, entry.request_class, length)
    if not pools:
        raise _not_served(entry, length)
    lanes = [(_key(state, entry, pool, first), pool) for pool in pools]
    for key, pool in lanes:
        if pool.when_gone is not WhenGone.SHARED or len(lanes) == 1 or _has_live(state, key):
            return key, pool
    return lanes[0]


def _of_live_version(state: SchedulerState, entry: QueueEntry) -> QueueEntry:
    if not entry.fallback_versions:
        return entry
    now_us = state.now_us()
    for version in (entry.model_version, *entry.fallback_versions):
        if any(w.info.serves(entry.model, version) and w.live(now_us) for w in state.fleet):
            return replace(entry, model_version=version)
    return entry


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
