"""What one step computes: time, context and fairness between decodes and prompts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import PagedFake, expected_output
from weir_core.clock import ManualClock
from weir_worker.engine.linear_fit import LinearFit
from weir_worker.engine.planner import LEAST_PREFILL, STRETCH
from weir_worker.engine.step_cost import StepCost, StepShape, chunk_context
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingState

# SmolLM2 in 8 bits on two cores, about: a step, a row, a row's attention to a token, and reading
# a token's KV, which the rows of a chunk share.
_STEP_US, _ROW_US, _ATTEND_US, _READ_US = 7_500.0, 180.0, 0.21, 0.88


class TimedFake(PagedFake):
    """Takes the time that a real step would: what it reads and what it computes."""

    clock: ManualClock | None = None

    def run(self, batch: ForwardBatch, states: list[SamplingState]) -> Samples:  # type: ignore[override]
        us = _STEP_US
        for piece in batch.slices:
            context = chunk_context(piece.start, piece.length)
            us += piece.length * _ROW_US + context * _ATTEND_US
            us += (piece.start + piece.length) * _READ_US
        if self.clock is not None:
            self.clock.advance_us(round(us))
        return super().run(batch, states)


def timed_driver(**fields: object) -> Driver:
    size, blocks = 16, 1_024
    fake = TimedFake(blocks, size)
    values: dict[str, object] = {"num_blocks": blocks, "block_size": size, "max_context": 16_384}
    driver = Driver(runner=fake, **{**values, **fields})  # type: ignore[arg-type]
    driver.fake = fake
    fake.clock = driver.clock
    return driver


def decode_beside_a_long_prompt(driver: Driver, length: int) -> tuple[list[int], list[int]]:
    """Gaps between tokens of 8 streams, before and while a long prompt is computed, us."""
    for index in range(8):
        driver.submit(f"s{index}", [97 + index] * 20, 3_000)
    for _ in range(40):
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


@pytest.mark.parametrize("max_step_us", [0, 25_000])
def test_decodes_are_not_stalled_by_a_long_prompt(max_step_us: int) -> None:
    driver = timed_driver(max_step_tokens=512, max_step_us=max_step_us)
    before, gaps = decode_beside_a_long_prompt(driver, 6_000)
    most_us = max_step_us or STRETCH * sorted(before)[10]
    assert max(gaps) < 1.1 * most_us
    assert sum(gaps) / len(gaps) > 0.85 * most_us, "as much of the prompt as the bound allows"
    chunks = [
        length for batch in driver.fake.batches for start, length in batch if start and length > 1
    ]
    assert min(chunks[:-2]) >= LEAST_PREFILL, "every prompt advances"
    assert sum(chunks[8:28]) > 2 * sum(chunks[-22:-2]), "chunks shrink as the context grows"
    assert driver.record("again").tokens == expected_output([120] * 6_000, 2)


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
        driver.submit(name, [97] * length, 40, tenant=name)
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
        assert driver.record(name).tokens == expected_output([97] * length, 40)


def test_the_cost_of_a_step_is_learned_from_steps() -> None:
    rng = random.Random(1)
    cost = StepCost()

    def truth(shape: StepShape) -> float:
        rows = shape.decodes + shape.prefills
        attended = shape.decode_context + shape.prefill_context
        read = shape.decode_context + shape.prefill_reads
        return _STEP_US + _ROW_US * rows + _ATTEND_US * attended + _READ_US * read

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
    assert fit.predict([1.0, 2.0, 3.0]) >= 0


@given(st.integers(0, 500), st.integers(1, 300))
def test_the_context_of_a_chunk_is_that_of_its_rows(start: int, length: int) -> None:
    rows = sum(position + 1 for position in range(start, start + length))
    assert chunk_context(start, length) == rows
