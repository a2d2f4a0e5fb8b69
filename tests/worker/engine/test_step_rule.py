"""What one step computes: time, context and fairness between decodes and prompts."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import PagedFake, expected_output
from weir_core.clock import ManualClock
from weir_worker.engine.linear_fit import LinearFit, product
from weir_worker.engine.planner import LEAST_PREFILL, LEAST_STRETCH, STRETCH
from weir_worker.engine.step_cost import StepCost, StepShape, chunk_context
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingState


@dataclass(frozen=True)
class Machine:
    """Microseconds of a step, a row, a row's attention to a token, and reading a token's KV,
    which the rows of a chunk share."""

    step: float
    row: float
    attend: float
    read: float

    def step_us(self, pieces: Iterable[tuple[int, int]]) -> float:
        """From (start, length) of each sequence."""
        us = self.step
        for start, length in pieces:
            us += length * self.row + chunk_context(start, length) * self.attend
            us += (start + length) * self.read
        return us


# SmolLM2 in 8 bits on two cores, about.
_CPU = Machine(4_200, 180, 0.18, 0.55)
_MACHINES = {
    "cpu": _CPU,
    "rows are dear": Machine(20_000, 1_200, 0.1, 0.1),
    "rows are cheap": Machine(5_000, 20, 0.02, 0.02),
    "reading is dear": Machine(10_000, 50, 0.02, 1.6),
}


class TimedFake(PagedFake):
    """Takes the time that a real step would: what it reads and what it computes."""

    clock: ManualClock | None = None
    machine = _CPU

    def run(self, batch: ForwardBatch, states: list[SamplingState]) -> Samples:  # type: ignore[override]
        if self.clock is not None:
            us = self.machine.step_us((piece.start, piece.length) for piece in batch.slices)
            self.clock.advance_us(round(us))
        return super().run(batch, states)


def timed_driver(machine: Machine = _CPU, **fields: object) -> Driver:
    size, blocks = 16, 2_048
    fake = TimedFake(blocks, size)
    fake.machine = machine
    values: dict[str, object] = {"num_blocks": blocks, "block_size": size, "max_context": 16_384}
    driver = Driver(runner=fake, **{**values, **fields})  # type: ignore[arg-type]
    driver.fake = fake
    fake.clock = driver.clock
    return driver


def decodes_of(batch: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of (start, length) that are no chunks of prompts."""
    return [(start, length) for start, length in batch if length == 1]


def least_us(machine: Machine, batch: Sequence[tuple[int, int]]) -> float:
    """What its decodes take with the least prefill that is always run, one prompt's."""
    chunks = [(start, LEAST_PREFILL) for start, length in batch if length > 1]
    return machine.step_us([*decodes_of(batch), *chunks[:1]])


def decode_beside_a_long_prompt(driver: Driver, length: int) -> tuple[list[int], list[int]]:
    """Gaps between tokens of 8 streams, before and while a long prompt is computed, us."""
    for index in range(8):
        driver.submit(f"s{index}", [97 + index] * 20, 3_000)
    for _ in range(300):
        driver.step()
    gaps: list[int] = []
    before: list[int] = []
    driver.submit("long", [120] * length, 2, tenant="other")
    for into in (before, gaps):
        if into is before:
            driver.abort("long")
            driver.step()
        else:
            driver.submit("again", [120] * length, 2, tenant="other")
        for _ in range(2_000):
            started = driver.clock.monotonic_us()
            driver.step()
            into.append(driver.clock.monotonic_us() - started)
            if into is before and len(into) == 20:
                break
            if into is gaps and driver.record("again").terminal is not None:
                break
        else:
            raise AssertionError("the prompt never ends")
    return before, gaps


