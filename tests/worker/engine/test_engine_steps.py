"""The step loop over a cache whose every token is read back (see `paged_fake`)."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import expected_output
from weir_core.errors import Reason
from weir_worker.engine.commands import Preempt, SetLimits, Stop
from weir_worker.engine.events import FinishReason


def prompt_of(length: int, seed: int = 0) -> list[int]:
    rng = random.Random(f"{length}/{seed}")
    return [rng.randrange(97, 123) for _ in range(length)]


def assert_answers(driver: Driver, request_id: str, prompt: list[int], length: int) -> None:
    record = driver.record(request_id)
    assert record.tokens == expected_output(prompt, length)
    assert record.text == bytes(record.tokens).decode()
    usage = driver.terminal(request_id).usage
    assert usage.prompt_tokens == len(prompt)
    assert usage.completion_tokens == length
    assert len(record.prefilled) == 1


@pytest.mark.parametrize("chunk", [1, 2, 3, 16, 50, 0])
def test_same_answer_in_any_chunks(chunk: int) -> None:
    driver = Driver(max_prefill_chunk=chunk)
    prompts = {f"r{length}": prompt_of(length) for length in (1, 3, 4, 5, 31, 32, 33, 60)}
    for request_id, prompt in prompts.items():
        driver.submit(request_id, prompt, 9)
    driver.run()
    for request_id, prompt in prompts.items():
        assert_answers(driver, request_id, prompt, 9)
        assert driver.reason(request_id) is FinishReason.LENGTH
    longest = max(length for batch in driver.fake.batches for _, length in batch)
    assert not chunk or longest <= chunk


@pytest.mark.parametrize("prompt_length", range(1, 10))
@pytest.mark.parametrize("new_tokens", range(1, 10))
def test_lengths_around_block_edges(prompt_length: int, new_tokens: int) -> None:
    driver = Driver(num_blocks=5, block_size=4)
    prompt = prompt_of(prompt_length)
    driver.submit("r", prompt, new_tokens)
    driver.run()
    assert_answers(driver, "r", prompt, new_tokens)
    assert driver.fake.longest_table == math.ceil((prompt_length + new_tokens - 1) / 4), (
        "the last token has no KV"
    )


def test_step_never_exceeds_its_bound_and_decodes_come_first() -> None:
    driver = Driver(max_step_tokens=8, max_running=8, num_blocks=128)
    for index in range(8):
        driver.submit(f"r{index}", prompt_of(20, index), 12)
    driver.run()
    for batch in driver.fake.batches:
        assert sum(length for _, length in batch) <= 8
        ones = [length == 1 for _, length in batch]
        assert ones == sorted(ones, reverse=True) or sum(ones) < len(ones)
    for index in range(8):
        assert_answers(driver, f"r{index}", prompt_of(20, index), 12)


def test_waiting_requests_start_in_order_of_arrival() -> None:
    driver = Driver(num_blocks=8, max_running=16)
    for index in range(12):
        driver.submit(f"r{index:02}", prompt_of(10, index), 4)
    driver.run()
    ended = [t.request_id for output in driver.outputs for t in output.terminals]
    started = sorted(ended, key=lambda r: (driver.terminal(r).prefill_start_us, r))
    assert started == [f"r{index:02}" for index in range(12)]


def test_large_request_at_the_head_is_not_bypassed() -> None:
    driver = Driver(num_blocks=10, block_size=4)
    driver.submit("first", prompt_of(20), 8)
    driver.step()
    driver.submit("large", prompt_of(24, 1), 8)
    driver.submit("small", prompt_of(1, 2), 1)
    driver.run()
    assert driver.terminal("small").prefill_start_us >= driver.terminal("large").prefill_start_us


def test_watermark_counts_only_beside_others() -> None:
    driver = Driver(num_blocks=8, block_size=4, watermark_blocks=4)
    driver.submit("whole", prompt_of(25), 8)
    driver.submit("second", prompt_of(4, 1), 2)
    output = driver.step()
    assert (output.load.running, output.load.waiting) == (1, 1)
    driver.run()
    assert_answers(driver, "whole", prompt_of(25), 8)
    assert_answers(driver, "second", prompt_of(4, 1), 2)


def test_tenant_prefix_is_computed_once() -> None:
    driver = Driver()
    system = prompt_of(16)
    first, second = system + prompt_of(5, 1), system + prompt_of(6, 2)
    driver.submit("a", first, 4, tenant_prefix_tokens=16)
    driver.run()
    driver.submit("b", second, 4, tenant_prefix_tokens=16)
    driver.submit("other tenant", second, 4, tenant_prefix_tokens=16, tenant="globex")
    driver.run()
    assert driver.terminal("b").usage.cached_prompt_tokens == 16
    assert driver.terminal("b").usage.computed_prompt_tokens == 6
    assert driver.record("b").prefilled[0].cached_prompt_tokens == 16
    assert driver.terminal("other tenant").usage.cached_prompt_tokens == 0
    for request_id, prompt in (("a", first), ("b", second), ("other tenant", second)):
        assert_answers(driver, request_id, prompt, 4)


def test_whole_prompt_in_the_cache_still_computes_its_last_token() -> None:
    driver = Driver()
    prompt = prompt_of(16)
    for request_id, cached in (("a", 0), ("b", 12)):
        driver.submit(request_id, prompt, 3, tenant_prefix_tokens=16)
        driver.run()
        assert driver.terminal(request_id).usage.cached_prompt_tokens == cached
        assert_answers(driver, request_id, prompt, 3)


def test_private_tokens_are_found_by_their_session_alone() -> None:
    driver = Driver()
    turn = prompt_of(12)
    driver.submit("a", turn, 8, private_scope="s1")
    driver.run()
    history = turn + driver.record("a").tokens
    follow_up = [*history, *prompt_of(3, 5)]
    cached = {}
    for request_id, scope in (("same", "s1"), ("other", "s2"), ("none", ""), ("r", "request:a")):
        driver.submit(request_id, follow_up, 2, private_scope=scope)
        driver.run()
        cached[request_id] = driver.terminal(request_id).usage.cached_prompt_tokens
        assert_answers(driver, request_id, follow_up, 2)
    assert cached == {"same": 19, "other": 0, "none": 0, "r": 0}, "all but what was not computed"


def test_forced_preemption_changes_neither_answer_nor_charge() -> None:
    plain, drilled = Driver(), Driver()
    prompt = prompt_of(21)
    for driver in (plain, drilled):
        driver.submit("r", prompt, 20)
    plain.run()
    for step in range(200):
        if not drilled.engine.has_work():
            break
        if step % 3 == 2:
            drilled.engine.apply(Preempt("r"))
        drilled.step()
    drilled.run()
    assert_answers(drilled, "r", prompt, 20)
    assert drilled.record("r").text == plain.record("r").text
    terminal, undisturbed = drilled.terminal("r"), plain.terminal("r")
    assert terminal.preemptions >= 6
    assert terminal.usage.recomputed_tokens > 0
    assert terminal.usage.prompt_tokens == undisturbed.usage.prompt_tokens == 21
    assert terminal.usage.cached_prompt_tokens == undisturbed.usage.cached_prompt_tokens == 0


def test_preempted_request_finds_its_own_blocks() -> None:
    driver = Driver()
    driver.submit("r", prompt_of(16), 8)
    for _ in range(5):
        driver.step()
    driver.engine.apply(Preempt("r"))
    driver.run()
    assert driver.terminal("r").usage.recomputed_tokens < 4


def test_preempted_during_prefill_the_prompt_is_charged_once() -> None:
    driver = Driver(max_step_tokens=16)
    prompt = prompt_of(50)
    driver.submit("r", prompt, 3)
    for _ in range(2):
        driver.step()
    driver.engine.apply(Preempt("r"))
    driver.run()
    assert_answers(driver, "r", prompt, 3)
    usage = driver.terminal("r").usage
    assert (usage.cached_prompt_tokens, usage.computed_prompt_tokens) == (0, 50)


@pytest.mark.parametrize("num_blocks", [12, 16, 20])
def test_memory_pressure_changes_no_answer(num_blocks: int) -> None:
    driver = Driver(num_blocks=num_blocks, block_size=4, max_step_tokens=32)
    for index in range(10):
        driver.submit(f"r{index}", prompt_of(9, index), 24, tenant=f"t{index % 3}")
    driver.run()
    for index in range(10):
        assert_answers(driver, f"r{index}", prompt_of(9, index), 24)
    assert driver.outputs[-1].load.counters.preemptions > 0


def first_victim(driver: Driver) -> str:
    while not driver.engine.planner.preemptions:
        driver.step()
    return next(iter(driver.engine.planner.waiting)).request_id


def test_victim_is_the_newest_of_the_tenant_that_holds_most() -> None:
    driver = Driver(num_blocks=15, block_size=4)
    driver.submit("hog-0", prompt_of(12), 32, tenant="hog")
    driver.submit("small-0", prompt_of(8, 1), 24, tenant="small")
    driver.submit("hog-1", prompt_of(12, 2), 32, tenant="hog")
    driver.submit("hog-2", prompt_of(12, 3), 32, tenant="hog")
    driver.submit("small-1", prompt_of(4, 4), 24, tenant="small")
    assert first_victim(driver) == "hog-2"
    driver.run()


def test_oldest_is_never_preempted_even_when_its_tenant_holds_most() -> None:
    driver = Driver(num_blocks=10, block_size=4)
    driver.submit("hog", prompt_of(20), 16, tenant="hog", arrival_us=5)
    driver.submit("small", prompt_of(8, 1), 16, tenant="small")
    assert first_victim(driver) == "small"
    driver.run()
    assert driver.terminal("hog").preemptions == 0


def test_age_counts_from_the_first_arrival_at_a_gateway() -> None:
    driver = Driver(num_blocks=10, block_size=4)
    driver.submit("came later", prompt_of(12), 16, arrival_us=2_000)
    driver.submit("requeued", prompt_of(12, 1), 16, arrival_us=1_000)
    assert first_victim(driver) == "came later"
    driver.run()


def test_within_a_tenant_a_lower_priority_is_preempted_first() -> None:
    driver = Driver(num_blocks=12, block_size=4)
    driver.submit("oldest", prompt_of(8), 24)
    driver.submit("low", prompt_of(8, 1), 24, priority=0)
    driver.submit("high", prompt_of(8, 2), 24, priority=5)
    assert first_victim(driver) == "low"
    driver.run()


def test_preempted_requests_resume_before_new_ones() -> None:
    driver = Driver(num_blocks=9, block_size=4, max_running=3)
    driver.submit("a", prompt_of(8), 16)
    driver.submit("b", prompt_of(8, 1), 16)
    while not driver.engine.planner.preemptions:
        driver.step()
    driver.submit("new", prompt_of(4, 2), 4)
    driver.run()
    assert driver.terminal("new").first_token_us > driver.terminal("b").first_token_us
    assert driver.terminal("new").end_us >= driver.terminal("b").end_us - 10_000
    assert_answers(driver, "b", prompt_of(8, 1), 16)


@given(
    sizes=st.lists(st.tuples(st.integers(1, 12), st.integers(4, 24)), min_size=3, max_size=8),
    every=st.integers(1, 6),
)
@settings(max_examples=30, deadline=None)
def test_the_boost_of_a_preempted_request_is_its_age_and_no_more(
    sizes: list[tuple[int, int]], every: int
) -> None:
    """It resumes before all that came after it, and takes the place of none that came before.

    So the oldest always advances, and who is pre-empted again and again only waits for those
    that are older: their number falls.
    """
    driver = Driver(num_blocks=10, block_size=4, max_running=4)
    planner, steps = driver.engine.planner, 0
    left = list(enumerate(sizes))
    while left or planner.has_work():
        if left and steps % every == 0:
            index, (prompt, output) = left.pop(0)
            driver.submit(f"r{index}", prompt_of(prompt, index), output)
        driver.step()
        steps += 1
        waiting = [sequence.age for sequence in planner.waiting if sequence.preemptions]
        running = [sequence.age for sequence in planner.running]
        assert waiting == sorted(waiting)
        assert not waiting or not running or max(running) < min(waiting)
        assert steps < 2_000
    assert driver.terminal("r0").preemptions == 0


def test_no_admission_in_a_step_that_preempted() -> None:
    driver = Driver()
    driver.submit("r", prompt_of(8), 16)
    driver.step()
    driver.submit("new", prompt_of(8, 1), 16)
    driver.engine.apply(Preempt("r"))
    load = driver.step().load
    assert (load.running, load.waiting) == (0, 2), "there was room for both"
    load = driver.step().load
    assert (load.running, load.waiting) == (2, 0)


def test_what_another_request_computed_meanwhile_is_a_hit_and_charged_once() -> None:
    driver = Driver(max_step_tokens=18)
    prompt = prompt_of(41)
    driver.submit("fast", prompt, 2, tenant_prefix_tokens=40)
    driver.submit("slow", prompt, 2, tenant_prefix_tokens=40)
    driver.step()
    driver.engine.apply(Preempt("slow"))
    driver.run()
    usage = driver.terminal("slow").usage
    assert (usage.prompt_tokens, usage.cached_prompt_tokens) == (41, 15), "9 were computed before"
    assert usage.recomputed_tokens == 0
    assert_answers(driver, "slow", prompt, 2)


@pytest.mark.parametrize("when", range(12))
def test_abort_at_any_step_charges_exactly_what_ran(when: int) -> None:
    driver = Driver(max_step_tokens=8, max_running=4)
    prompt = prompt_of(20)
    driver.submit("r", prompt, 30)
    for _ in range(when):
        driver.step()
    rows = sum(length for batch in driver.fake.batches for _, length in batch)
    sampled = len(driver.record("r").tokens)
    driver.abort("r")
    output = driver.step()
    terminal = driver.terminal("r")
    assert terminal.finish_reason is FinishReason.ABORT
    assert terminal.failure is not None
    assert terminal.failure.reason is Reason.CANCELLED
    assert terminal.usage.prompt_tokens == min(rows, 20)
    assert terminal.usage.completion_tokens == sampled
    assert output.load.held_blocks == 0, "within one step"
    driver.abort("r")
    driver.run()


def test_text_held_back_goes_out_with_an_abort() -> None:
    driver = Driver()
    driver.fake.choose = lambda context: b"abcSTO"[len(context) - 3]
    driver.submit("r", [1, 2, 3], 30, stop=["STOP"])
    for _ in range(6):
        driver.step()
    assert driver.record("r").text == "abc"
    driver.abort("r")
    driver.run()
    assert driver.record("r").text == "abcSTO"


def test_abort_of_another_attempt_does_nothing() -> None:
    driver = Driver()
    driver.submit("r", prompt_of(4), 5, attempt=2)
    driver.abort("r", attempt=1)
    driver.abort("nobody")
    driver.run()
    assert driver.terminal("r", 2).finish_reason is FinishReason.LENGTH


def test_newer_attempt_supersedes_and_an_older_one_is_refused() -> None:
    driver = Driver()
    driver.submit("r", prompt_of(4), 9, attempt=2)
    driver.step()
    driver.submit("r", prompt_of(4), 9, attempt=1)
    driver.step()
    stale = driver.terminal("r", 1)
    assert stale.finish_reason is FinishReason.REJECTED
    assert stale.failure is not None
    assert stale.failure.reason is Reason.STALE_ATTEMPT
    driver.submit("r", prompt_of(4), 9, attempt=3)
    driver.run()
    assert driver.terminal("r", 2).finish_reason is FinishReason.ABORT
    assert driver.terminal("r", 3).finish_reason is FinishReason.LENGTH
    assert driver.record("r", 3).tokens == expected_output(prompt_of(4), 9)


def test_deadline_ends_running_and_waiting_requests() -> None:
    driver = Driver(max_running=1, num_blocks=256)
    driver.submit("running", prompt_of(4), 500, deadline_us=20_000)
    driver.submit("waiting", prompt_of(4), 500, deadline_us=10_000)
    driver.submit("free", prompt_of(4, 3), 4)
    driver.run()
    for request_id in ("running", "waiting"):
        failure = driver.terminal(request_id).failure
        assert failure is not None
        assert failure.reason is Reason.DEADLINE_EXCEEDED
        assert driver.reason(request_id) is FinishReason.ABORT
    assert driver.terminal("running").usage.completion_tokens == 19
    assert driver.terminal("waiting").usage.prompt_tokens == 0
    assert_answers(driver, "free", prompt_of(4, 3), 4)


def test_finish_order_is_eos_stop_ids_stop_strings_length() -> None:
    answer = b"hello world"

    def choose(context: object) -> int:
        return answer[len(context) - 2]  # type: ignore[arg-type]

    def finished(eos: tuple[int, ...] = (), **fields: object) -> tuple[str, int, FinishReason]:
        driver = Driver(eos=eos)
        driver.fake.choose = choose
        driver.submit("r", [1, 2], 5, **fields)
        driver.run()
        terminal = driver.terminal("r")
        text = driver.record("r").text
        return text, terminal.usage.completion_tokens, terminal.finish_reason

    stop, length = FinishReason.STOP, FinishReason.LENGTH
    assert finished() == ("hello", 5, length)
    assert finished(eos=(ord("l"),)) == ("he", 3, stop)
    assert finished(eos=(ord("l"),), ignore_eos=True) == ("hello", 5, length)
    assert finished(stop_token_ids=[ord("e")]) == ("h", 2, stop)
    assert finished(stop=["ell"]) == ("h", 4, stop)
    assert finished(stop=["lo"]) == ("hel", 5, stop)
    assert finished(eos=(ord("l"),), stop=["el"]) == ("he", 3, stop), "the id comes first"
    assert finished(stop=["low"]) == ("hello", 5, length), "held text comes out at the end"


def test_limits_can_change_while_it_runs() -> None:
    driver = Driver(max_step_tokens=64, max_running=4)
    for index in range(6):
        driver.submit(f"r{index}", prompt_of(8, index), 8)
    driver.step()
    driver.engine.apply(SetLimits(max_step_tokens=8, max_running=2))
    driver.engine.apply(SetLimits(max_step_tokens=1))
    assert driver.engine.planner.limits.max_step_tokens == 8, "1 is below max_running"
    driver.run()
    assert max(o.load.running for o in driver.outputs[8:]) <= 2
    for index in range(6):
        assert_answers(driver, f"r{index}", prompt_of(8, index), 8)


def test_stop_ends_everything_with_a_terminal() -> None:
    driver = Driver(max_running=2)
    for index in range(4):
        driver.submit(f"r{index}", prompt_of(8, index), 100)
    driver.step()
    driver.engine.apply(Stop("closing"))
    driver.step()
    driver.assert_idle()
    failure = driver.terminal("r3").failure
    assert failure is not None
    assert failure.reason is Reason.DRAINING


def test_times_are_in_order_and_every_prefill_is_reported_once() -> None:
    driver = Driver(max_step_tokens=16)
    for index in range(5):
        driver.submit(f"r{index}", prompt_of(30, index), 4)
    driver.run()
    for index in range(5):
        t = driver.terminal(f"r{index}")
        times = [t.received_us, t.prefill_start_us, t.prefill_end_us, t.first_token_us, t.end_us]
        assert times[0] > 0
        assert times == sorted(times)
        (prefilled,) = driver.record(f"r{index}").prefilled
        assert prefilled.prefill_end_us == t.prefill_end_us


def test_random_life_leaves_no_trace() -> None:
    """Random arrivals, aborts, pre-emptions and faults over a cache that is too small."""
    for seed in range(12):
        rng = random.Random(seed)
        driver = Driver(
            num_blocks=rng.choice([10, 14, 24]),
            block_size=4,
            max_step_tokens=rng.choice([8, 16, 40]),
            max_running=rng.choice([3, 8]),
            watermark_blocks=rng.choice([0, 1, 2]),
        )
        asked: dict[str, tuple[list[int], int]] = {}
        aborted: set[str] = set()
        for step in range(160):
            if step < 80 and rng.random() < 0.5:
                name = f"r{step}"
                shared = prompt_of(8, rng.randrange(2))
                asked[name] = (shared + prompt_of(rng.randrange(0, 12), step), rng.randrange(1, 14))
                driver.submit(
                    name,
                    *asked[name],
                    tenant=rng.choice("ab"),
                    tenant_prefix_tokens=rng.choice([0, 8]),
                    private_scope=rng.choice(["", "s"]),
                )
            if asked and rng.random() < 0.15:
                victim = rng.choice(list(asked))
                driver.abort(victim)
                aborted.add(victim)
            if asked and rng.random() < 0.15:
                driver.engine.apply(Preempt(rng.choice(list(asked))))
            driver.step()
        driver.run()
        for name, (prompt, length) in asked.items():
            answer = driver.record(name).tokens
            assert answer == expected_output(prompt, length)[: len(answer)]
            if name not in aborted:
                assert_answers(driver, name, prompt, length)
