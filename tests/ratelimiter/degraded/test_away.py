"""What a ratelimiter decides while its shared store is away."""

import asyncio
from pathlib import Path

import pytest

from tests.ratelimiter.account import directory, limit, parallel, rpm, tpm
from tests.ratelimiter.degraded.site import Replica, replica, site
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import LimitExceeded, Reason, WeirError

SNAPSHOT = directory(tpm(900), rpm(30), parallel(9), cluster=[tpm(9_000)])


def budget(capacity: int) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_WINDOW, pb.LIMIT_RESOURCE_TOKENS
    return limit("budget", kind, resource, capacity, window="month")


async def admitted(account: Replica, most: int, *, output: int = 20) -> int:
    """How many of `most` requests are admitted."""
    count = 0
    for number in range(most):
        try:
            await account.reserve(f"burst{number}", output=output)
        except LimitExceeded:
            return count
        count += 1
    return count


async def test_a_store_that_answers_decides_and_says_so(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT, live=3) as shared, replica(shared) as account:
        admission = await account.reserve()
        assert not admission.degraded
        assert not account.limiter.degraded
        assert await account.left("tenant:acme/tpm") == 870
        assert account.sample("mode") == 0
        assert account.sample("replicas") == 3


async def test_without_the_store_a_replica_works_on_its_share(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT, live=3) as shared, replica(shared) as account:
        shared.outage.refuses = True
        admission = await account.reserve()
        assert admission.degraded
        assert admission.record
        assert account.limiter.degraded
        assert await account.remaining() == {
            "cluster/tpm": 3_000 - 30,
            "tenant:acme/tpm": 300 - 30,
            "tenant:acme/rpm": 10 - 1,
            "tenant:acme/parallel": 3 - 1,
        }
        assert account.sample("mode") == 1
        assert account.sample("degraded_decisions_total", operation="reserve") == 1
        shared.advance(5_000)
        assert account.sample("degraded_seconds_total") == 5


@pytest.mark.parametrize(
    ("snapshot", "fit"),
    [
        (directory(parallel(9)), 3),
        (directory(parallel(2)), 1),
        (directory(tpm(900)), 10),
        (directory(rpm(30)), 10),
        (directory(rpm(1)), 1),
    ],
)
async def test_every_kind_of_rate_is_shared_and_still_bound(
    tmp_path: Path, snapshot: pb.Snapshot, fit: int
) -> None:
    async with site(tmp_path, snapshot, live=3) as shared, replica(shared) as account:
        shared.outage.refuses = True
        assert await admitted(account, 50) == fit


async def test_a_share_refills_at_its_share_of_the_rate(tmp_path: Path) -> None:
    async with site(tmp_path, directory(tpm(900)), live=3) as shared, replica(shared) as account:
        shared.outage.refuses = True
        assert await admitted(account, 50) == 10
        with pytest.raises(LimitExceeded) as refused:
            await account.reserve("more")
        assert refused.value.retry_after_s
        assert 6.0 <= refused.value.retry_after_s <= 6.6
        assert "1/3 of it" in refused.value.violations[0].knob
        shared.advance(6_000)
        await account.reserve("more")


