"""What the doctor says of histories: causes by their signs, and changes that are no illness."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from weir.gateway.v1.history_service_pb2 import HistorySample, RequestFlow, WorkerSample
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.examination import examine, ttft
from weir_cli.doctor.looking import merged
from weir_cli.doctor.splitting import split
from weir_cli.doctor.stretch import Stretch
from weir_cli.doctor.tenant import of_tenant
from weir_gateway.history.distribution import Tally

_S = 30
"""Samples of a second in each window."""


@dataclass(frozen=True)
class Flow:
    """Requests of one tenant in a second; times in seconds, lengths in tokens."""

    tenant: str = "a"
    requests: int = 4
    intake: float = 0.005
    queue: float = 0.01
    prefill: float = 0.1
    speed: float = 50.0
    prompt: int = 100
    output: int = 20
    in_flight: int = 4
    refused: int = 0


@dataclass(frozen=True)
class Worker:
    """Steps of one worker in a second; times in milliseconds."""

    name: str = "w1"
    version: str = "1"
    gpu: str = "gpu-0"
    state: str = "ready"
    steps: int = 20
    step: float = 40.0
    rows: int = 24
    wait: float = 1.0


@dataclass(frozen=True)
class Second:
    """A second of a deployment."""

    flows: Sequence[Flow] = (Flow(),)
    workers: Sequence[Worker] = (Worker(),)
    waiting: Sequence[tuple[str, float]] = ()


WELL = Second()


def test_a_worker_that_left_is_named_before_the_queue_that_follows() -> None:
    two = Second((Flow(in_flight=8),), (Worker(), Worker("w2", gpu="gpu-1")))
    one = Second((Flow(queue=0.9, requests=4, in_flight=8),), waiting=(("WORKER_FULL", 4),))
    told = ttft(_evidence(two, one))
    assert [one.cause for one in told.findings] == ["workers_gone"]
    assert "gone: w2" in told.findings[0].evidence[0]
    # A drained one was no place before either.
    drained = Second(workers=(Worker(), Worker("w2", gpu="gpu-1", state="draining")))
    assert "workers_gone" not in _causes(_evidence(drained, one))


def test_slow_reservations_are_named() -> None:
    told = examine(_evidence(WELL, Second((Flow(intake=0.4),))))
    assert [one.cause for one in told.findings] == ["slow_intake"]
    assert "a reservation takes" in told.findings[0].evidence[0]


def test_a_batch_that_waits_to_fill_is_named() -> None:
    ill = Second((Flow(queue=0.4),), waiting=(("BATCH_WINDOW", 2),))
    told = examine(_evidence(WELL, ill))
    assert [one.cause for one in told.findings] == ["batch_window"]
    assert "`batch_wait_ms`" in told.findings[0].remedy


def test_a_tenant_that_asks_for_more_is_told_so() -> None:
    ill = Second((Flow(prompt=4_000, prefill=0.9), Flow("b")))
    told = of_tenant(_evidence(Second((Flow(), Flow("b"))), ill), "a", "b")
    assert [one.cause for one in told.findings] == ["own_requests"]
    assert any("tenant a is slower" in note for note in told.notes)


@pytest.mark.parametrize("wait", [1.0, 34.0], ids=["an idle machine", "a busy one"])
def test_others_on_the_device_are_told_by_the_waits_of_its_engine(wait: float) -> None:
    """On a busy machine nearly all of a step was waiting before too."""
    before = Second(workers=(Worker(wait=wait),))
    slow = Worker(step=80.0, wait=wait + 38, steps=10)
    told = examine(_evidence(before, Second((Flow(prefill=0.4, speed=20),), (slow,))))
    assert [one.cause for one in told.findings] == ["device_taken"]
    assert "end or move what else runs" in told.findings[0].remedy


def test_a_slower_device_alone_is_told_as_that() -> None:
    slow = Worker(step=80.0, steps=10)
    told = examine(_evidence(WELL, Second((Flow(prefill=0.4, speed=20),), (slow,))))
    assert [one.cause for one in told.findings] == ["device_taken"]
    assert "clock and temperature" in told.findings[0].remedy


BENIGN = {
    "twice the load, served well": (
        WELL,
        Second(
            (Flow(requests=8, in_flight=8, prefill=0.13, speed=38),),
            (Worker(step=52, rows=48, steps=19),),
        ),
    ),
    "half the load": (WELL, Second((Flow(requests=2, in_flight=2),), (Worker(rows=12),))),
    "a new tenant with long prompts": (
        WELL,
        Second(
            (Flow(), Flow("b", prompt=6_000, prefill=1.2, speed=30, output=5)),
        ),
    ),
    "a tenant with long prompts that asks more, and one that asks less": (
        Second((Flow(requests=8), Flow("b", requests=1, prompt=6_000, prefill=1.2, speed=30))),
        Second((Flow(requests=1), Flow("b", requests=8, prompt=6_000, prefill=1.2, speed=30))),
    ),
    "long jobs of another at night": (
        Second((Flow(requests=20, in_flight=20), Flow("b", requests=1, in_flight=1))),
        Second(
            (
                Flow(requests=1, in_flight=1),
                Flow(
                    "jobs", requests=2, prompt=8_000, prefill=2.0, queue=30, output=20, in_flight=40
                ),
            )
        ),
    ),
    "longer answers": (
        WELL,
        Second(
            (Flow(output=80, in_flight=16, prefill=0.13, speed=36),),
            (Worker(step=52, rows=48, steps=19),),
        ),
    ),
    "a tenant at its limit, of a gateway that has just started": (
        Second(()),
        Second((Flow(refused=6),)),
    ),
    "a new tenant at its limit": (WELL, Second((Flow(), Flow("b", refused=6)))),
}


@pytest.mark.parametrize("name", BENIGN)
def test_a_change_that_is_no_illness_is_not_told(name: str) -> None:
    before, after = BENIGN[name]
    assert examine(_evidence(before, after)).findings == []


def test_a_machine_that_stands_still_for_a_moment_is_not_ill() -> None:
    """Few seconds, so that the moment weighs much in the means; what lasts is seen in as few."""
    still = Second(
        (Flow(requests=6, prefill=1.5, speed=20, output=2, in_flight=8),),
        (Worker(steps=5, step=200, wait=120),),
    )
    samples = [*_samples(WELL, 10), *_samples(still, 2, first=11), *_samples(WELL, 4, first=13)]
    assert examine(split(samples, Stretch(6), Stretch(10))).findings == []
    lasts = [*_samples(WELL, 10), *_samples(still, 6, first=11)]
    assert examine(split(lasts, Stretch(6), Stretch(10))).findings


def test_a_slower_version_beside_the_usual_one_is_not_the_device() -> None:
    canary = Worker("w2", version="2", gpu="gpu-1", step=200.0, steps=5)
    assert "device_taken" not in _causes(
        _evidence(WELL, Second((Flow(prefill=0.4, speed=20),), (Worker(), canary)))
    )


def test_a_new_tenant_that_slows_others_is_felt() -> None:
    crowded = Second(
        (Flow(prefill=0.6, speed=15), Flow("b", prompt=6_000, prefill=1.2, speed=15)),
        (Worker(step=160, rows=600, steps=6),),
    )
    assert _causes(_evidence(WELL, crowded))[0] == "long_prompts"


def test_a_gateway_that_started_again_does_not_move_what_the_other_saw() -> None:
    long, short = (_samples(WELL, 60, first=1) for _ in range(2))
    told = merged([short[-5:], long])
    assert len(told) == 60
    assert sum(len(sample.flows) for sample in told[-5:]) == 10
    assert all(len(sample.flows) == 1 for sample in told[:-5])
    assert examine(split(told, Stretch(30), Stretch(30))).findings == []


def test_clocks_that_differ_or_are_set_do_not_matter() -> None:
    here, there = _samples(WELL, 60), _samples(WELL, 60, first=100_000)
    told = merged([here, there])
    assert [len(sample.flows) for sample in told] == [2] * 60
    jumped = [*_samples(WELL, 40), *_samples(WELL, 20, first=5_000)]
    evidence = split(jumped, Stretch(30), Stretch(30))
    assert (len(evidence.recent.samples), len(evidence.baseline.samples)) == (30, 30)


def test_samples_of_one_place_count_what_lives_once() -> None:
    coarse = _samples(WELL, 2)
    for sample in coarse:
        sample.duration.FromSeconds(60)
    told = merged([coarse, _samples(WELL, 10)])
    assert sum(flow.in_flight for flow in told[-1].flows) == 8
    assert sum(flow.arrivals for flow in told[-1].flows) == 44


def test_without_a_time_before_it_says_so() -> None:
    told = examine(split(_samples(WELL, 10), Stretch(30), Stretch(30)))
    assert told.findings == []
    assert any("0 before" in note for note in told.notes)
    assert examine(split([], Stretch(30), Stretch(30))).findings == []


def _causes(evidence: Evidence) -> list[str]:
    return [finding.cause for finding in examine(evidence).findings]


def _evidence(before: Second, after: Second) -> Evidence:
    return split(
        [*_samples(before, _S), *_samples(after, _S, first=_S + 1)], Stretch(_S), Stretch(_S)
    )


def _samples(second: Second, number: int, first: int = 1) -> list[HistorySample]:
    return [_sample(second, at) for at in range(first, first + number)]


def _sample(second: Second, at: int) -> HistorySample:
    sample = HistorySample(far_read=True)
    sample.end_time.FromSeconds(at)
    sample.duration.FromSeconds(1)
    sample.flows.extend(_flow(flow, at) for flow in second.flows)
    sample.workers.extend(_worker(worker) for worker in second.workers)
    pool = sample.pools.add().status
    pool.model, pool.live_workers = "m", len(second.workers)
    for reason, waiting in second.waiting:
        number = QueueReason.Value(f"QUEUE_REASON_{reason}")
        sample.depths.add(model="m", tenant_id="a", reason=number, waiting=int(waiting))
    return sample


def _flow(flow: Flow, at: int) -> RequestFlow:
    message = RequestFlow(
        tenant_id=flow.tenant,
        model="m",
        arrivals=flow.requests,
        prompt_tokens=flow.requests * flow.prompt,
        output_tokens=flow.requests * flow.output,
        in_flight=flow.in_flight,
    )
    message.ended.add(outcome="ok", count=flow.requests)
    if flow.refused:
        message.refused.add(limit_id="tenant/rps", limit_type="rps", count=flow.refused)
    # A tenth more or less from second to second.
    about = 1 + 0.1 * ((at % 3) - 1)
    values = {
        "ttft": about * (flow.intake + flow.queue + flow.prefill),
        "intake_time": about * flow.intake,
        "queue_time": about * flow.queue,
        "prefill_time": about * flow.prefill,
        "speed": about * flow.speed,
        "prompt_length": flow.prompt,
        "output_length": flow.output,
    }
    for name, value in values.items():
        tally = Tally()
        for _ in range(flow.requests):
            tally.add(value)
        getattr(message, name).CopyFrom(tally.message())
    return message


def _worker(worker: Worker) -> WorkerSample:
    message = WorkerSample()
    view, work = message.view, message.work
    view.state = worker.state
    view.registration.worker_id, view.registration.model = worker.name, "m"
    view.registration.model_version, view.registration.gpu_id = worker.version, worker.gpu
    view.parameters.max_batch_size = view.parameters.max_concurrent_requests = 4
    work.duration.FromSeconds(1)
    work.steps = worker.steps
    work.decode_tokens = worker.steps * 4
    work.prefill_tokens = worker.steps * (worker.rows - 4)
    work.decode_time.FromMicroseconds(round(worker.steps * worker.step * 1e3))
    work.processor_wait.FromMicroseconds(round(worker.steps * worker.wait * 1e3))
    return message
