"""Batch windows, against a model of what the contract says."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.support import GATEWAY, Bench, FixedRules, new_request
from weir_scheduler.queues.batch_window import window_us
from weir_scheduler.queues.entry import LatencySla, RequestClass, estimated_cost
from weir_scheduler.rules.rules import RequestRules, WorkerRules
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptUsage

BATCH, INTERACTIVE = RequestClass.BATCH, RequestClass.INTERACTIVE
SIZE, TOKENS, OFFLINE_TOKENS = 4, 100, 160
WAIT_US = 5_000

# C2: low is the shortest window, normal the model's, throughput longer; offline ten times that.
WINDOWS_US = {
    (LatencySla.LOW, INTERACTIVE): 2_000,
    (LatencySla.NORMAL, INTERACTIVE): 5_000,
    (LatencySla.THROUGHPUT, INTERACTIVE): 10_000,
    (LatencySla.LOW, BATCH): 20_000,
    (LatencySla.NORMAL, BATCH): 50_000,
    (LatencySla.THROUGHPUT, BATCH): 100_000,
}


@dataclass(frozen=True)
class Arrival:
    """A request: after the last one, how large, how patient."""

    gap_us: int
    cost: int
    sla: LatencySla

    @property
    def prompt_tokens(self) -> int:
        # With one token of output at alpha 0.5 the cost is a token more than the prompt.
        return self.cost - 1


ARRIVALS = st.lists(
    st.builds(
        Arrival, st.integers(0, 8_000), st.integers(2, TOKENS), st.sampled_from(list(LatencySla))
    ),
    min_size=1,
    max_size=14,
)


class Model:
    """An idle worker that ends each batch at once: the rule, in the words of the contract."""

    def __init__(self, request_class: RequestClass) -> None:
        self.request_class = request_class
        self.waiting: list[tuple[int, int, Arrival]] = []
        self.sent: dict[int, int] = {}
        self.batches: list[list[int]] = []

    def arrive(self, number: int, arrival: Arrival, now_us: int) -> None:
        closes_us = now_us + WINDOWS_US[arrival.sla, self.request_class]
        self.waiting.append((number, closes_us, arrival))
        self.flush(now_us)

    def next_close_us(self) -> int | None:
        return min((closes_us for _, closes_us, _ in self.waiting), default=None)

    def flush(self, now_us: int) -> None:
        while self.waiting:
            costs = [arrival.cost for _, _, arrival in self.waiting]
            # A request that would exceed a bound closes the window; one that reaches it fills it.
            full = len(costs) >= SIZE or not self.fits([a for _, _, a in self.waiting], spare=1)
            closes_us = self.next_close_us()
            assert closes_us is not None
            if not full and closes_us > now_us:
                return
            batch = 0
            while batch < min(SIZE, len(self.waiting)) and self.fits(
                [arrival for _, _, arrival in self.waiting[: batch + 1]]
            ):
                batch += 1
            self.batches.append([number for number, _, _ in self.waiting[:batch]])
            for number, _, _ in self.waiting[:batch]:
                self.sent[number] = now_us
            del self.waiting[:batch]

    def fits(self, arrivals: list[Arrival], spare: int = 0) -> bool:
        """Whether these may be one batch, with `spare` tokens left under each bound."""
        offline = self.request_class is BATCH
        tight = sum(a.cost for a in arrivals if not offline and a.sla is not LatencySla.THROUGHPUT)
        whole = sum(a.cost for a in arrivals)
        return tight + spare <= TOKENS and whole + spare <= OFFLINE_TOKENS


class Real:
    """The same arrivals at the scheduler."""

    def __init__(self, request_class: RequestClass, *, static: bool) -> None:
        rules = WorkerRules(SIZE, TOKENS, 512, 64, offline_max_batch_tokens=OFFLINE_TOKENS)
        self.bench = Bench(FixedRules(batch_wait_us=WAIT_US, workers=rules))
        self.bench.worker(static_batching=static)
        self.request_class = request_class
        self.started_us = self.bench.clock.monotonic_us()
        self.sent: dict[int, int] = {}
        self.batches: list[list[int]] = []

    def arrive(self, number: int, arrival: Arrival) -> None:
        request = new_request(
            str(number),
            prompt_tokens=arrival.prompt_tokens,
            max_new_tokens=1,
            latency_sla=arrival.sla,
            request_class=self.request_class,
        )
        self.bench.scheduler.enqueue(GATEWAY, request)
        self.pump()

    def until(self, at_us: int) -> None:
        """Pumps at each moment at which the scheduler wants to be."""
        bench = self.bench
        while True:
            wake_us = bench.scheduler.next_wake_us()
            now_us = bench.clock.monotonic_us()
            if wake_us is None or wake_us > self.started_us + at_us:
                bench.clock.advance_us(self.started_us + at_us - now_us)
                return
            bench.clock.advance_us(max(0, wake_us - now_us))
            self.pump()

    def pump(self) -> None:
        bench = self.bench
        bench.scheduler.pump()
        while len(self.sent) < len(bench.out.dispatches):
            batch = bench.out.dispatches[len(self.sent) :]
            numbers = [int(dispatch.key.request_id) for dispatch in batch]
            self.batches.append(numbers)
            now_us = bench.clock.monotonic_us() - self.started_us
            self.sent.update(dict.fromkeys(numbers, now_us))
            # All of it ends at once: the worker is idle again.
            usage = AttemptUsage(prompt_tokens=1, completion_tokens=1)
            bench.report(finished=[AttemptEnd(dispatch.key, usage) for dispatch in batch])


@settings(max_examples=80, deadline=None)
@given(arrivals=ARRIVALS, request_class=st.sampled_from(list(RequestClass)), static=st.booleans())
def test_a_window_closes_as_the_model_says(
    arrivals: list[Arrival], request_class: RequestClass, static: bool
) -> None:
    model, real = Model(request_class), Real(request_class, static=static)
    now_us = 0
    for number, arrival in enumerate(arrivals):
        now_us += arrival.gap_us
        while (close_us := model.next_close_us()) is not None and close_us <= now_us:
            model.flush(close_us)
        real.until(now_us)
        model.arrive(number, arrival, now_us)
        real.arrive(number, arrival)
    while (close_us := model.next_close_us()) is not None:
        model.flush(close_us)
    real.until(now_us + 200_000)
    assert real.batches == model.batches
    assert real.sent == model.sent


def test_the_request_that_does_not_fit_opens_the_next_window() -> None:
    bench = Bench(FixedRules(batch_wait_us=5_000, workers=WorkerRules(64, 40, 512, 64)))
    bench.worker("w1")
    bench.worker("w2")
    bench.enqueue("a", prompt_tokens=29, max_new_tokens=2)
    bench.clock.advance_us(3_000)
    bench.enqueue("b", prompt_tokens=29, max_new_tokens=2)
    assert bench.dispatched_ids() == ["a"]
    bench.clock.advance_us(4_999)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["a"]
    bench.clock.advance_us(1)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["a", "b"]


def test_on_a_static_worker_one_class_does_not_close_the_others_window() -> None:
    bench = Bench(FixedRules(batch_wait_us=5_000))
    bench.worker(static_batching=True)
    bench.enqueue("offline", request_class=BATCH)
    bench.enqueue("now")
    bench.clock.advance_us(5_000)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["now"]
    bench.end(bench.out.dispatches[0])
    assert bench.dispatched_ids() == ["now"]
    bench.clock.advance_us(45_000)
    bench.scheduler.pump()
    assert bench.dispatched_ids() == ["now", "offline"]


def test_offline_work_fills_a_larger_batch_and_leaves_interactive_its_own_bound() -> None:
    rules = WorkerRules(64, 100, 512, 64, offline_max_batch_tokens=200)
    bench = Bench(FixedRules(workers=rules))
    bench.worker()
    for number in range(3):
        bench.enqueue(f"b{number}", prompt_tokens=49, max_new_tokens=2, request_class=BATCH)
    assert bench.dispatched_ids() == ["b0", "b1", "b2"]
    bench.enqueue("i0", prompt_tokens=49, max_new_tokens=2)
    bench.enqueue("i1", prompt_tokens=49, max_new_tokens=2)
    assert bench.dispatched_ids() == ["b0", "b1", "b2", "i0"]
    bench.enqueue("large", prompt_tokens=149, max_new_tokens=2, request_class=BATCH)
    bench.enqueue("too_large", prompt_tokens=149, max_new_tokens=2)
    [(request_id, cause)] = bench.out.rejections
    assert request_id == "too_large"
    assert "max_batch_tokens is 100" in cause.message


@pytest.mark.parametrize(("sla", "request_class"), list(WINDOWS_US))
def test_priority_does_not_change_the_window(sla: LatencySla, request_class: RequestClass) -> None:
    rules = RequestRules(500, 5_000, 1, 1)
    bench = Bench(FixedRules(batch_wait_us=5_000, policy="priority"))
    for priority in (0, 100):
        bench.enqueue(
            f"p{priority}", priority=priority, latency_sla=sla, request_class=request_class
        )
    windows = {window_us(record.entry, rules) for record in bench.scheduler.queued()}
    assert windows == {WINDOWS_US[sla, request_class]}


def test_the_cost_of_the_model_is_that_of_the_scheduler() -> None:
    assert estimated_cost(Arrival(0, 40, LatencySla.LOW).prompt_tokens, 1, 500) == 40
