"""Which of the workers that are away left as they should, or have a newer one in their place."""

from weir.gateway.v1.history_service_pb2 import HistorySample, WorkerSample
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.window import LIVE

_Group = tuple[str, str, str]


def departed(evidence: Evidence) -> set[str]:
    """Ids of lost workers that nobody misses: drained and empty, or replaced one for one."""
    lost = [one for one in evidence.workers if one.view.state == "lost"]
    return {_id(one) for one in lost if _drained(one)} | _replaced(evidence, lost)


def _drained(worker: WorkerSample) -> bool:
    view = worker.view
    return view.HasField("drain_time") and not (view.running_attempts or view.pending_attempts)


def _replaced(evidence: Evidence, lost: list[WorkerSample]) -> set[str]:
    """Each newer worker takes the place of one, of its own address or else of the oldest."""
    samples = [
        sample for sample in (*evidence.baseline.samples, *evidence.recent.samples)
        if sample.far_read
    ]  # fmt: skip
    free = {_id(one): one for one in evidence.workers if one.view.state in LIVE}
    found = set()
    for worker in sorted(lost, key=lambda one: one.view.last_report_time.ToMicroseconds()):
        known = _known_with(samples, _id(worker))
        newer = [one for one in free.values() if _takes_place(one, worker, known)]
        if newer:
            address = worker.view.registration.address
            newer.sort(key=lambda one: one.view.registration.address != address)
            del free[_id(newer[0])]
            found.add(_id(worker))
    return found


def _takes_place(newer: WorkerSample, of: WorkerSample, known: set[str] | None) -> bool:
    if _group(newer) != _group(of):
        return False
    # Two processes cannot listen on one address: the lost one has ended.
    same = newer.view.registration.address == of.view.registration.address != ""
    return same or (known is not None and _id(newer) not in known)


def _known_with(samples: list[HistorySample], worker_id: str) -> set[str] | None:
    """The workers that were there when this one last took work; None where that is not known."""
    for sample in reversed(samples):
        if any(_id(one) == worker_id and one.view.state in LIVE for one in sample.workers):
            return {_id(one) for one in sample.workers}
    return None


def _group(worker: WorkerSample) -> _Group:
    told = worker.view.registration
    return told.model, worker.view.pool, told.dedicated_tenant_id


def _id(worker: WorkerSample) -> str:
    return worker.view.registration.worker_id
