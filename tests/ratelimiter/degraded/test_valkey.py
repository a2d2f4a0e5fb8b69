"""A real Valkey killed, restarted, emptied, paused and slowed down under a ratelimiter: no unit
is lost and nothing is charged twice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ratelimiter.account import directory, limit, parallel
from tests.ratelimiter.degraded.live import (
    delaying_proxy,
    eventually,
    live_replica,
    run_some,
)
from tests.ratelimiter.valkey import Valkey, running_valkey
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_core.errors.startup import StartupError

YEAR_S = 365 * 24 * 3600
TPM, PARALLEL = "tenant:acme/tpm", "tenant:acme/parallel"


def slow_tokens() -> pb.Limit:
    """Practically without refill, so that levels can be compared to the unit."""
    kind, resource = pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_TOKENS
    return limit("tpm", kind, resource, 1_000_000, refill=1, period_s=YEAR_S)


SNAPSHOT = directory(slow_tokens(), parallel(100))


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A server of the test's own, to be ill-treated."""
    with running_valkey(tmp_path / "valkey") as server:
        yield server


@pytest.mark.parametrize("emptied", [False, True])
async def test_killed_and_restarted_with_its_file_or_without(
    own_valkey: Valkey, tmp_path: Path, emptied: bool
) -> None:
    async with live_replica(own_valkey.url, tmp_path / "a", SNAPSHOT) as account:
        before = await run_some(account, "before", 5)
        open_before = (await account.reserve("open-before")).record
        ends_away = (await account.reserve("ends-away")).record
        own_valkey.kill()
        during = await run_some(account, "during", 5)
        assert account.limiter.degraded
        await account.settle(ends_away, 10, 9)
        open_during = (await account.reserve("open-during")).record
        await account.extend(open_during, 4)
        own_valkey.restart(empty=emptied)
        await eventually(account.is_back)
        await account.extend(open_before, 5)
        # What had ended before is remembered by the server's file alone.
        gone = before if emptied else 0
        left = 1_000_000 - before - during - 19 - 30 - 30 + gone
        assert (await account.remaining()) == {TPM: left, PARALLEL: 98}
        for record in (open_before, open_during):
            await account.settle(record, 10, 6)
            assert (await account.settle(record, 10, 6)).already
        assert (await account.remaining()) == {TPM: left + 60 - 32, PARALLEL: 100}

        async def loss_is_counted() -> bool:
            return account.sample("store_states_lost_total") == int(emptied)

        await eventually(loss_is_counted)
        charges = await account.charges()
        assert len({event.reservation_id for event in charges}) == len(charges)
        total = sum(e.charged.prompt_tokens + e.charged.completion_tokens for e in charges)
        assert total == before - gone + during + 19 + 32


async def test_paused_for_two_seconds(own_valkey: Valkey, tmp_path: Path) -> None:
    async with live_replica(own_valkey.url, tmp_path / "a", SNAPSHOT, timeout_s=0.1) as account:
        before = await run_some(account, "before", 3)
        own_valkey.pause()
        paused_at = account.system.monotonic_us()
        during = await run_some(account, "during", 20)
        assert account.limiter.degraded
        while account.system.monotonic_us() - paused_at < 2_000_000:
            await asyncio.sleep(0.05)
        own_valkey.resume()
        await eventually(account.is_back)
        after = await run_some(account, "after", 3)

        async def exact() -> bool:
            left = {TPM: 1_000_000 - before - during - after, PARALLEL: 100}
            return await account.remaining() == left

        await eventually(exact)
        charges = await account.charges()
        assert len(charges) == 26
        assert len({event.reservation_id for event in charges}) == 26


async def test_two_seconds_of_latency_are_no_worse_than_no_store(
    own_valkey: Valkey, tmp_path: Path
) -> None:
    async with (
        delaying_proxy(own_valkey.port) as proxy,
        live_replica(
            f"redis://127.0.0.1:{proxy.port}/0", tmp_path / "a", SNAPSHOT, timeout_s=0.1
        ) as account,
    ):
        charged = await run_some(account, "before", 2)
        proxy.delay_s = 2.0
        charged += await run_some(account, "slow", 4)
        assert account.limiter.degraded
        # The store is not asked any more: as if there were none.
        asked = account.sample("degraded_decisions_total", operation="reserve")
        charged += await run_some(account, "unasked", 20)
        decided = account.sample("degraded_decisions_total", operation="reserve")
        assert decided - asked == 20
        proxy.delay_s = 0.0
        await eventually(account.is_back)
        # What had been given up on arrives after all.
        await eventually(proxy.is_through)

        async def exact() -> bool:
            return await account.remaining() == {TPM: 1_000_000 - charged, PARALLEL: 100}

        await eventually(exact)
        assert len(await account.charges()) == 26


async def test_replicas_count_each_other_and_share(own_valkey: Valkey, tmp_path: Path) -> None:
    snapshot = directory(parallel(4))
    async with (
        live_replica(own_valkey.url, tmp_path / "a", snapshot) as one,
        live_replica(own_valkey.url, tmp_path / "b", snapshot) as two,
    ):

        async def counted() -> bool:
            return one.sample("replicas") == two.sample("replicas") == 2

        await eventually(counted)
        own_valkey.kill()
        for account, name in ((one, "one"), (two, "two")):
            for number in range(2):
                await account.reserve(f"{name}{number}")
            with pytest.raises(LimitExceeded):
                await account.reserve(f"{name}2")


async def test_a_budget_of_a_killed_store_lends_its_credit(
    own_valkey: Valkey, tmp_path: Path
) -> None:
    kind, resource = pb.LIMIT_KIND_WINDOW, pb.LIMIT_RESOURCE_TOKENS
    snapshot = directory(limit("budget", kind, resource, 9_000, window="month"))
    async with live_replica(own_valkey.url, tmp_path / "a", snapshot) as account:
        charged = await run_some(account, "seen", 1)
        own_valkey.kill()
        # 1 % are 90 tokens: three requests of 30.
        records = [(await account.reserve(f"lent{number}")).record for number in range(3)]
        with pytest.raises(WeirError) as closed:
            await account.reserve("more")
        assert closed.value.reason is Reason.LIMITER_UNAVAILABLE
        for record in records:
            await account.settle(record, 10, 5)
        own_valkey.start()
        await eventually(account.is_back)
        assert await account.left("tenant:acme/budget") == 9_000 - charged - 45


async def test_a_start_without_the_store_serves_its_last_share(
    own_valkey: Valkey, tmp_path: Path
) -> None:
    async with live_replica(own_valkey.url, tmp_path / "a", SNAPSHOT):
        pass
    own_valkey.kill()
    async with live_replica(own_valkey.url, tmp_path / "a", SNAPSHOT) as account:
        charged = await run_some(account, "alone", 3)
        own_valkey.start()
        await eventually(account.is_back)
        assert await account.left(TPM) == 1_000_000 - charged


async def test_a_store_that_may_forget_is_refused_at_the_start(tmp_path: Path) -> None:
    with (
        running_valkey(tmp_path / "valkey", "--maxmemory-policy", "allkeys-lru") as server,
        pytest.raises(StartupError, match="noeviction"),
    ):
        async with live_replica(server.url, tmp_path / "a", SNAPSHOT):
            pass
