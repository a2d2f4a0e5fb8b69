"""Attempts that end by themselves, wherever in the engine they are."""

import threading
from collections.abc import Iterator

import pytest

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import expected_output
from weir_core.errors import Reason
from weir_worker.engine.commands import ReleaseSession
from weir_worker.engine.deadlines import Deadlines
from weir_worker.engine.events import FinishReason
from weir_worker.sampling import Grammar
from weir_worker.sampling.constraint import Constraint
from weir_worker.sampling.grammar import GrammarKind

GRAMMAR = Grammar(GrammarKind.REGEX, "[a-z]*")


class Anything:
    """A constraint that lets everything follow."""

    problem = ""
    complete = False

    def allowed(self) -> bytes:
        return b"\xff" * 32

    def note(self, token_id: int) -> None:
        pass


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens the way for the compiler."""
    gate = threading.Event()
    yield gate
    gate.set()


def slow_driver(gate: threading.Event) -> Driver:
    def compile_grammar(tenant: str, grammar: Grammar) -> Constraint:
        assert gate.wait(10)
        return Anything()

    return Driver(compile_grammar=compile_grammar)


def test_a_request_whose_grammar_is_not_compiled_in_time_ends_in_time(
    gate: threading.Event,
) -> None:
    driver = slow_driver(gate)
    driver.submit("late", [97], 4, grammar=GRAMMAR, deadline_us=5_000)
    driver.submit("behind", [97], 4, grammar=GRAMMAR, deadline_us=9_000_000)
    driver.clock.advance_us(10_000)
    driver.step()
    failure = driver.terminal("late").failure
    assert failure is not None
    assert failure.reason is Reason.DEADLINE_EXCEEDED
    gate.set()
    driver.run()
    assert driver.record("behind").tokens == expected_output([97], 4)


def test_a_newer_attempt_without_a_grammar_takes_the_place_of_one_that_compiles(
    gate: threading.Event,
) -> None:
    driver = slow_driver(gate)
    driver.submit("r", [97], 4, grammar=GRAMMAR)
    driver.submit("r", [97], 4, attempt=2)
    gate.set()
    driver.run()
    superseded = driver.terminal("r", 1).failure
    assert superseded is not None
    assert superseded.reason is Reason.STALE_ATTEMPT
    assert driver.record("r", 2).tokens == expected_output([97], 4)


def test_a_session_released_while_a_grammar_is_compiled_keeps_nothing(
    gate: threading.Event,
) -> None:
    driver = slow_driver(gate)
    driver.submit("turn", [97] * 9, 4, grammar=GRAMMAR, private_scope="s")
    driver.engine.apply(ReleaseSession("acme", "s"))
    gate.set()
    driver.run()
    assert driver.reason("turn") is FinishReason.LENGTH
    assert driver.kv.pinned_blocks == 0


def test_far_deadlines_of_requests_that_ended_take_no_memory() -> None:
    driver = Driver()
    for index in range(400):
        driver.submit(f"r{index}", [97], 1, deadline_us=10**15)
        driver.step()
    driver.run()
    assert len(driver.engine._deadlines) <= 130


def test_a_sweep_loses_no_deadline_of_what_is_held() -> None:
    held: set[tuple[str, int]] = set()
    deadlines = Deadlines(lambda request_id, attempt: (request_id, attempt) in held)
    for index in range(1_000):
        if index % 3 == 0:
            held.add((f"r{index}", 1))
        deadlines.add(1_000_000 - index, f"r{index}", 1)
    assert len(deadlines) < 900
    due = deadlines.take_due(1_000_000)
    assert held <= set(due)
    assert due == sorted(due, key=lambda key: -int(key[0][1:]))
    assert len(deadlines) == 0