@pytest.mark.parametrize(
    ("machine", "max_step_us"), [("cpu", 35_000), *((name, 0) for name in _MACHINES)]
)
def test_decodes_are_not_stalled_by_a_long_prompt(machine: str, max_step_us: int) -> None:
    driver = timed_driver(_MACHINES[machine], max_step_tokens=512, max_step_us=max_step_us)
    before, gaps = decode_beside_a_long_prompt(driver, 6_000)
    most_us = max_step_us or STRETCH * sorted(before)[10]
    took = _MACHINES[machine]
    for gap, batch in zip(gaps, driver.fake.batches[-len(gaps) :], strict=True):
        grown_us = 0.0 if max_step_us else LEAST_STRETCH * took.step_us(decodes_of(batch))
        assert gap < 1.08 * max(most_us, grown_us, least_us(took, batch))
    assert sum(gaps) / len(gaps) > 0.8 * most_us, "as much of the prompt as the bound allows"
    chunks = [
        length for batch in driver.fake.batches for start, length in batch if start and length > 1
    ]
    assert min(chunks[:-2]) >= LEAST_PREFILL, "every prompt advances"
    quarter = len(chunks) // 4
    assert sum(chunks[quarter : quarter + 9]) > sum(chunks[-11:-2]), "chunks shrink as it grows"
    assert driver.record("again").tokens == expected_output([120] * 6_000, 2)


@pytest.mark.parametrize("every_us", [1_500_000, 400_000], ids=["steady", "overload"])
def test_with_prompts_all_the_time_neither_decodes_nor_prompts_starve(every_us: int) -> None:
    driver = timed_driver(max_step_tokens=512, max_running=32)
    for index in range(8):
        driver.submit(f"s{index}", [97 + index] * 20, 2_500)
    for _ in range(40):
        driver.step()
    begin, count = len(driver.fake.batches), 12
    start_us = driver.clock.monotonic_us()
    first_us: dict[str, int] = {}
    sent = 0
    while len(first_us) < count:
        while sent < count and driver.clock.monotonic_us() >= start_us + sent * every_us:
            driver.submit(f"p{sent}", [98 + sent] * 1_500, 20, tenant=f"t{sent % 3}")
            sent += 1
        output = driver.step()
        now_us = driver.clock.monotonic_us() - start_us
        first_us |= {p.request_id: now_us for p in output.prefilled}
        assert now_us < 60_000_000, "a prompt starves"
    for batch in driver.fake.batches[begin:]:
        assert [length for _, length in batch[:8]] == [1] * 8, "a decode is left out"
        most_us = max(STRETCH * _CPU.step_us(decodes_of(batch)), least_us(_CPU, batch))
        assert _CPU.step_us(batch) < 1.15 * most_us
    # The whole work is done at the rate at which one prompt after the other would be.
    waited = max(at_us - place * every_us for place, at_us in enumerate(first_us.values()))
    assert waited < (6_000_000 if every_us > 1_000_000 else count * 2_000_000)


def test_a_prompt_that_begins_late_is_not_believed_to_be_cheap() -> None:
    """Behind a cached prefix few rows read much, of which nothing was seen."""
    driver = timed_driver(max_step_tokens=512)
    driver.submit("first", [120] * 5_000, 1, tenant_prefix_tokens=5_000)
    driver.run()
    driver.engine.planner.cost = StepCost()
    for index in range(8):
        driver.submit(f"s{index}", [97 + index] * 20, 400)
    for _ in range(40):
        driver.step()
    median = _CPU.step_us(driver.fake.batches[-1])
    begin = len(driver.fake.batches)
    driver.submit("late", [120] * 5_000 + [121] * 600, 2, tenant_prefix_tokens=5_000)
    while driver.record("late").terminal is None:
        driver.step()
    starts = [batch[8][0] for batch in driver.fake.batches[begin:] if len(batch) > 8]
    assert starts[0] > 4_900, "the prefix was found"
    for batch in driver.fake.batches[begin:]:
        assert _CPU.step_us(batch) < 1.15 * max(STRETCH * median, least_us(_CPU, batch))


def test_without_decodes_prefill_takes_the_whole_step() -> None:
    driver = timed_driver(max_step_tokens=512, max_step_us=1_000)
    driver.submit("long", [120] * 2_048, 2)
    for _ in range(4):
        driver.step()
    assert [batch[0] for batch in driver.fake.batches] == [(n * 512, 512) for n in range(4)]


