"""Millions of operations on one cache, and an engine that runs for long: nothing drifts or grows.

`make soak` runs them whole; `WEIR_SOAK_S` sets the seconds of the engine's run (1,800).
"""

import gc
import os
import random
import sys
import time

import pytest

from tests.worker.engine.driver import Driver
from weir_core.prefix_hash import PrefixNamespace
from weir_worker.engine.commands import Preempt, ReleaseSession
from weir_worker.engine.events import FinishReason
from weir_worker.kv import BlockTable, KvManager, KvPolicy, PrefixScopes, Shortage, check_integrity

SIZE = 16
BLOCKS = 512
TENANTS = [f"tenant{index}" for index in range(40)]


class Allocator:
    """Random requests of many tenants on one manager; counts blocks taken, kept and let go."""

    def __init__(self, seed: int) -> None:
        self.kv = KvManager(BLOCKS, SIZE, cache_ttl_us=50_000)
        self.operations = 0
        self._rng = random.Random(seed)
        self._live: list[BlockTable] = []
        self._now_us = 0
        self._serial = 0

    def turn(self) -> None:
        """One request comes, or one ends."""
        self._now_us += 100
        self.kv.advance(self._now_us)
        if self._live and self._rng.random() < 0.5:
            self._end(self._live.pop(self._rng.randrange(len(self._live))))
        else:
            self._begin()

    def check(self) -> None:
        check_integrity(self.kv, self._live)

    def drain(self) -> None:
        while self._live:
            self._end(self._live.pop())
        self.check()

    def _begin(self) -> None:
        rng = self._rng
        self._serial += 1
        tenant = rng.choice(TENANTS)
        session = rng.choice(["", "", "s", "t"])
        head = rng.randrange(4)
        tokens = [head] * 48 + [rng.randrange(8) for _ in range(rng.randrange(1, 160))]
        private = PrefixNamespace(tenant, "m", scope=session or f"r{self._serial}")
        scopes = PrefixScopes(PrefixNamespace(tenant, "m"), private, 48, session)
        policy = KvPolicy(max_tokens=1_600, weight=1 + TENANTS.index(tenant) % 3)
        table = self.kv.open_table(tenant, tokens, scopes, policy)
        if isinstance(self.kv.allocate(table, len(tokens)), Shortage):
            self.kv.close(table)
            return
        self.kv.commit(table, len(tokens))
        self.operations += len(table.blocks)
        self._live.append(table)

    def _end(self, table: BlockTable) -> None:
        tokens = len(table.chain.token_ids)
        if table.chain.session and self._rng.random() < 0.7:
            self.kv.keep_turn(table, tokens, 30_000)
            self.operations += len(table.blocks)
        self.operations += len(table.blocks)
        self.kv.close(table, discard=self._rng.random() < 0.02)


def allocate_for(operations: int) -> None:
    allocator = Allocator(seed=operations)
    memory = 0
    for part in range(10):
        while allocator.operations < operations * (part + 1) // 10:
            allocator.turn()
        allocator.check()
        gc.collect()
        if part == 1:
            memory = sys.getallocatedblocks()
    assert sys.getallocatedblocks() < 1.1 * memory + 20_000, "objects of the interpreter"
    assert len(allocator.kv.pool.accounts) <= len(TENANTS)
    allocator.drain()
    assert allocator.kv.counters.evictions > operations // 200
    for later_us in (10**12, 2 * 10**12):
        allocator.kv.advance(later_us)
    assert allocator.kv.free_blocks == BLOCKS, "first sessions, then their blocks come of age"
    assert not allocator.kv.pool.accounts


def test_the_allocator_does_not_drift() -> None:
    allocate_for(30_000)


@pytest.mark.soak
def test_the_allocator_does_not_drift_in_ten_million_operations() -> None:
    allocate_for(10_000_000)


def run_engine_for(seconds: float, least_steps: int) -> None:
    rng = random.Random(7)
    driver = Driver(
        num_blocks=96, block_size=4, max_step_tokens=48, max_running=12, cache_ttl_us=200_000
    )
    policies = {
        "a": KvPolicy(max_tokens=120, session_ttl_ms=300),
        "b": KvPolicy(weight=4, session_ttl_ms=100),
        "c": KvPolicy(share_private=True, session_ttl_ms=0),
    }
    began, steps, memory = time.monotonic(), 0, 0
    while time.monotonic() - began < seconds or steps < least_steps:
        _disturb(driver, rng, policies, steps)
        driver.step()
        steps += 1
        if steps % 500 == 0:
            _check_and_forget(driver)
            gc.collect()
            memory = memory or sys.getallocatedblocks()
            assert sys.getallocatedblocks() < 1.1 * memory + 20_000, f"after {steps} steps"
    driver.run(20_000)


def _disturb(driver: Driver, rng: random.Random, policies: dict[str, KvPolicy], step: int) -> None:
    if rng.random() < 0.3 and len(driver.engine.planner.waiting) < 20:
        tenant = rng.choice("abc")
        shared = [97 + rng.randrange(3)] * 8
        driver.submit(
            f"r{step}",
            [*shared, *(rng.randrange(97, 123) for _ in range(rng.randrange(1, 40)))],
            rng.randrange(1, 24),
            tenant=tenant,
            kv=policies[tenant],
            private_scope=rng.choice(["", "s", "t"]),
            tenant_prefix_tokens=8,
        )
    if rng.random() < 0.03:
        names = [name for (name, _), record in driver.records.items() if record.terminal is None]
        if names:
            driver.abort(rng.choice(names))
            driver.engine.apply(Preempt(rng.choice(names)))
    if rng.random() < 0.01:
        driver.engine.apply(ReleaseSession(rng.choice("abc"), "s"))


def _check_and_forget(driver: Driver) -> None:
    """The answers so far are right; what has ended is dropped."""
    ended = {key: one for key, one in driver.records.items() if one.terminal is not None}
    for key, record in ended.items():
        assert record.terminal is not None
        assert record.terminal.finish_reason in (FinishReason.LENGTH, FinishReason.ABORT)
        del driver.records[key]
    driver.outputs.clear()
    driver.fake.batches.clear()


def test_an_engine_runs_on_with_flat_memory() -> None:
    run_engine_for(0, least_steps=2_500)


@pytest.mark.soak
def test_an_engine_runs_for_half_an_hour_with_flat_memory() -> None:
    run_engine_for(float(os.environ.get("WEIR_SOAK_S", "1800")), least_steps=10_000)
