"""Faults that users hit in other engines; numbers are the rows of the list of cases."""

import pytest

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import expected_output
from weir_core.errors import Reason
from weir_worker.engine.commands import Preempt
from weir_worker.engine.events import FinishReason


def test_case_1_gauges_return_to_zero_when_everything_is_aborted() -> None:
    """vllm#22545: gauges froze at the last step before the abort."""
    driver = Driver(max_running=8)
    for index in range(12):
        driver.submit(f"r{index}", [97 + index] * 10, 100)
    for _ in range(4):
        output = driver.step()
    assert output.load.running == 8
    assert output.load.held_blocks > 0
    for index in range(12):
        driver.abort(f"r{index}")
    output = driver.step()
    load = output.load
    assert len(output.terminals) == 12
    assert (load.running, load.waiting, load.held_blocks, load.pending_prefill_tokens) == (0,) * 4
    assert load.counters.aborted == 12


def test_case_2_every_request_ends_once_and_counters_agree_with_terminals() -> None:
    """vllm#31503, #55634: counters and per-request records disagreed after disconnects."""
    driver = Driver(eos=(122,), num_blocks=32, max_step_tokens=24)
    for index in range(20):
        driver.submit(f"r{index}", [97 + index % 5] * (index + 1), 10 + index)
    driver.submit("rejected", [], 1)
    for step in range(40):
        if step % 4 == 3:
            driver.abort(f"r{step // 2}")
        driver.step()
    driver.run()
    terminals = [record.terminal for record in driver.records.values()]
    counters = driver.outputs[-1].load.counters
    by_reason = {
        reason: sum(t is not None and t.finish_reason is reason for t in terminals)
        for reason in FinishReason
    }
    assert counters.stopped == by_reason[FinishReason.STOP]
    assert counters.length == by_reason[FinishReason.LENGTH]
    assert counters.aborted == by_reason[FinishReason.ABORT]
    assert counters.rejected == by_reason[FinishReason.REJECTED] == 1
    assert counters.errors == 0
    used = [t.usage for t in terminals if t is not None]
    assert counters.generated_tokens == sum(usage.completion_tokens for usage in used)
    computed = sum(u.computed_prompt_tokens + u.recomputed_tokens for u in used)
    # Each token sampled but the last of a request is a row of a later step.
    decoded = sum(max(0, u.completion_tokens - 1) for u in used)
    rows = counters.prefill_tokens + counters.decode_tokens
    assert computed + decoded == rows


@pytest.mark.parametrize("when", range(6))
def test_case_3_books_balance_after_an_abort_at_any_moment(when: int) -> None:
    """sglang#6888: blocks leaked by an abort between match and allocation, or freed twice."""
    driver = Driver(num_blocks=10, max_step_tokens=16)
    shared = [97] * 12
    for index in range(6):
        driver.submit(f"r{index}", [*shared, 98 + index], 12, tenant_prefix_tokens=12)
    for _ in range(when):
        driver.step()
    for index in range(6):
        driver.abort(f"r{index}")
        driver.abort(f"r{index}")
        driver.engine.check_integrity()
    driver.run()


def test_case_4_next_turn_after_an_aborted_one_is_correct() -> None:
    """sglang#36475: an aborted turn lost the session's context."""
    driver = Driver()
    first = [97] * 9
    driver.submit("turn-1", first, 30, private_scope="s")
    for _ in range(4):
        driver.step()
    driver.abort("turn-1")
    driver.run()
    heard = driver.record("turn-1").tokens
    second = [*first, *heard, 100, 101]
    driver.submit("turn-2", second, 5, private_scope="s")
    driver.run()
    assert driver.record("turn-2").tokens == expected_output(second, 5)
    usage = driver.terminal("turn-2").usage
    assert usage.prompt_tokens == len(second)
    assert usage.cached_prompt_tokens == 12


def test_case_5_nothing_is_lost_or_repeated_when_memory_runs_out() -> None:
    """vllm#16832: truncated, doubled or repeated tokens after a pre-empted request resumed."""
    driver = Driver(num_blocks=9, block_size=4, max_step_tokens=16)
    for index in range(4):
        driver.submit(f"r{index}", [97 + index] * 6, 24)
    driver.run()
    assert sum(driver.terminal(f"r{index}").preemptions for index in range(4)) >= 3
    for index in range(4):
        record = driver.record(f"r{index}")
        assert record.tokens == expected_output([97 + index] * 6, 24)
        assert record.text == bytes(record.tokens).decode()
        assert len(record.prefilled) == 1


def test_case_6_state_of_a_request_survives_preemption_and_other_batches() -> None:
    """vllm PR#29071: per-request state was lost or mixed up on pre-emption."""
    driver = Driver(num_blocks=32)
    stop = bytes(expected_output([97, 98, 99], 9)[6:9]).decode()
    driver.submit("r", [97, 98, 99], 30, stop=[stop])
    for index in range(3):
        driver.submit(f"mate{index}", [100 + index] * 5, 20)
    for step in range(8):
        if step in (4, 7):
            driver.engine.apply(Preempt("r"))
        driver.step()
    driver.run()
    assert driver.record("r").text + stop == bytes(expected_output([97, 98, 99], 9)).decode()
    assert driver.reason("r") is FinishReason.STOP