def test_prefill_advances_however_dear_it_is() -> None:
    driver = timed_driver(max_step_tokens=512, max_step_us=1)
    driver.submit("decoding", [97], 400)
    driver.step()
    driver.submit("long", [120] * 640, 2)
    for _ in range(640 // LEAST_PREFILL + 2):
        driver.step()
    assert driver.record("long").terminal is not None


def test_prompts_of_more_tenants_than_rows_take_turns() -> None:
    driver = timed_driver(max_step_tokens=512, max_step_us=1)
    driver.submit("decoding", [97], 400)
    driver.step()
    for index in range(9):
        driver.submit(f"long{index}", [120 + index] * 400, 2, tenant=f"t{index}")
    driver.submit("short", [98] * 10, 2, tenant="small")
    for _ in range(10 * (2 + 10 // LEAST_PREFILL)):
        driver.step()
    assert driver.record("short").terminal is not None


def test_decodes_over_the_context_bound_take_turns() -> None:
    driver = timed_driver(max_step_tokens=512, max_step_context_tokens=700)
    lengths = {"a": 300, "b": 300, "c": 300, "d": 20, "huge": 900}
    for name, length in lengths.items():
        driver.submit(name, [97] * length, 200, tenant=name)
    while any(not driver.record(name).prefilled for name in lengths):
        driver.step()
    start = {name: len(driver.record(name).tokens) for name in lengths}
    batches = len(driver.fake.batches)
    for _ in range(20):
        driver.step()
    for batch in driver.fake.batches[batches:]:
        context = sum(start + 1 for start, _ in batch)
        assert context <= 700 or len(batch) == 1
    gained = {name: len(driver.record(name).tokens) - start[name] for name in lengths}
    assert min(gained.values()) >= 20 // 3 - 1, "nobody waits for more than the others' turns"
    driver.run()
    for name, length in lengths.items():
        assert driver.record(name).tokens == expected_output([97] * length, 200)


def test_the_cost_of_a_step_is_learned_from_steps() -> None:
    rng = random.Random(1)
    cost = StepCost()

    def truth(shape: StepShape) -> float:
        rows = shape.decodes + shape.prefills
        attended = shape.decode_context + shape.prefill_context
        read = shape.decode_context + shape.prefill_reads
        return _CPU.step + _CPU.row * rows + _CPU.attend * attended + _CPU.read * read

    def shape(chunk: int) -> StepShape:
        decodes = [rng.randrange(1, 2_000) for _ in range(rng.randrange(0, 16))]
        return StepShape.of(decodes, [(rng.randrange(0, 6_000), chunk)])

    for step in range(300):
        seen = shape(rng.choice([0, 16, 64, 200]))
        noise = rng.uniform(0.95, 1.05) * (30 if step % 50 == 49 else 1)
        cost.observe(seen, round(truth(seen) * noise))
    for _ in range(1_000):
        cost.observe(StepShape.of([500] * 8), round(truth(StepShape.of([500] * 8))))
    for chunk in (16, 64, 200, 400):
        for _ in range(20):
            asked = shape(chunk)
            assert cost.predict_us(asked) == pytest.approx(truth(asked), rel=0.25)


@given(
    st.lists(
        st.tuples(st.lists(st.floats(0, 10), min_size=3, max_size=3), st.floats(-5, 1e6)),
        max_size=40,
    )
)
def test_a_fit_never_predicts_less_than_nothing(
    samples: list[tuple[list[float], float]],
) -> None:
    fit = LinearFit(3)
    for features, value in samples:
        fit.observe(features, value)
    assert all(coefficient >= 0 for coefficient in fit.coefficients())
    assert product(fit.coefficients(), [1.0, 2.0, 3.0]) >= 0


@given(st.integers(0, 500), st.integers(1, 300))
def test_the_context_of_a_chunk_is_that_of_its_rows(start: int, length: int) -> None:
    rows = sum(position + 1 for position in range(start, start + length))
    assert chunk_context(start, length) == rows
