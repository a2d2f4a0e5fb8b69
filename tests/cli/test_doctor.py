"""What the doctor says of samples: faults, too few requests, and remedies that name real knobs."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import weir
from weir.gateway.v1.history_service_pb2 import (
    Distribution,
    HistorySample,
    OutcomeCount,
    WorkerWork,
)
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason
from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.examination import examine
from weir_cli.doctor.finding import Finding, Symptom, Verdict
from weir_cli.doctor.looking import merged
from weir_cli.doctor.report import verdict_json, verdict_text
from weir_cli.doctor.splitting import split
from weir_cli.doctor.statistics import FEWEST, joined, median, quantile, shift
from weir_cli.doctor.stretch import Stretch
from weir_cli.doctor.tenant import of_tenant
from weir_gateway.history.distribution import Tally

ROOT = Path(__file__).parents[2]
Ill = Callable[[HistorySample], None]


def _scheduler_away(sample: HistorySample) -> None:
    sample.parts.scheduler_error = "SCHEDULER_UNAVAILABLE: the scheduler cannot be reached"
    del sample.pools[:]
    del sample.workers[:]


def _no_worker(sample: HistorySample) -> None:
    sample.pools[0].status.live_workers = 0
    sample.depths.add(
        model="m", tenant_id="a", reason=QueueReason.QUEUE_REASON_NO_WORKER, waiting=7
    )


def _suspect(sample: HistorySample) -> None:
    sample.workers[0].view.state = "suspect"
    sample.workers[0].view.state_reason = "no report for 4 s"


def _frozen(sample: HistorySample) -> None:
    sample.workers[0].view.load.step_age.FromSeconds(9)


def _ledger_late(sample: HistorySample) -> None:
    sample.parts.ledger.outbox_events = 12
    sample.parts.ledger.outbox_age_ms = 90_000


def _degraded(sample: HistorySample) -> None:
    sample.parts.ratelimiter_degraded = True


def _ratelimiter_away(sample: HistorySample) -> None:
    sample.parts.ratelimiter_error = "LIMITER_UNAVAILABLE: the ratelimiter cannot be reached"


def _failing(sample: HistorySample) -> None:
    sample.flows[0].ended.append(OutcomeCount(outcome="error", count=2))


FAULTS: dict[str, Ill] = {
    "scheduler_away": _scheduler_away,
    "ratelimiter_away": _ratelimiter_away,
    "no_worker": _no_worker,
    "worker_suspect": _suspect,
    "worker_frozen": _frozen,
    "ledger_lag": _ledger_late,
    "degraded_store": _degraded,
    "requests_error": _failing,
}


@pytest.mark.parametrize("cause", FAULTS)
def test_a_fault_is_told_first_and_alone(cause: str) -> None:
    told = examine(_evidence(FAULTS[cause]))
    assert [finding.cause for finding in told.findings] == [cause]
    assert told.findings[0].remedy


def _idle_at_zero(sample: HistorySample) -> None:
    sample.pools[0].status.live_workers = 0
    sample.pools[0].min_workers = 0
    del sample.workers[:]


def test_a_pool_that_may_have_no_worker_is_ill_only_while_something_waits() -> None:
    evidence = _evidence(_idle_at_zero, requests=0)
    assert examine(evidence).findings == []
    for sample in evidence.recent.samples:
        sample.pools[0].status.queues.add().waiting = 3
    (told,) = examine(evidence).findings
    assert told.cause == "no_worker"
    assert told.evidence == (
        "no worker of model m takes work, of 0 that are known; 3 requests wait for one",
        "`min_workers` is 0 of pool main",
    )
    assert "`min_workers` of the pool, now 0" in told.remedy


def test_a_pool_that_must_have_a_worker_is_ill_without_one() -> None:
    evidence = _evidence(_idle_at_zero, requests=0)
    for sample in evidence.recent.samples:
        sample.pools[0].min_workers = 1
    assert [one.cause for one in examine(evidence).findings] == ["no_worker"]
    for sample in evidence.recent.samples:
        sample.pools[0].ClearField("min_workers")
    assert [one.cause for one in examine(evidence).findings] == ["no_worker"]


@pytest.mark.parametrize("cause", ["scheduler_away", "ratelimiter_away", "worker_suspect"])
def test_what_one_look_alone_saw_is_no_fault_yet(cause: str) -> None:
    evidence = _evidence()
    FAULTS[cause](evidence.recent.samples[-1])
    assert examine(evidence).findings == []
    FAULTS[cause](evidence.recent.samples[-2])
    assert [finding.cause for finding in examine(evidence).findings] == [cause]


def test_a_worker_that_was_suspect_and_is_lost_is_told_at_once() -> None:
    evidence = _evidence()
    for sample, state in zip(evidence.recent.samples[-2:], ("suspect", "lost"), strict=True):
        sample.workers[0].view.state = state
    assert examine(evidence).findings[0].cause == "worker_lost"


def test_of_one_look_the_one_before_is_of_the_time_before() -> None:
    evidence = _evidence(_suspect, seconds=1)
    assert examine(evidence).findings == []
    _suspect(evidence.baseline.samples[-1])
    assert [finding.cause for finding in examine(evidence).findings] == ["worker_suspect"]


def test_a_fault_that_has_passed_is_not_told() -> None:
    evidence = _evidence()
    for sample in evidence.baseline.samples:
        _suspect(sample)
    assert examine(evidence).findings == []


def test_of_few_requests_nothing_is_said() -> None:
    evidence = _evidence(requests=1, seconds=FEWEST - 1, ttft=9.0)
    told = examine(evidence)
    assert told.findings == []
    assert any("not enough requests to tell: 19 answered recently" in note for note in told.notes)
    of_a = of_tenant(evidence, "a")
    assert of_a.findings == []
    assert "not enough requests of tenant a to tell: 19 recently" in of_a.notes[0]
    nobody = of_tenant(evidence, "nobody")
    assert "none of tenant nobody was seen" in nobody.notes[0]


def test_a_tenant_that_its_own_rate_refuses_is_told_so_however_little_was_answered() -> None:
    def refused(sample: HistorySample) -> None:
        flow = sample.flows.add(tenant_id="a")  # refused before it was known which model it names
        flow.refused.add(limit_id="tenant:a/rpm", knob="limit `rpm` of plan small", count=1)

    told = of_tenant(_evidence(refused, requests=0, seconds=30), "a")
    assert [finding.cause for finding in told.findings] == ["own_limit"]
    assert told.findings[0].evidence == ("its own limits refused 30 of 30 requests: tenant:a/rpm",)
    assert told.findings[0].remedy == "limit `rpm` of plan small"


def test_a_rise_without_a_known_cause_is_told_as_such() -> None:
    told = examine(_evidence(ttft=2.0))
    assert [finding.cause for finding in told.findings] == ["unknown"]
    assert "first token came after" in told.findings[0].evidence[0]


def test_steps_that_wait_for_a_processor_are_told_with_who_takes_it() -> None:
    def taken(sample: HistorySample) -> None:
        work = sample.workers[0].work
        work.decode_time.FromMilliseconds(900)
        work.processor_wait.FromMilliseconds(500)

    told = examine(_evidence(taken, ttft=2.0))
    assert [finding.cause for finding in told.findings] == ["device_taken"]
    assert "waits 25.0 ms for a processor in each step" in told.findings[0].evidence[1]


def test_chance_is_no_rise() -> None:
    """A hundred pairs of windows of the same spread: none is told to differ."""
    dice = random.Random(4)
    alarms = 0
    for _ in range(100):
        before, after = (_tally([dice.lognormvariate(0, 1) for _ in range(40)]) for _ in range(2))
        alarms += abs(shift(before, after)) >= 3.3
    assert alarms == 0


def test_a_shift_of_half_as_much_again_is_seen_in_two_hundred_requests() -> None:
    dice = random.Random(4)
    before = _tally([dice.lognormvariate(0, 0.5) for _ in range(200)])
    after = _tally([1.5 * dice.lognormvariate(0, 0.5) for _ in range(200)])
    assert shift(before, after) > 3.3
    assert shift(after, before) == pytest.approx(-shift(before, after))
    few = _tally([9.0] * (FEWEST - 1))
    assert shift(before, few) == 0


def test_quantiles_are_those_of_the_buckets() -> None:
    values = _tally([float(number) for number in range(1, 1_001)])
    for share in (0.1, 0.5, 0.95):
        assert quantile(values, share) == pytest.approx(1_000 * share, rel=0.1)
    assert median(Distribution()) == 0
    assert joined([values, values]).count == 2_000


def test_gateways_are_looked_at_as_one() -> None:
    one, other = ([_sample(second) for second in range(1, 4)] for _ in range(2))
    both = merged([one, other])
    assert [len(sample.flows) for sample in both] == [2, 2, 2]
    assert len(both[0].workers) == 1


def test_the_report_is_for_a_person_or_a_program() -> None:
    finding = Finding("queue_grew", Symptom.TTFT, 0.82, ("4.0 requests wait",), "add workers", "m")
    verdict = Verdict([finding], ["m: later"])
    text = verdict_text(verdict, "looked at 5 s")
    assert "1. queue_grew (m): first token later, explains 82%" in text
    assert "Remedy: add workers" in text
    told = json.loads(verdict_json(verdict, "looked at 5 s"))
    assert told["healthy"] is False
    assert told["findings"][0]["share"] == 0.82
    assert "Nothing is wrong" in verdict_text(Verdict(), "looked at 5 s")


def test_without_a_gateway_it_could_not_look() -> None:
    secret = "of-an-administrator-0123456789abcdef"
    ended = weir("doctor", "--address", "127.0.0.1:1", WEIR_ADMIN_SECRET=secret)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "cannot be reached" in ended.stderr
    for arguments in (("tenant",), ("ttft", "acme"), ("--since", "30h"), ("--since", "0s")):
        assert weir("doctor", *arguments).returncode == 2


def test_remedies_name_knobs_that_exist() -> None:
    """Each name in backquotes is a field of a contract, of settings, or a command."""
    sources = "\n".join(
        path.read_text()
        for folder in ("protos", "services", "cli/weir_cli/commands", "cli/weir_cli/app.py")
        for path in _files(ROOT / folder)
    )
    doctor = "\n".join(path.read_text() for path in _files(ROOT / "cli/weir_cli/doctor"))
    named = set(re.findall(r"`([a-z][a-z_.]+)(?:: [a-z{]|`)", doctor))
    knobs = {name for name in named if "_" in name}
    assert len(knobs) > 15
    missing = {name for name in knobs if name.rpartition(".")[2] not in sources}
    assert missing == set()
    for command in set(re.findall(r"`weir ([a-z]+)", doctor)):
        assert re.search(rf'(command\("{command}"\)|name="{command}")', sources), command


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return [one for one in found if one.suffix in (".py", ".proto")]


def _evidence(
    ill: Ill = lambda _: None, *, requests: int = 4, seconds: int = 30, ttft: float = 0.1
) -> Evidence:
    """Two windows of a healthy deployment, the newer one as `ill` and `ttft` make it."""
    before = [_sample(second, requests=4) for second in range(1, 31)]
    after = [_sample(second, requests=requests, ttft=ttft) for second in range(31, 31 + seconds)]
    for sample in after:
        ill(sample)
    return split([*before, *after], Stretch(seconds), Stretch(30))


def _sample(second: int, *, requests: int = 4, ttft: float = 0.1) -> HistorySample:
    sample = HistorySample(far_read=True)
    sample.end_time.FromSeconds(second)
    sample.duration.FromSeconds(1)
    flow = sample.flows.add(
        tenant_id="a", model="m", arrivals=requests, output_tokens=40, in_flight=2
    )
    flow.ended.add(outcome="ok", count=requests)
    flow.ttft.CopyFrom(_tally([ttft] * requests))
    flow.prefill_time.CopyFrom(_tally([ttft] * requests))
    sample.pools.add().status.model = "m"
    sample.pools[0].status.pool = "main"
    sample.pools[0].status.live_workers = 1
    worker = sample.workers.add()
    worker.view.state = "ready"
    worker.view.registration.model = "m"
    worker.view.registration.worker_id = "w1"
    worker.work.MergeFrom(WorkerWork(steps=20, decode_tokens=40))
    worker.work.decode_time.FromMilliseconds(400)
    worker.work.processor_wait.FromMilliseconds(0)
    sample.parts.ledger.outbox_most = 1_000
    return sample


def _tally(values: list[float]) -> Distribution:
    tally = Tally()
    for value in values:
        tally.add(value)
    return tally.message()
