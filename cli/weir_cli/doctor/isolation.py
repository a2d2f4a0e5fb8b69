"""What keeps one tenant from slowing another: a weight, caps, or workers of its own."""

from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus
from weir_cli.doctor.cause import percent
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.finding import Finding, Symptom
from weir_cli.doctor.neighbours import Neighbour
from weir_cli.doctor.statistics import mean
from weir_cli.doctor.step_growth import step_growth

QUEUED = 0.5
"""Of the later first token: then the wait in the queue is what slows."""
HOLDS = 0.6
"""Of all that runs: whoever holds so many places makes others wait however queues are ordered."""
SLOWER = 1.25
"""Times that steps take longer with as many tokens, whoever is in them."""
OVER_SHARE = 1.25
"""Times the part of its weight; a fair queue is off by less."""


def isolation_finding(evidence: Evidence, tenant: str, other: Neighbour) -> Finding | None:
    """Which isolation helps `tenant` against `other`, by where its later first token waits.

    None where steps have become slower by themselves.
    """
    mine = evidence.of(tenant=tenant)
    queued = mean(mine.recent.values("queue_time")) - mean(mine.baseline.values("queue_time"))
    later = mean(mine.recent.values("ttft")) - mean(mine.baseline.values("ttft"))
    told = (
        f"tenant {other.name} is served {other.now:.0f} tokens/s, {other.before:.0f} before: "
        f"{percent(other.part)} of all; {percent(other.running)} of what runs is its",
        f"the first token of {tenant} comes {1e3 * later:.0f} ms later, of which it waits "
        f"{1e3 * max(0.0, queued):.0f} ms in the queue",
    )
    if later > 0 and queued >= QUEUED * later:
        return _in_the_queue(evidence, tenant, other, told)
    if step_growth(evidence.baseline, evidence.recent) >= SLOWER:
        return None
    return _in_the_batch(evidence, tenant, other, told)


def _in_the_batch(
    evidence: Evidence, tenant: str, other: Neighbour, told: tuple[str, ...]
) -> Finding:
    before, work = evidence.baseline.work, evidence.recent.work
    shared = (
        f"they share steps: {work.rows_per_step:.0f} tokens in {1e3 * work.step_seconds:.1f} ms, "
        f"{before.rows_per_step:.0f} in {1e3 * before.step_seconds:.1f} ms before"
    )
    remedy = (
        f"the queue is not what slows {tenant}: give it workers of its own, a pool with "
        f"`isolation: dedicated` and `tenant: {tenant}`; or keep the long prompts of {other.name} "
        "apart (`max_running_long`, a pool by length)"
    )
    return _finding("needs_dedicated_pool", other, (*told, shared), remedy)


def _in_the_queue(
    evidence: Evidence, tenant: str, other: Neighbour, told: tuple[str, ...]
) -> Finding:
    pool = _pool(evidence)
    isolation = pool.isolation if pool is not None else "unknown"
    weights = _weights(evidence)
    mine, theirs = weights.get(tenant, 1), weights.get(other.name, 1)
    queue = f"the pool is {isolation}; weights: {tenant} {mine}, {other.name} {theirs}"
    told = (*told, queue)
    if isolation == "shared":
        remedy = (
            "give each tenant a queue: `isolation: weighted` for the pool, with a `weight` in "
            f"the policies of {tenant} and {other.name}"
        )
        return _finding("needs_weights", other, told, remedy)
    if other.running >= HOLDS or other.part > OVER_SHARE * theirs / (mine + theirs):
        remedy = (
            f"bound what {other.name} runs at once: a concurrency limit or "
            "`max_running_requests`, and a limit of tokens a minute (TPM); a weight orders the "
            "queue, and takes no place from what runs"
        )
        return _finding("needs_caps", other, told, remedy)
    remedy = (
        f"{other.name} is served within its part: raise `weight` in the policy of {tenant}, or "
        f"lower that of {other.name}; a dedicated pool if {tenant} must not wait at all"
    )
    return _finding("needs_weights", other, told, remedy)


def _finding(cause: str, other: Neighbour, told: tuple[str, ...], remedy: str) -> Finding:
    return Finding(cause, Symptom.TENANT, 1.0, told, remedy, other.name)


def _pool(evidence: Evidence) -> PoolStatus | None:
    """The pool that everybody shares."""
    newest = evidence.newest
    pools = [one.status for one in newest.pools] if newest is not None else []
    mine = [one for one in pools if evidence.recent.model in ("", one.model) and not one.tenant_id]
    return mine[0] if mine else None


def _weights(evidence: Evidence) -> dict[str, int]:
    """Of those that waited at any time; a queue that is empty tells no weight."""
    return {
        tenant.tenant_id: tenant.weight
        for sample in evidence.recent.samples
        for pool in sample.pools
        for queue in pool.status.queues
        for tenant in queue.tenant_queues
    }