def test_case_7_equal_prompts_in_one_batch_hit_nothing_that_is_not_computed() -> None:
    """nano-vllm PR#207: a same-batch hit read blocks that nobody had written yet."""
    driver = Driver(max_step_tokens=8, max_running=8)
    prompt = [97] * 17
    for index in range(4):
        driver.submit(f"r{index}", prompt, 4, tenant_prefix_tokens=17)
    driver.run()
    for index in range(4):
        assert driver.record(f"r{index}").tokens == expected_output(prompt, 4)


def test_case_8_content_of_another_tenant_is_never_served() -> None:
    """CVE-2025-25183: a predictable hash served another request's blocks."""
    driver = Driver()
    prompt = [97] * 13
    for tenant in ("acme", "globex", "acm", "e"):
        driver.submit(tenant, prompt, 3, tenant=tenant, tenant_prefix_tokens=13)
        driver.run()
        assert driver.terminal(tenant).usage.cached_prompt_tokens == 0


@pytest.mark.parametrize("stop", ["DEFGHIJ", "JK", "K"])
def test_case_9_nothing_of_a_split_stop_string_is_emitted(stop: str) -> None:
    """vllm#3574: pieces of the stop string were streamed before it matched."""
    driver = Driver()
    text = b"ABCDEFGHIJKLM"
    driver.fake.choose = lambda context: text[len(context) - 1]
    driver.submit("r", [1], 13, stop=[stop])
    driver.run()
    record = driver.record("r")
    position = text.decode().index(stop)
    assert record.text == text.decode()[:position]
    # Usage is exact at the token that completed the match.
    assert driver.terminal("r").usage.completion_tokens == position + len(stop)
    assert bytes(record.tokens) == text[: position + len(stop)]


@pytest.mark.parametrize("text", ["a😀b", "👩‍👩‍👧‍👦", "中文", "한국어", "é"])
def test_case_10_deltas_are_the_decoded_text_also_when_cut(text: str) -> None:
    """exo#1691: U+FFFD or half a character in deltas."""
    data = text.encode()
    for length in range(1, len(data) + 1):
        driver = Driver()
        driver.fake.choose = lambda context: data[len(context) - 1]
        driver.submit("r", [1], length)
        driver.run()
        assert driver.record("r").text == data[:length].decode(errors="replace")
        deltas = [delta.text for output in driver.outputs for delta in output.deltas]
        assert all("\ufffd" not in delta for delta in deltas[:-1])


def test_case_11_prompt_at_the_edge_of_the_context() -> None:
    """vllm#16445: off by one, and negative numbers in messages."""
    driver = Driver(max_context=16)
    for length in (15, 16, 17):
        driver.submit(f"r{length}", [97] * length, 100)
    driver.run()
    assert driver.reason("r15") is FinishReason.LENGTH
    assert driver.terminal("r15").usage.completion_tokens == 1
    for length in (16, 17):
        failure = driver.terminal(f"r{length}").failure
        assert failure is not None
        assert failure.reason is Reason.CONTEXT_LENGTH_EXCEEDED
        assert f"{length} tokens" in failure.message
        assert "15" in failure.message
        assert "-" not in failure.message


def test_case_12_what_never_fits_in_the_cache_is_refused_at_once() -> None:
    """vllm#39734: it waited for ever at the head of the queue and everyone behind it too."""
    driver = Driver(num_blocks=4, block_size=4)
    driver.submit("fits exactly", [97] * 12, 5)
    driver.submit("too large", [97] * 12, 6)
    driver.submit("prompt too large", [97] * 17, 1)
    driver.submit("behind", [97, 98], 3)
    driver.run()
    assert driver.record("fits exactly").tokens == expected_output([97] * 12, 5)
    assert driver.record("behind").tokens == expected_output([97, 98], 3)
    for request_id in ("too large", "prompt too large"):
        failure = driver.terminal(request_id).failure
        assert failure is not None
        assert failure.reason is Reason.REQUEST_TOO_LARGE
        assert "17" in failure.message
        assert "16" in failure.message
        assert "kv_memory_bytes" in failure.message


def test_case_15_preempted_requests_do_not_starve() -> None:
    """vllm#41951: pre-empted requests lost their place to newer ones."""
    driver = Driver(num_blocks=12, block_size=4, max_running=4)
    for index in range(4):
        driver.submit(f"old{index}", [97 + index] * 8, 16)
    for step in range(60):
        driver.submit(f"new{step}", [110] * 4, 4)
        driver.step()
    driver.run()
    for index in range(4):
        terminal = driver.terminal(f"old{index}")
        assert terminal.preemptions <= 6
        assert terminal.end_us < driver.terminal("new40").end_us


def test_case_16_long_prompt_stops_neither_decodes_nor_other_prefills() -> None:
    """FreeToken#483, sglang PR#34623: everything waited for one long prompt."""
    driver = Driver(num_blocks=512, max_step_tokens=16, max_running=8)
    driver.submit("decoding", [97, 98], 60)
    for _ in range(2):
        driver.step()
    driver.submit("long", [99] * 640, 4, tenant="hog")
    driver.step()
    driver.submit("short", [100] * 6, 4, tenant="acme")
    before = len(driver.record("decoding").tokens)
    for _ in range(10):
        driver.step()
    assert len(driver.record("decoding").tokens) == before + 10, "a token in every step"
    assert driver.reason("short") is FinishReason.LENGTH
    driver.run()
    assert driver.record("long").tokens == expected_output([99] * 640, 4)
    steps = [o for o in driver.outputs if o.load.step_tokens]
    assert max(output.load.step_tokens for output in steps) <= 16
