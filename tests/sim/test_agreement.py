"""A simulated engine does what the product's engine does: the same load, step by step.

The real engine runs on a clock that its runner advances, by a cost that the simulator does not
know: it is fitted from the steps of that run.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.sim.loads import COST, request
from weir_core.clock import ManualClock
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_sim.core.events import Events
from weir_sim.core.service_meter import ServiceMeter
from weir_sim.cost.fitted import MeasuredStep, fit_linear
from weir_sim.cost.linear import LinearCost
from weir_sim.fleet.engine import Engine, new_engine
from weir_sim.fleet.sequence import SimSequence
from weir_sim.fleet.step_rules import chunk_context
from weir_sim.setup import WorkerSpec
from weir_sim.workload import SimRequest
from weir_worker.engine.commands import Submit
from weir_worker.engine.engine import Engine as RealEngine
from weir_worker.engine.intake import ServedModel
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.null_folder import null_tokenizer
from weir_worker.engine.null_model import NullRunner
from weir_worker.kv import KvManager
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingParams, SamplingState
from weir_worker.text import detokenizer_factory

BLOCK = 16
RUNNING = 32


class TimedRunner(NullRunner):
    """Computes nothing, in a time of its own; notes every step."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.steps: list[MeasuredStep] = []

    def run(self, batch: ForwardBatch, states: Sequence[SamplingState]) -> Samples:
        decodes = [s.start + 1 for s in batch.slices if s.length == 1]
        chunks = [(s.start, s.length) for s in batch.slices if s.length > 1]
        shape = (
            sum(length for _, length in chunks),
            sum(chunk_context(start, length) for start, length in chunks),
            len(decodes),
            sum(decodes),
        )
        us = round(COST.step_s(*shape) * 1e6)
        self._clock.advance_us(us)
        self.steps.append(MeasuredStep(*shape, seconds=us / 1e6))
        return super().run(batch, states)


@dataclass
class Course:
    """What became of a load."""

    first_us: dict[str, int] = field(default_factory=dict)
    end_us: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    preemptions: int = 0
    recomputed: int = 0


def load(seed: int) -> list[SimRequest]:
    rng = random.Random(seed)
    at_s, requests = 0.0, []
    for index in range(40):
        at_s += rng.expovariate(3.0)
        requests.append(
            request(
                f"r{index}",
                at_s,
                tenant_id=rng.choice(["a", "b"]),
                prompt_tokens=min(1_500, max(2, int(rng.lognormvariate(5.5, 1.0)))),
                output_tokens=min(300, max(1, int(rng.lognormvariate(3.5, 0.8)))),
            )
        )
    return requests


def really(requests: list[SimRequest], blocks: int, max_step_us: int) -> tuple[Course, LinearCost]:
    """Through the product's engine."""
    clock = ManualClock()
    runner = TimedRunner(clock)
    kv = KvManager(blocks, BLOCK)
    limits = StepLimits(512, RUNNING, watermark_blocks=int(blocks * 0.01), max_step_us=max_step_us)
    engine = RealEngine(
        ServedModel("null", 256, 100_000, ()),
        runner,
        kv,
        detokenizer_factory(null_tokenizer()),
        limits,
        clock,
    )
    course, begin_us, left = Course(), clock.monotonic_us(), list(requests)
    while left or engine.has_work():
        if not engine.has_work():
            wait_us = round(left[0].arrival_s * 1e6) - (clock.monotonic_us() - begin_us)
            clock.advance_us(max(0, wait_us))
        while left and round(left[0].arrival_s * 1e6) <= clock.monotonic_us() - begin_us:
            engine.apply(submit(left.pop(0)))
        output = engine.step()
        now_us = clock.monotonic_us() - begin_us
        for delta in output.deltas:
            course.first_us.setdefault(delta.request_id, now_us)
        for terminal in output.terminals:
            course.end_us[terminal.request_id] = now_us
            course.recomputed += terminal.usage.recomputed_tokens
    course.steps = len(runner.steps)
    course.preemptions = engine.planner.preemptions
    return course, fit_linear(runner.steps)


