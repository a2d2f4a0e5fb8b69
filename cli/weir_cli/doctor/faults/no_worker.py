"""A model has no worker that takes work."""

from collections.abc import Iterable

from weir.gateway.v1.history_service_pb2 import HistorySample, PoolSample
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding


class NoWorker:
    """Of a model, or of a pool in which requests wait.

    A pool that may have none and in which nothing waits is idle, not ill.
    """

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        newest = evidence.newest
        if newest is None or newest.parts.scheduler_error:
            return
        served = {pool.status.model for pool in newest.pools if pool.status.live_workers}
        asked = {pool.status.model for pool in newest.pools} | set(evidence.models())
        for model in sorted(asked - served - {""}):
            pools = [pool for pool in newest.pools if pool.status.model == model]
            waiting = _waiting(newest, model)
            if waiting or not pools or not all(map(_may_have_none, pools)):
                yield _finding(f"model {model}", waiting, pools)
        for pool in newest.pools:
            status = pool.status
            waiting = sum(queue.waiting for queue in status.queues)
            if status.model in served and not status.live_workers and waiting:
                yield _finding(f"pool {status.pool} of model {status.model}", waiting, [pool])


def _waiting(sample: HistorySample, model: str) -> int:
    """Requests of a model that wait, as the depths and as the queues have it."""
    depths = sum(one.waiting for one in sample.depths if one.model == model)
    queued = sum(
        queue.waiting
        for pool in sample.pools
        if pool.status.model == model
        for queue in pool.status.queues
    )
    return max(depths, queued)


def _may_have_none(pool: PoolSample) -> bool:
    return pool.HasField("min_workers") and pool.min_workers == 0


def _finding(subject: str, waiting: int, pools: list[PoolSample]) -> Finding:
    bounds = ", ".join(
        f"{pool.min_workers} of pool {pool.status.pool}"
        for pool in pools
        if pool.HasField("min_workers")
    )
    known = sum(pool.status.workers for pool in pools)
    return fault(
        "no_worker",
        subject,
        (
            f"no worker of {subject} takes work, of {known} that are known; {waiting} requests "
            "wait for one",
            f"`min_workers` is {bounds}" if bounds else "",
        ),
        _remedy(known, zero=bool(pools) and all(map(_may_have_none, pools))),
    )


def _remedy(known: int, *, zero: bool) -> str:
    if known:
        return (
            f"of the {known} known see why they take none (`weir workers ls`): end a drain with "
            "`weir workers undrain`, or start another with `weir up --workers`"
        )
    start = "start one: `weir up --workers 1` or more"
    if zero:
        return (
            f"{start}, or see why the autoscaler starts none; `min_workers` of the pool, now 0, "
            "at 1 keeps one while nothing waits"
        )
    return start
