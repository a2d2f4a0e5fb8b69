"""Which workers that are away the doctor tells of: not those that were drained or replaced."""

from weir.gateway.v1.history_service_pb2 import HistorySample, WorkerSample
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.examination import examine
from weir_cli.doctor.splitting import split
from weir_cli.doctor.stretch import Stretch

SILENT = "nothing was heard of it for 5.0 s"


def test_a_lost_worker_with_a_newer_one_in_its_place_is_not_told() -> None:
    before = [_worker("a-1"), _worker("b-1")]
    after = [_worker("a-1", "lost"), _worker("b-1"), _worker("a-2")]
    assert _told(before, after) == []


def test_each_newer_worker_replaces_one_alone() -> None:
    before = [_worker("a-1"), _worker("b-1"), _worker("c-1")]
    after = [_worker("a-1", "lost"), _worker("b-1", "lost"), _worker("c-1"), _worker("a-2")]
    assert len(_told(before, after)) == 1


def test_one_that_was_there_before_takes_nobodys_place() -> None:
    before = [_worker("a-1"), _worker("b-1")]
    assert _told(before, [_worker("a-1", "lost"), _worker("b-1")]) == ["a-1"]


def test_a_newer_one_of_another_model_takes_nobodys_place() -> None:
    before = [_worker("a-1"), _worker("b-1")]
    after = [_worker("a-1", "lost"), _worker("b-1"), _worker("x-1", model="other")]
    assert _told(before, after) == ["a-1"]


def test_at_its_address_one_replaces_it_whenever_that_was() -> None:
    lost, newer = _worker("a-1", "lost"), _worker("a-2")
    for one in (lost, newer):
        one.view.registration.address = "10.0.0.1:7000"
    assert _told([lost, newer], [lost, newer]) == []


def test_one_that_was_drained_and_ended_is_not_told_unless_it_had_requests() -> None:
    drained = _worker("a-1", "lost")
    drained.view.drain_time.FromSeconds(20)
    before = [_worker("a-1"), _worker("b-1")]
    assert _told(before, [drained, _worker("b-1")]) == []
    drained.view.running_attempts = 1
    assert _told(before, [drained, _worker("b-1")]) == ["a-1"]


def _told(before: list[WorkerSample], after: list[WorkerSample]) -> list[str]:
    found = examine(_evidence(before, after)).findings
    return [one.subject for one in found if one.cause == "worker_lost"]


def _evidence(before: list[WorkerSample], after: list[WorkerSample]) -> Evidence:
    samples = [_sample(second, before if second <= 30 else after) for second in range(1, 61)]
    return split(samples, Stretch(30), Stretch(30))


def _sample(second: int, workers: list[WorkerSample]) -> HistorySample:
    sample = HistorySample(far_read=True, workers=workers)
    sample.end_time.FromSeconds(second)
    sample.duration.FromSeconds(1)
    sample.pools.add().status.model = "m"
    sample.pools[0].status.live_workers = 1
    return sample


def _worker(worker_id: str, state: str = "ready", model: str = "m") -> WorkerSample:
    worker = WorkerSample()
    worker.view.state = state
    worker.view.registration.model = model
    worker.view.registration.worker_id = worker_id
    worker.view.state_reason = SILENT if state == "lost" else ""
    worker.view.last_report_time.FromSeconds(30 if state == "lost" else 60)
    return worker
