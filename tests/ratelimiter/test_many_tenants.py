"""10,000 tenants with 10 limits each: what is not used costs nothing, strangers leave no trace."""

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tests.ratelimiter.account import Account, account, limit, parallel, rpm, tpm
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.memory_log import MemoryOptions

TENANTS = 10_000
REMEMBERED = 1_000
HOUR_MS = 3_600_000
OPTIONS = MemoryOptions(horizon_ms=HOUR_MS, most_ended=REMEMBERED)


def _limits() -> list[pb.Limit]:
    buckets = pb.LIMIT_KIND_BUCKET
    windows = [
        pb.Limit(id=f"{of}s", kind=pb.LIMIT_KIND_WINDOW, capacity=10**9, window=of,
                 resource=pb.LIMIT_RESOURCE_TOKENS)
        for of in ("day", "month")
    ]  # fmt: skip
    return [
        rpm(1_000),
        tpm(100_000),
        limit("rps", buckets, pb.LIMIT_RESOURCE_REQUESTS, 50, period_s=1),
        limit("itpm", buckets, pb.LIMIT_RESOURCE_INPUT_TOKENS, 100_000, period_s=60),
        limit("otpm", buckets, pb.LIMIT_RESOURCE_OUTPUT_TOKENS, 100_000, period_s=60),
        limit("tph", buckets, pb.LIMIT_RESOURCE_TOKENS, 10**6, period_s=3600),
        parallel(100),
        limit("streams", pb.LIMIT_KIND_LEASE, pb.LIMIT_RESOURCE_STREAMS, 100),
        *windows,
    ]


def _directory(tenants: int) -> pb.Snapshot:
    return pb.Snapshot(
        version=1,
        plans=[pb.Plan(id="plan", limits=_limits())],
        tenants=[pb.Tenant(id=f"t{number}", plan_id="plan") for number in range(tenants)],
        models=[pb.Model(name="m")],
    )


def _subject(number: int) -> Subject:
    return Subject(f"t{number}", "", "", "m", "1")


async def _serve(opened: Account, number: int) -> None:
    """One request of a tenant, to its end, and its event to the ledger."""
    admission = await opened.reserve(f"r{number}", subject=_subject(number), streams=True)
    await opened.settle(admission.record, 10, 5)
    if number % 500 == 499:
        await opened.store.acknowledge([entry.id for entry in await opened.store.outbox(1_000)])


async def test_quiet_tenants_cost_nothing(tmp_path: Path) -> None:
    async with account(tmp_path, _directory(TENANTS), OPTIONS) as opened:
        state = opened.log.state
        assert not state.buckets
        for number in range(TENANTS):
            await _serve(opened, number)
        # What has ended is remembered up to a bound; nothing is held, nothing waits.
        assert len(state.reservations) == REMEMBERED
        assert not state.leases
        assert not state.held
        assert not state.outbox
        assert len(state.windows) == 2 * TENANTS
        # An hour after the buckets are full they are gone; what was used this month is known.
        opened.advance(2 * HOUR_MS + 60_000)
        await opened.log.compact(opened.now_ms())
        assert not state.buckets
        assert len(state.windows) == 2 * TENANTS
        # And after the month, nothing is left.
        opened.advance(35 * 24 * HOUR_MS)
        await _serve(opened, 7)
        await opened.log.compact(opened.now_ms())
        assert {key for key, _ in state.windows} == {"tenant:t7/days", "tenant:t7/months"}
        assert len(state.reservations) == 1


async def test_strangers_leave_no_trace(tmp_path: Path) -> None:
    """Names that nobody knows are free to make up: none of them may cost memory or disk."""
    async with account(tmp_path, _directory(1), OPTIONS) as opened:
        state, journal = opened.log.state, opened.log.journal_bytes
        for number in range(3_000):
            stranger = Subject(f"stranger{number}", "u", "k", "m", "1")
            with pytest.raises(WeirError) as caught:
                await opened.reserve(f"r{number}", subject=stranger)
            assert caught.value.reason is Reason.NOT_FOUND
            assert await opened.limiter.states(stranger) == []
        assert opened.log.journal_bytes == journal
        kept = [state.buckets, state.windows, state.reservations, state.leases]
        assert not any(kept)
        assert b"stranger" not in generate_latest(opened.registry)


async def test_made_up_users_of_a_tenant_have_its_limits_alone(tmp_path: Path) -> None:
    async with account(tmp_path, _directory(1), OPTIONS) as opened:
        refused = 0
        for number in range(1_500):
            user = Subject("t0", f"user{number}", f"key{number}", "m", "1")
            try:
                await opened.reserve(f"r{number}", subject=user)
            except LimitExceeded:
                refused += 1
        # 50 requests a second: of the same moment, 50 are admitted, whoever asks.
        assert refused == 1_450
        assert len(opened.log.state.reservations) == 50
        assert {key.split("/")[0] for key in opened.log.state.buckets} == {"tenant:t0"}
        assert b"user1" not in generate_latest(opened.registry)
