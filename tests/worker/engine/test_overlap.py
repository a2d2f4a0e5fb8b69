"""Text of a step is made while the next one runs, and nothing but the time is another."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.engine.driver import Driver, Record
from tests.worker.engine.paged_fake import OverlappedFake, PagedFake, expected_output
from weir_worker.engine.events import FinishReason
from weir_worker.engine.null_folder import null_tokenizer
from weir_worker.text import detokenizer_factory
from weir_worker.text.detokenizer import Detokenizer

BLOCKS, SIZE = 64, 4
PROMPT = [97, 98, 99]
ANSWER = expected_output(PROMPT, 12)
TEXT = bytes(ANSWER).decode()


def overlapped() -> OverlappedFake:
    return OverlappedFake(PagedFake(BLOCKS, SIZE))


def record_of(driver: Driver, **asked: object) -> Record:
    driver.submit("r", PROMPT, 12, **asked)
    driver.run()
    return driver.record("r")


requests = st.lists(
    st.fixed_dictionaries(
        {
            "prompt": st.lists(st.integers(97, 100), min_size=1, max_size=2 * SIZE + 1),
            "length": st.integers(1, 12),
            "stop": st.lists(st.text("abcdefgh", min_size=1, max_size=2), max_size=2),
            "stop_token_ids": st.lists(st.integers(97, 122), max_size=2),
        }
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=80, deadline=None)
@given(requests)
def test_answers_ends_and_counts_are_those_of_steps_that_do_not_overlap(
    asked: list[dict[str, object]],
) -> None:
    plain, driver = Driver(), Driver(runner=overlapped())
    for one in (plain, driver):
        for index, fields in enumerate(asked):
            one.submit(f"r{index}", **fields)  # type: ignore[arg-type]
        one.run()
    for key, record in plain.records.items():
        other = driver.records[key]
        assert record.terminal is not None
        assert other.terminal is not None
        assert (other.tokens, other.text) == (record.tokens, record.text)
        assert other.terminal.finish_reason is record.terminal.finish_reason
        assert other.terminal.usage == record.terminal.usage


def test_a_token_drawn_after_a_stop_string_is_neither_told_nor_counted() -> None:
    runner = overlapped()
    record = record_of(Driver(runner=runner), stop=[TEXT[3:5]])
    assert (record.tokens, record.text) == (ANSWER[:5], TEXT[:3])
    assert record.terminal is not None
    assert record.terminal.finish_reason is FinishReason.STOP
    assert record.terminal.usage.completion_tokens == 5
    assert len(runner.fake.batches) == 6, "five tokens, and one that ran when the fifth was read"


@dataclass
class Watched:
    """Detokenisers that note whether a step ran when they were asked for text."""

    runner: OverlappedFake
    flown: list[bool] = field(default_factory=list)

    def open(self, prompt_token_ids: Sequence[int]) -> Detokenizer:
        made = detokenizer_factory(null_tokenizer()).open(prompt_token_ids)
        watched = self

        class Noting:
            def push(self, token_id: int) -> str:
                watched.flown.append(watched.runner.flying)
                return made.push(token_id)

            def flush(self) -> str:
                return made.flush()

        return Noting()


def test_all_text_but_the_last_is_made_while_a_step_runs() -> None:
    runner = overlapped()
    watched = Watched(runner)
    record = record_of(Driver(runner=runner, detokenizers=watched))
    assert record.text == TEXT
    assert watched.flown == [True] * 11 + [False]


def test_an_abort_between_two_steps_loses_no_text() -> None:
    driver = Driver(runner=overlapped())
    driver.submit("r", PROMPT, 12)
    for _ in range(4):
        driver.step()
    driver.abort("r")
    driver.run()
    record = driver.record("r")
    assert (record.tokens, record.text) == (ANSWER[:4], TEXT[:4])
    assert driver.reason("r") is FinishReason.ABORT


def test_a_step_that_cannot_be_started_loses_no_text_of_the_one_before() -> None:
    runner = overlapped()
    driver = Driver(runner=runner)
    driver.submit("r", PROMPT, 12)
    for _ in range(4):
        driver.step()
    runner.refuses = True
    driver.run()
    assert driver.record("r").text == TEXT[:4]
    assert driver.reason("r") is FinishReason.ERROR


def test_a_fault_of_one_text_ends_that_request_alone() -> None:
    class Faulty:
        def push(self, token_id: int) -> str:
            raise KeyError(token_id)

        def flush(self) -> str:
            return ""

    class FirstIsFaulty:
        def __init__(self) -> None:
            self.opened = 0

        def open(self, prompt_token_ids: Sequence[int]) -> Detokenizer:
            self.opened += 1
            if self.opened == 1:
                return Faulty()
            return detokenizer_factory(null_tokenizer()).open(prompt_token_ids)

    driver = Driver(runner=overlapped(), detokenizers=FirstIsFaulty())
    driver.submit("bad", PROMPT, 12)
    driver.submit("good", PROMPT, 12)
    driver.run()
    assert driver.reason("bad") is FinishReason.ERROR
    assert driver.record("good").text == TEXT
