"""Sessions that had to leave the cache go on from the memory of the host."""

import random

import pytest

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import OverlappedFake, PagedFake, expected_output
from weir_worker.engine.commands import ReleaseSession
from weir_worker.engine.events import FinishReason, Usage
from weir_worker.kv import KvPolicy

BLOCKS, SIZE = 12, 4
POLICY = KvPolicy(session_ttl_ms=10_000)


def driver(host_blocks: int) -> Driver:
    return Driver(num_blocks=BLOCKS, block_size=SIZE, host_blocks=host_blocks)


def turn(
    driver: Driver, name: str, prompt: list[int], length: int = 3, tenant: str = "acme", **f: object
) -> list[int]:
    """A turn of the session `s` to its end; the conversation so far."""
    fields = {"private_scope": "s", "kv": POLICY, **f}
    driver.submit(name, prompt, length, tenant=tenant, **fields)
    driver.run()
    answer = driver.record(name).tokens
    assert answer == expected_output(prompt, length)[: len(answer)]
    return prompt + answer


def crowd(driver: Driver, name: str = "crowd") -> None:
    """A request of another tenant that needs every block."""
    prompt = [120] * (BLOCKS * SIZE - 2)
    driver.submit(name, prompt, 1, tenant="other")
    driver.run()


def usage(driver: Driver, name: str) -> Usage:
    return driver.terminal(name).usage


@pytest.mark.parametrize("asked", [7, 8, 9, 12])
def test_the_next_turn_finds_all_that_was_computed(asked: int) -> None:
    one = driver(BLOCKS)
    history = turn(one, "first", [97] * asked)
    crowd(one)
    assert one.kv.host_blocks == -(-(len(history) - 1) // SIZE)
    assert not one.kv.pinned_blocks
    turn(one, "next", [*history, 98, 99])
    assert usage(one, "next").cached_prompt_tokens == len(history) - 1
    assert one.kv.counters.restored == len(history) - 1
    assert one.kv.host_blocks == 0, "the turn is kept in the cache now"


def test_without_a_store_it_is_computed_again() -> None:
    one = driver(0)
    history = turn(one, "first", [97] * 9)
    crowd(one)
    turn(one, "next", [*history, 98])
    assert usage(one, "next").cached_prompt_tokens == 0


def test_an_edited_history_takes_what_is_common_to_the_token() -> None:
    one = driver(BLOCKS)
    history = turn(one, "first", [97] * 9)
    crowd(one)
    turn(one, "next", [*history[:6], 100, 100, 100])
    assert usage(one, "next").cached_prompt_tokens == 6


def test_a_failed_turn_leaves_the_last_one_in_the_store() -> None:
    one = driver(BLOCKS)
    history = turn(one, "first", [97] * 9)
    crowd(one)
    one.submit("broken", [*history, 98], 6, private_scope="s", kv=POLICY)
    one.step()
    one.abort("broken")
    one.run()
    assert one.reason("broken") is FinishReason.ABORT
    crowd(one, "crowd2")
    turn(one, "next", [*history, 98])
    assert usage(one, "next").cached_prompt_tokens == len(history) - 1


def test_another_tenant_with_the_same_session_finds_nothing() -> None:
    one = driver(BLOCKS)
    history = turn(one, "first", [97] * 9)
    crowd(one)
    turn(one, "stranger", [*history, 98], tenant="thief")
    assert usage(one, "stranger").cached_prompt_tokens == 0
    assert one.kv.counters.restored == 0


def test_a_session_that_is_released_or_too_old_gives_its_places_back() -> None:
    one = driver(BLOCKS)
    turn(one, "first", [97] * 9)
    crowd(one)
    assert one.kv.host_blocks
    one.engine.apply(ReleaseSession("acme", "s"))
    assert one.kv.host_blocks == 0
    turn(one, "second", [97] * 9)
    crowd(one, "crowd2")
    assert one.kv.host_blocks
    one.clock.advance_us(11_000_000)
    one.step()
    assert one.kv.host_blocks == 0
    one.assert_idle()


def test_the_store_is_shared_by_weight_and_the_longest_unused_goes_first() -> None:
    one = driver(8)
    for name in ("a", "b"):
        turn(one, f"small-{name}", [97] * 6, 2, private_scope=name)
    turn(one, "big", [98] * 14, 2, tenant="greedy", private_scope="big")
    crowd(one)
    # Two of two blocks each and one of four fill it; the next makes the greedy one give way.
    assert one.kv.host_blocks == 8
    turn(one, "small-c", [99] * 6, 2, private_scope="c")
    crowd(one, "crowd2")
    turn(one, "again-a", [*([97] * 6), 100], 1, private_scope="a")
    assert usage(one, "again-a").cached_prompt_tokens == 6
    turn(one, "again-big", [*([98] * 14), 100], 1, tenant="greedy", private_scope="big")
    assert usage(one, "again-big").cached_prompt_tokens == 0


def test_a_session_larger_than_the_store_is_given_up_and_no_other_for_it() -> None:
    one = driver(2)
    turn(one, "small", [97] * 6, 2, private_scope="small")
    crowd(one)
    assert one.kv.host_blocks == 2
    turn(one, "large", [98] * 14, 2, private_scope="large")
    crowd(one, "crowd2")
    assert one.kv.host_blocks == 2
    turn(one, "again", [*([97] * 6), 100], 1, private_scope="small")
    assert usage(one, "again").cached_prompt_tokens == 6


@pytest.mark.parametrize("seed", range(12))
def test_conversations_under_pressure_are_answered_as_if_alone(seed: int) -> None:
    """Turns at once, edited histories and aborts; every step the books are checked."""
    rng = random.Random(seed)
    runner = OverlappedFake(PagedFake(16, SIZE)) if seed % 2 else None
    one = Driver(num_blocks=16, block_size=SIZE, max_running=4, runner=runner, host_blocks=10)
    talks: dict[tuple[str, str], list[int]] = {}
    for serial in range(120):
        talk = rng.choice("abc"), rng.choice("st")
        past = talks.get(talk, [])[: rng.choice([40, 40, 40, 5])]
        prompt = [*past, *(rng.randrange(97, 99) for _ in range(rng.randrange(1, 7)))]
        prompt, name = prompt[:50], f"r{serial}"
        one.submit(name, prompt, 4, tenant=talk[0], private_scope=talk[1], kv=POLICY)
        if rng.random() < 0.2:
            one.step()
            one.abort(name)
        if rng.random() < 0.7:
            one.run()
        answer = one.record(name).tokens
        assert answer == expected_output(prompt, 4)[: len(answer)]
        talks[talk] = prompt + answer
    one.run()
    for serial in range(120):
        assert one.reason(f"r{serial}") in (FinishReason.LENGTH, FinishReason.ABORT)
    assert one.kv.counters.restored > 50
