"""A model has no worker that takes work."""

from collections.abc import Iterable

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding


class NoWorker:
    """Of a model, or of a pool in which requests wait."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        newest = evidence.newest
        if newest is None or newest.parts.scheduler_error:
            return
        pools = [pool.status for pool in newest.pools]
        served = {pool.model for pool in pools if pool.live_workers}
        asked = {pool.model for pool in pools} | set(evidence.models())
        for model in sorted(asked - served - {""}):
            waiting = sum(one.waiting for one in newest.depths if one.model == model)
            yield _finding(f"model {model}", waiting)
        for pool in pools:
            waiting = sum(queue.waiting for queue in pool.queues)
            if pool.model in served and not pool.live_workers and waiting:
                yield _finding(f"pool {pool.pool} of model {pool.model}", waiting)


def _finding(subject: str, waiting: int) -> Finding:
    return fault(
        "no_worker",
        subject,
        (f"no worker of {subject} takes work; {waiting} requests wait for one",),
        "start one (`weir up --workers`), and look with `weir workers ls` why those that are "
        "known take none, or end the drain with `weir workers undrain`",
    )