async def test_a_request_larger_than_the_share_waits_for_a_whole_share_and_leaves_debt(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, directory(tpm(900)), live=3) as shared, replica(shared) as account:
        shared.outage.refuses = True
        await account.reserve("large", output=800)
        assert await account.left("tenant:acme/tpm") == 300 - 810
        with pytest.raises(LimitExceeded):
            await account.reserve("small")
        shared.advance(60_000 * 810 // 300)
        await account.reserve("large-again", output=800)


async def test_larger_than_the_limit_is_still_larger_than_the_limit(tmp_path: Path) -> None:
    async with site(tmp_path, directory(tpm(900)), live=3) as shared, replica(shared) as account:
        shared.outage.refuses = True
        with pytest.raises(LimitExceeded) as refused:
            await account.reserve(output=900)
        assert refused.value.reason is Reason.REQUEST_TOO_LARGE


async def test_a_budget_lends_a_bounded_credit_and_then_closes(tmp_path: Path) -> None:
    snapshot = directory(budget(30_000), parallel(100))
    async with site(tmp_path, snapshot) as shared, replica(shared) as account:
        await account.reserve("before")
        shared.outage.refuses = True
        # 1 % of 30,000, in requests of 30.
        for number in range(10):
            await account.reserve(f"lent{number}")
        with pytest.raises(WeirError) as closed:
            await account.reserve("one-more")
        assert closed.value.reason is Reason.LIMITER_UNAVAILABLE
        assert closed.value.retry_after_s
        assert "lends 300 tokens per month" in closed.value.message
        assert "300 are used and 0 left; 30 are requested" in closed.value.message
        assert "degraded_budget_credit" not in closed.value.message


async def test_what_is_left_of_a_credit_is_told_and_fits(tmp_path: Path) -> None:
    snapshot = directory(budget(30_000), parallel(100))
    async with site(tmp_path, snapshot) as shared, replica(shared) as account:
        await account.reserve("before")
        shared.outage.refuses = True
        await account.reserve("lent", output=110)
        with pytest.raises(WeirError, match="120 are used and 180 left; 210 are req") as closed:
            await account.reserve("large", output=200)
        assert "a smaller request may fit" in closed.value.message
        await account.reserve("smaller", output=170)


async def test_the_longer_the_store_is_away_the_later_a_retry(tmp_path: Path) -> None:
    async with (
        site(tmp_path, directory(parallel(9))) as shared,
        replica(shared, admits=False) as account,
    ):
        await account.reserve("before")
        shared.outage.refuses = True
        hints = []
        for _ in range(4):
            with pytest.raises(WeirError) as refused:
                await account.reserve("new")
            hints.append(refused.value.retry_after_s)
            shared.advance(12_000)
        assert hints == [2.0, 12.0, 24.0, 30.0]


async def test_a_budget_lends_no_more_than_was_left_of_it(tmp_path: Path) -> None:
    snapshot = directory(budget(30_000), parallel(100))
    async with site(tmp_path, snapshot, live=2) as shared, replica(shared) as account:
        await account.reserve("before", output=29_870)
        shared.outage.refuses = True
        # 120 tokens were left for two replicas.
        await account.reserve("first")
        await account.reserve("second")
        with pytest.raises(WeirError) as closed:
            await account.reserve("third")
        assert closed.value.reason is Reason.LIMITER_UNAVAILABLE


async def test_a_budget_never_seen_lends_nothing(tmp_path: Path) -> None:
    snapshot = directory(budget(30_000))
    async with site(tmp_path, snapshot) as shared:
        shared.outage.refuses = True
        async with replica(shared) as account:
            with pytest.raises(WeirError) as closed:
                await account.reserve()
            assert closed.value.reason is Reason.LIMITER_UNAVAILABLE


async def test_credit_is_not_lent_again_when_the_store_comes_and_goes(tmp_path: Path) -> None:
    snapshot = directory(budget(30_000), parallel(100))
    async with site(tmp_path, snapshot) as shared, replica(shared) as account:
        lent = 0
        for outage in range(3):
            await account.reserve(f"before{outage}")
            shared.outage.refuses = True
            for number in range(20):
                try:
                    await account.reserve(f"lent{outage}.{number}")
                except WeirError:
                    break
                lent += 1
            await account.come_back()
        assert lent == 10


async def test_a_slow_store_is_given_up_on_after_its_timeout_and_then_not_asked(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        shared.outage.hangs = True
        for number in range(5):
            assert (await account.reserve(f"slow{number}")).degraded
        assert account.limiter.degraded
        async with asyncio.timeout(5):
            assert (await account.reserve("not-asked")).degraded


async def test_a_single_slow_call_is_decided_here_and_told_at_once(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        shared.outage.loses_replies = True
        admission = await account.reserve("r")
        assert admission.degraded
        shared.outage.loses_replies = False
        assert not account.limiter.degraded
        await account.parts.watch.tick()
        # It had been made there, too: by its id it is one.
        assert await account.left("tenant:acme/tpm") == 870
        await account.settle(admission.record, 10, 5)
        assert await account.left("tenant:acme/tpm") == 885
        assert len(await shared.events()) == 1


async def test_a_site_may_rather_refuse_than_share(tmp_path: Path) -> None:
    async with (
        site(tmp_path, SNAPSHOT) as shared,
        replica(shared, admits=False) as account,
    ):
        running = await account.reserve("running")
        shared.outage.refuses = True
        with pytest.raises(WeirError) as refused:
            await account.reserve("new")
        assert refused.value.reason is Reason.LIMITER_UNAVAILABLE
        assert "nothing is admitted meanwhile" in refused.value.message
        assert "when_store_is_away" not in refused.value.message
        await account.extend(running.record, 3)
        await account.settle(running.record, 10, 5)
        await account.come_back()
        (event,) = await shared.events()
        assert event.charged.completion_tokens == 5


async def test_nothing_new_begins_once_too_much_is_to_be_told(tmp_path: Path) -> None:
    snapshot = directory(parallel(100))
    async with site(tmp_path, snapshot) as shared, replica(shared, most_pending=3) as account:
        shared.outage.refuses = True
        records = [(await account.reserve(f"r{number}")).record for number in range(3)]
        with pytest.raises(WeirError) as refused:
            await account.reserve("r3")
        assert refused.value.reason is Reason.LIMITER_UNAVAILABLE
        assert "too many requests wait" in refused.value.message
        for record in records:
            await account.settle(record, 10, 5)
