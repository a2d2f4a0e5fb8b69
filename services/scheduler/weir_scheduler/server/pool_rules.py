"""Pools of the directory, in the terms of the scheduler."""

from weir.common.v1 import subject_pb2
from weir.directory.v1 import directory_pb2 as directory
from weir_core.directory import DirectoryIndex
from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.rules.placement_rules import PlacementRules
from weir_scheduler.rules.pool_scope import PoolScope, PromptLength, WhenGone
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_scheduler.rules.shares import Shares
from weir_scheduler.rules.shedding_rules import ShedCurve, SheddingRules
from weir_scheduler.server.pool_scaling import pool_scaling_of
from weir_scheduler.server.queue_rules import queue_rules

_DEFAULT_POOL = "default"
_ISOLATIONS = {
    directory.ISOLATION_SHARED: Isolation.SHARED,
    directory.ISOLATION_DEDICATED: Isolation.DEDICATED,
}
_POLICIES = {
    directory.SCHEDULER_POLICY_PRIORITY: "priority",
    directory.SCHEDULER_POLICY_SHORTEST_REMAINING: "shortest_remaining",
}
_CLASSES = {
    subject_pb2.REQUEST_CLASS_INTERACTIVE: RequestClass.INTERACTIVE,
    subject_pb2.REQUEST_CLASS_BATCH: RequestClass.BATCH,
}
_LENGTHS = {
    directory.PROMPT_LENGTH_SHORT: PromptLength.SHORT,
    directory.PROMPT_LENGTH_LONG: PromptLength.LONG,
}
_WHEN_GONE = {
    directory.WHEN_GONE_REFUSE: WhenGone.REFUSE,
    directory.WHEN_GONE_WAIT: WhenGone.WAIT,
    directory.WHEN_GONE_SHARED: WhenGone.SHARED,
}
_CURVES = {
    directory.SHED_CURVE_HOLDBACK: ShedCurve.HOLDBACK,
    directory.SHED_CURVE_POWER: ShedCurve.POWER,
}


def pools_of_model(index: DirectoryIndex, model: directory.Model) -> PoolRules:
    """The first pool of a model, with the others in its `further`."""
    further = [pool for name in model.further_pools if (pool := index.pool(name)) is not None]
    others = tuple(_pool_rules(pool, further=True) for pool in further)
    first = index.pool(model.pool)
    if first is None:
        name = model.pool or _DEFAULT_POOL
        return PoolRules(name, Isolation.WEIGHTED, "fifo", further=others)
    return _pool_rules(first, further=False, others=others)


def _pool_rules(
    pool: directory.Pool, *, further: bool, others: tuple[PoolRules, ...] = ()
) -> PoolRules:
    return PoolRules(
        name=pool.name,
        isolation=_ISOLATIONS.get(pool.isolation, Isolation.WEIGHTED),
        policy=_POLICIES.get(pool.scheduler_policy, "fifo"),
        placement=_placement(pool.placement),
        preemption=_preemption(pool.preemption) if pool.HasField("preemption") else None,
        queue=queue_rules(pool),
        scope=_scope(pool),
        shares=_shares(pool),
        when_gone=_when_gone(pool, further),
        shedding=_shedding(pool),
        further=others,
        scaling=pool_scaling_of(pool.scaling),
    )


def _scope(pool: directory.Pool) -> PoolScope:
    return PoolScope(
        tenant_id=pool.tenant_id,
        request_class=_CLASSES.get(getattr(pool, "class")),
        length=_LENGTHS.get(pool.length),
        profiles=frozenset(pool.profiles),
    )


def _shares(pool: directory.Pool) -> Shares:
    usual = Shares()
    return Shares(
        interactive=pool.interactive_share or usual.interactive,
        batch=pool.batch_share or usual.batch,
        short=pool.short_share or usual.short,
        long=pool.long_share or usual.long,
    )


def _when_gone(pool: directory.Pool, further: bool) -> WhenGone:
    """What is dedicated never runs elsewhere unless that is said."""
    usual = WhenGone.SHARED if further and not pool.tenant_id else WhenGone.REFUSE
    return _WHEN_GONE.get(pool.when_gone, usual)


def _shedding(pool: directory.Pool) -> SheddingRules:
    usual = SheddingRules()
    return SheddingRules(
        curve=_CURVES.get(pool.shed_curve, usual.curve),
        from_millis=pool.shed_from_millis or usual.from_millis,
    )


def _placement(message: directory.Placement) -> PlacementRules:
    usual = PlacementRules()
    has = message.HasField
    return PlacementRules(
        session_wait_us=(
            message.session_wait_ms * 1_000 if has("session_wait_ms") else usual.session_wait_us
        ),
        affinity_excess_millis=(
            message.affinity_excess_millis
            if has("affinity_excess_millis")
            else usual.affinity_excess_millis
        ),
        affinity_slack_tokens=(
            message.affinity_slack_tokens
            if has("affinity_slack_tokens")
            else usual.affinity_slack_tokens
        ),
        retry_ratio_millis=(
            message.retry_ratio_millis if has("retry_ratio_millis") else usual.retry_ratio_millis
        ),
        retries_per_s=message.retries_per_s if has("retries_per_s") else usual.retries_per_s,
    )


def _preemption(message: directory.PolicyPreemption) -> PreemptionRules:
    usual = PreemptionRules()
    return PreemptionRules(
        max_overtakings=message.max_overtakings or usual.max_overtakings,
        max_preemptions=message.max_preemptions or usual.max_preemptions,
        max_overtake_ratio_millis=(
            message.max_overtake_ratio_millis or usual.max_overtake_ratio_millis
        ),
        place_wait_us=(message.place_wait_ms or usual.place_wait_us // 1_000) * 1_000,
    )