def submit(one: SimRequest) -> Submit:
    rng = random.Random(one.request_id)
    return Submit(
        request_id=one.request_id,
        attempt=1,
        tenant=one.tenant_id,
        prompt_token_ids=[rng.randrange(97, 122) for _ in range(one.prompt_tokens)],
        max_new_tokens=one.output_tokens,
        sampling=SamplingParams(temperature=0.0),
        ignore_eos=True,
    )


class Watcher:
    """Notes what a simulated engine says."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.course = Course()

    def first_token(self, sequence: SimSequence) -> None:
        self.course.first_us[sequence.key.request_id] = self._events.now_us

    def prefilled(self, sequence: SimSequence) -> bool:
        return False

    def ended(self, sequence: SimSequence, *, completed: bool) -> None:
        assert completed
        self.course.end_us[sequence.key.request_id] = self._events.now_us

    def stepped(self) -> None:
        pass


def simulated(
    requests: list[SimRequest], blocks: int, max_step_s: float, cost: LinearCost
) -> Course:
    """Through the simulator's engine."""
    events = Events()
    watcher = Watcher(events)
    spec = WorkerSpec(
        kv_blocks=blocks,
        block_size=BLOCK,
        max_batch_size=RUNNING,
        max_step_tokens=512,
        max_step_s=max_step_s,
    )
    engine: Engine = new_engine(spec, 64, cost, events, ServiceMeter(Bounds()), watcher)
    for age, one in enumerate(requests):
        sequence = SimSequence(AttemptKey(one.request_id, 1), one, 1, age)
        events.at(round(one.arrival_s * 1e6), lambda s=sequence: engine.submit(s))  # type: ignore[misc]
    while (at_us := events.next_us()) is not None:
        events.advance(at_us)
        events.run_due()
    course = watcher.course
    course.steps, course.preemptions = engine.steps, engine.preemptions
    course.recomputed = engine.recomputed_tokens
    return course


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("blocks", [4_000, 130])
def test_steps_and_order_agree_with_the_products_engine(seed: int, blocks: int) -> None:
    """Without a bound on time: no rule depends on what has been learned."""
    requests = load(seed)
    real, cost = really(requests, blocks, max_step_us=10**9)
    ours = simulated(requests, blocks, 1_000.0, cost)
    assert (real.preemptions > 0) == (blocks == 130)
    assert ours.steps == pytest.approx(real.steps, rel=0.03)
    assert ours.preemptions == pytest.approx(real.preemptions, rel=0.25, abs=1)
    assert in_order(ours.first_us, real.first_us) >= 0.97
    assert in_order(ours.end_us, real.end_us) >= 0.95
    assert mean(ours.end_us) == pytest.approx(mean(real.end_us), rel=0.03)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_bound_on_a_steps_time_agrees_where_the_engine_has_learned_it(seed: int) -> None:
    requests = load(seed)
    real, cost = really(requests, 4_000, max_step_us=0)
    ours = simulated(requests, 4_000, 0.0, cost)
    assert ours.steps == pytest.approx(real.steps, rel=0.1)
    assert in_order(ours.first_us, real.first_us) >= 0.95
    assert mean(ours.end_us) == pytest.approx(mean(real.end_us), rel=0.05)


def test_the_fitted_cost_is_the_one_that_the_engine_ran_at() -> None:
    _, cost = really(load(3), 4_000, max_step_us=10**9)
    for shape in ((512, 200_000, 0, 0), (0, 0, 16, 4_000), (300, 60_000, 8, 3_000)):
        assert cost.step_s(*shape) == pytest.approx(COST.step_s(*shape), rel=0.05)


def in_order(ours: dict[str, int], real: dict[str, int]) -> float:
    """Share of pairs that come in the same order in both."""
    names = sorted(real)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    same = sum((ours[a] - ours[b]) * (real[a] - real[b]) >= 0 for a, b in pairs)
    return same / len(pairs)


def mean(moments: dict[str, int]) -> float:
    return sum(moments.values()) / len(moments)
