"""A worker does not do its part."""

from collections.abc import Iterable

from weir.gateway.v1.history_service_pb2 import WorkerSample
from weir_cli.doctor.departures import departed
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding

FROZEN_S = 5.0
"""Without a sign of the engine, which gives two a second while idle and one for each step."""


class WorkerStates:
    """Suspect, lost, or with an engine that gives no sign."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        gone = departed(evidence)
        for worker in evidence.workers:
            view = worker.view
            if view.registration.worker_id in gone:
                continue
            if view.state in ("suspect", "lost"):
                yield _finding(worker, view.state, view.state_reason or "its reports do not come")
            elif (age_s := view.load.step_age.ToMicroseconds() / 1e6) > FROZEN_S:
                yield _finding(worker, "frozen", f"its engine has given no sign for {age_s:.0f} s")


def _finding(worker: WorkerSample, state: str, why: str) -> Finding:
    worker_id = worker.view.registration.worker_id
    return fault(
        f"worker_{state}",
        worker_id,
        (f"worker {worker_id} is {state}: {why}",),
        f"look at its log and its machine; `weir workers drain {worker_id}` takes it out, and "
        "under `weir up` another takes its place",
    )
