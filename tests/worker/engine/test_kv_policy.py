"""Tenants in one cache: quotas, shares, sessions, age. What one does, no other notices."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.engine.driver import Driver
from tests.worker.engine.paged_fake import expected_output
from weir_core.errors import Reason
from weir_worker.engine.commands import Preempt, ReleaseSession
from weir_worker.engine.events import FinishReason
from weir_worker.engine.victims import choose_victim
from weir_worker.kv import KvPolicy

SIZE = 4
MINUTE_US = 60_000_000
HOG = KvPolicy(max_tokens=32)


def prompt_of(length: int, seed: int = 0) -> list[int]:
    rng = random.Random(f"{length}/{seed}")
    return [rng.randrange(97, 123) for _ in range(length)]


def account(driver: Driver, tenant: str) -> tuple[int, int, int]:
    """Running, pinned and cached blocks."""
    for one in driver.kv.accounts():
        if one.tenant == tenant:
            return one.running, one.pinned, len(one.cached)
    return 0, 0, 0


def turn(driver: Driver, name: str, prompt: list[int], length: int = 6, **fields: object) -> int:
    """A whole turn of session s; returns the prompt tokens that were found."""
    driver.submit(name, prompt, length, **{"private_scope": "s", **fields})
    driver.run()
    assert driver.record(name).tokens == expected_output(prompt, length)
    return driver.terminal(name).usage.cached_prompt_tokens


# Quotas


def test_what_never_fits_the_quota_is_refused_at_once_with_the_numbers() -> None:
    driver = Driver(num_blocks=64, block_size=SIZE)
    driver.submit("fits", prompt_of(25), 8, kv=HOG)
    driver.submit("over", prompt_of(25), 9, kv=HOG)
    driver.run()
    assert driver.reason("fits") is FinishReason.LENGTH
    failure = driver.terminal("over").failure
    assert failure is not None
    assert failure.reason is Reason.REQUEST_TOO_LARGE
    for word in ("33", "32", "kv.max_tokens"):
        assert word in failure.message
    assert failure.metadata == {"needed_tokens": "33", "kv_quota_tokens": "32"}


def test_a_tenant_at_its_quota_waits_and_holds_up_nobody() -> None:
    driver = Driver(num_blocks=64, block_size=SIZE)
    for index in range(4):
        driver.submit(f"hog{index}", prompt_of(20, index), 12, tenant="hog", kv=HOG)
    driver.submit("small", prompt_of(8, 9), 4, tenant="small")
    load = driver.step().load
    assert (load.running, load.waiting) == (2, 3)
    driver.run()
    assert driver.terminal("small").first_token_us < driver.terminal("hog1").first_token_us
    ends = [driver.terminal(f"hog{index}").end_us for index in range(4)]
    assert ends == sorted(ends), "in order within the tenant"
    assert driver.terminal("small").preemptions == 0


def test_growth_past_the_quota_preempts_the_tenants_own_newest() -> None:
    driver = Driver(num_blocks=64, block_size=SIZE)
    driver.submit("old", prompt_of(8), 24, tenant="hog", kv=HOG)
    driver.submit("new", prompt_of(8, 1), 24, tenant="hog", kv=HOG)
    driver.submit("other", prompt_of(40, 2), 24, tenant="other")
    while driver.engine.has_work():
        driver.step()
        assert account(driver, "hog")[0] <= 32 // SIZE
    assert driver.terminal("old").preemptions == driver.terminal("other").preemptions == 0
    assert driver.terminal("new").preemptions > 0
    for name, seed in (("old", 0), ("new", 1)):
        assert driver.record(name).tokens == expected_output(prompt_of(8, seed), 24)


def test_own_sessions_yield_to_the_tenants_quota() -> None:
    driver = Driver(num_blocks=64, block_size=SIZE)
    turn(driver, "first", prompt_of(10), tenant="hog", kv=HOG)
    turn(driver, "apart", prompt_of(10, 1), tenant="other")
    assert account(driver, "hog")[1] == account(driver, "other")[1] == 4
    driver.submit("big", prompt_of(24, 2), 9, tenant="hog", kv=HOG)
    driver.step()
    assert account(driver, "hog")[:2] == (7, 0) or account(driver, "hog")[:2] == (6, 0)
    assert account(driver, "other")[1] == 4
    driver.run()


# Shares


def test_cached_blocks_go_first_from_the_tenant_most_over_its_share() -> None:
    driver = Driver(num_blocks=24, block_size=SIZE)
    shared = {"tenant_prefix_tokens": 32}
    heavy = KvPolicy(weight=3)
    driver.submit("a", prompt_of(32), 1, tenant="light", **shared)
    driver.submit("b", prompt_of(32, 1), 1, tenant="heavy", kv=heavy, **shared)
    driver.run()
    assert account(driver, "light")[2] == account(driver, "heavy")[2] == 8
    driver.submit("c", prompt_of(48, 2), 1, tenant="third", kv=heavy)
    driver.run()
    # 12 blocks: 8 free ones, then of the tenant with the most for its weight.
    assert account(driver, "heavy")[2] == 8
    assert account(driver, "light")[2] == 4
    driver.submit("again", prompt_of(32), 1, tenant="light", **shared)
    driver.run()
    assert driver.terminal("again").usage.cached_prompt_tokens == 16, "its chain lost its end"


def test_the_victim_is_of_the_tenant_most_over_its_weighted_share() -> None:
    driver = Driver(num_blocks=64, block_size=SIZE)
    driver.submit("oldest", prompt_of(4), 30, tenant="first")
    driver.submit("paid", prompt_of(40), 30, tenant="paid", kv=KvPolicy(weight=10))
    driver.submit("free0", prompt_of(12), 30, tenant="free")
    driver.submit("free1", prompt_of(4), 30, tenant="free")
    driver.step()
    victim = choose_victim(driver.engine.planner.running)
    assert victim is not None
    assert victim.request_id == "free1", "40 / 10 is less than 16 / 1; the newest"
    driver.run()


def test_cached_blocks_come_of_age() -> None:
    driver = Driver(block_size=SIZE, cache_ttl_us=10 * MINUTE_US)
    driver.submit("a", prompt_of(16), 1, tenant_prefix_tokens=16)
    driver.run()
    driver.clock.advance_us(9 * MINUTE_US)
    driver.submit("b", prompt_of(16), 1, tenant_prefix_tokens=16)
    driver.run()
    assert driver.terminal("b").usage.cached_prompt_tokens == 12, "and young again"
    driver.clock.advance_us(9 * MINUTE_US)
    driver.step()
    assert account(driver, "acme")[2] == 4, "the last block too, although it was computed again"
    driver.clock.advance_us(2 * MINUTE_US)
    driver.step()
    assert account(driver, "acme") == (0, 0, 0)
    assert driver.kv.counters.evictions == 4


def test_a_tenant_that_opted_in_shares_past_its_declared_prefix() -> None:
    driver = Driver(block_size=SIZE)
    sharing = KvPolicy(share_private=True)
    driver.submit("a", prompt_of(16), 8, kv=sharing)
    driver.run()
    whole = prompt_of(16) + driver.record("a").tokens
    for name, fields, found in (
        ("b", {"kv": sharing}, 20),
        ("not opted in", {}, 0),
        ("other", {"kv": sharing, "tenant": "other"}, 0),
    ):
        driver.submit(name, [*whole, 100], 2, **fields)
        driver.run()
        assert driver.terminal(name).usage.cached_prompt_tokens == found


# Sessions


@pytest.mark.parametrize("length", [SIZE - 1, SIZE, SIZE + 1, 2 * SIZE, 2 * SIZE + 1])
@pytest.mark.parametrize("new_tokens", [1, 3, 4, 5])
def test_the_next_turn_finds_everything_that_was_computed(length: int, new_tokens: int) -> None:
    driver = Driver(block_size=SIZE)
    history = prompt_of(length)
    for number in range(4):
        computed = len(history) if number else 0
        found = turn(driver, f"t{number}", [*history, *prompt_of(2, number)], new_tokens)
        assert found == max(0, computed - 1), "all but the token that ended the last turn"
        history += [*prompt_of(2, number), *driver.record(f"t{number}").tokens]
    assert account(driver, "acme")[1] == -(-(len(history) - 1) // SIZE)


def test_a_changed_history_is_computed_from_where_it_differs() -> None:
    driver = Driver(block_size=SIZE)
    turn(driver, "t0", prompt_of(14))
    edited = prompt_of(14)
    edited[10] = 99 if edited[10] != 99 else 98
    assert turn(driver, "t1", [*edited, 100, 101]) == 8
    assert turn(driver, "t2", [*prompt_of(14), 100]) in (8, 12), "the first branch may live on"


def test_a_failed_turn_leaves_the_last_one_as_it_was() -> None:
    driver = Driver(block_size=SIZE)
    turn(driver, "t0", prompt_of(9))
    history = prompt_of(9) + driver.record("t0").tokens
    for attempt in range(3):
        driver.submit(f"bad{attempt}", [*history, *prompt_of(7, attempt)], 30, private_scope="s")
        for _ in range(6):
            driver.step()
        driver.abort(f"bad{attempt}")
        driver.run()
    assert turn(driver, "t1", [*history, 120, 121]) == len(history) - 1


def test_two_turns_at_once_do_not_disturb_each_other() -> None:
    driver = Driver(block_size=SIZE)
    turn(driver, "t0", prompt_of(9))
    history = prompt_of(9) + driver.record("t0").tokens
    for name, last in (("x", 100), ("y", 101)):
        driver.submit(name, [*history, last], 9, private_scope="s")
    driver.run()
    found = [driver.terminal(name).usage.cached_prompt_tokens for name in "xy"]
    assert found == [len(history) - 1, (len(history) - 1) // SIZE * SIZE], "one took the tail"
    for name, last in (("x", 100), ("y", 101)):
        assert driver.record(name).tokens == expected_output([*history, last], 9)


def test_an_idle_session_ends_and_each_request_renews_it() -> None:
    driver = Driver(block_size=SIZE)
    history = prompt_of(9)
    for number in range(3):
        turn(driver, f"t{number}", history)
        history += [*driver.record(f"t{number}").tokens, 100]
        driver.clock.advance_us(14 * MINUTE_US)
        driver.step()
        assert account(driver, "acme")[1]
    driver.clock.advance_us(MINUTE_US)
    driver.step()
    assert account(driver, "acme")[1] == 0


def test_sessions_yield_before_a_request_is_preempted_and_are_computed_again() -> None:
    driver = Driver(num_blocks=16, block_size=SIZE)
    for name, tenant in (("a", "one"), ("b", "two")):
        turn(driver, name, prompt_of(14, ord(name)), tenant=tenant, private_scope=name)
    assert driver.kv.pinned_blocks == 10
    driver.submit("big", prompt_of(32), 24, tenant="three")
    driver.run()
    assert driver.terminal("big").preemptions == 0
    assert driver.record("big").tokens == expected_output(prompt_of(32), 24)
    history = prompt_of(14, ord("a")) + driver.record("a").tokens
    turn(driver, "a2", [*history, 100], tenant="one", private_scope="a")


def test_a_session_is_found_by_its_own_tenant_and_id_alone() -> None:
    driver = Driver(block_size=SIZE)
    turn(driver, "t0", prompt_of(13))
    follow = [*prompt_of(13), *driver.record("t0").tokens, 100]
    assert turn(driver, "other tenant", follow, tenant="globex") == 0
    assert turn(driver, "other session", follow, private_scope="t") == 0
    assert turn(driver, "own", follow) == len(follow) - 2


def test_released_sessions_keep_nothing_and_a_running_turn_neither() -> None:
    driver = Driver(block_size=SIZE)
    release = ReleaseSession("acme", "s")
    turn(driver, "t0", prompt_of(13))
    driver.engine.apply(ReleaseSession("globex", "s"))
    assert account(driver, "acme")[1] == 5
    for _ in range(2):
        driver.engine.apply(release)
        assert account(driver, "acme")[1] == 0
    driver.submit("t1", prompt_of(13), 8, private_scope="s")
    driver.step()
    driver.engine.apply(release)
    driver.run()
    assert driver.reason("t1") is FinishReason.LENGTH
    assert account(driver, "acme")[1] == 0


def test_without_a_ttl_nothing_is_pinned() -> None:
    driver = Driver(block_size=SIZE)
    kept_not = KvPolicy(session_ttl_ms=0)
    turn(driver, "t0", prompt_of(13), kv=kept_not)
    assert driver.kv.pinned_blocks == 0
    follow = [*prompt_of(13), *driver.record("t0").tokens, 100]
    assert turn(driver, "t1", follow, kv=kept_not) == 16, "found while it is cached"


def test_hits_of_sessions_and_prefixes_are_counted_exactly() -> None:
    driver = Driver(block_size=SIZE)
    turn(driver, "t0", prompt_of(14), tenant_prefix_tokens=8)
    follow = [*prompt_of(14), *driver.record("t0").tokens, 100]
    turn(driver, "t1", follow, tenant_prefix_tokens=8)
    counters = driver.kv.counters
    assert (counters.prefix_queries, counters.prefix_hits) == (16, 8)
    assert (counters.session_queries, counters.session_hits) == (13 - 8 + 20 - 8, 19 - 8)


# All of it, at random


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_happens_answers_are_right_and_books_balance(seed: int) -> None:
    """Arrivals at block edges, aborts, pre-emptions, quotas, sessions and age, at random."""
    rng = random.Random(seed)
    driver = Driver(
        num_blocks=rng.choice([14, 20, 40]),
        block_size=SIZE,
        max_step_tokens=rng.choice([8, 40]),
        max_running=rng.choice([3, 8]),
        max_step_context_tokens=rng.choice([0, 40]),
        cache_ttl_us=rng.choice([0, 3_000]),
    )
    policies = {
        "a": KvPolicy(max_tokens=36, session_ttl_ms=rng.choice([0, 5, 1_000])),
        "b": KvPolicy(weight=3, session_ttl_ms=20),
        "c": KvPolicy(share_private=True),
    }
    asked: dict[str, tuple[list[int], int]] = {}
    histories: dict[tuple[str, str], list[int]] = {}
    tenants: dict[str, tuple[str, str]] = {}
    aborted: set[str] = set()
    for step in range(120):
        if step < 70 and rng.random() < 0.45:
            tenant, session = rng.choice("abc"), rng.choice(["", "s", "t"])
            edge = rng.choice([SIZE - 1, SIZE, SIZE + 1, 2 * SIZE])
            past = histories.get((tenant, session), [])[:12] if session else []
            prompt = [*past, *prompt_of(edge, rng.randrange(3))]
            name = f"r{step}"
            asked[name] = (prompt, rng.randrange(1, 10))
            tenants[name] = (tenant, session)
            driver.submit(
                name,
                *asked[name],
                tenant=tenant,
                kv=policies[tenant],
                private_scope=session,
                tenant_prefix_tokens=rng.choice([0, min(SIZE, len(prompt))]),
            )
        if asked and rng.random() < 0.15:
            victim = rng.choice(list(asked))
            driver.abort(victim)
            aborted.add(victim)
        if asked and rng.random() < 0.1:
            driver.engine.apply(Preempt(rng.choice(list(asked))))
        if rng.random() < 0.05:
            driver.engine.apply(ReleaseSession(rng.choice("abc"), "s"))
        for terminal in driver.step().terminals:
            if terminal.finish_reason is FinishReason.LENGTH:
                tenant, session = tenants[terminal.request_id]
                prompt = asked[terminal.request_id][0]
                histories[tenant, session] = prompt + driver.record(terminal.request_id).tokens
        assert account(driver, "a")[0] <= 9
    driver.run()
    for name, (prompt, length) in asked.items():
        answer = driver.record(name).tokens
        assert answer == expected_output(prompt, length)[: len(answer)]
        if name not in aborted:
            assert driver.reason(name) is FinishReason.LENGTH
            assert driver.terminal(name).usage.prompt_tokens == len(prompt)
