"""What becomes of decisions made alone, once the shared store is back: nothing is lost, and
nothing is charged twice."""

from pathlib import Path

import pytest

from tests.ratelimiter.account import directory, limit, parallel, rpm, tpm
from tests.ratelimiter.degraded.site import Replica, replica, site
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.usage import Quality, Usage

DAY_S = 24 * 3600


def slow_tokens() -> pb.Limit:
    """Practically without refill, so that levels can be compared to the unit."""
    kind, resource = pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_TOKENS
    return limit("tpm", kind, resource, 100_000, refill=1, period_s=365 * DAY_S)


def budget() -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_WINDOW, pb.LIMIT_RESOURCE_TOKENS
    return limit("budget", kind, resource, 100_000, window="month")


SNAPSHOT = directory(slow_tokens(), budget(), parallel(100))
TPM, BUDGET, PARALLEL = "tenant:acme/tpm", "tenant:acme/budget", "tenant:acme/parallel"


async def test_made_and_ended_alone_is_charged_once_there(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        await account.settle((await account.reserve("before")).record, 10, 10)
        shared.outage.refuses = True
        record = (await account.reserve("r")).record
        ended = await account.settle(record, 10, 5)
        assert ended.reservation.settlement is not None
        assert ended.reservation.settlement.charged == Usage(10, 0, 5)
        refunded = (await account.reserve("refunded")).record
        await account.refund(refunded)
        await account.come_back()
        assert await account.left(TPM) == 100_000 - 20 - 15
        assert await account.left(BUDGET) == 100_000 - 20 - 15
        assert await account.left(PARALLEL) == 100
        again = await account.settle(record, 10, 5)
        assert again.already
        assert not again.conflict
        charged = {e.request_id: e.charged for e in await shared.events()}
        assert charged == {
            "before": Usage(10, 0, 10),
            "r": Usage(10, 0, 5),
            "refunded": Usage(),
        }
        assert len(await shared.events()) == 3
        assert account.sample("replayed_total", outcome="done") == 2
        assert account.sample("pending_replays") == 0


async def test_made_there_and_ended_alone_is_charged_once(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        record = (await account.reserve("r")).record
        shared.outage.refuses = True
        await account.settle(record, 10, 5)
        await account.come_back()
        assert await account.left(TPM) == 100_000 - 15
        assert await account.left(BUDGET) == 100_000 - 15
        (event,) = await shared.events()
        assert event.charged == Usage(10, 0, 5)


async def test_a_reply_that_was_lost_charges_nothing_twice(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        record = (await account.reserve("r")).record
        shared.outage.loses_replies = True
        await account.settle(record, 10, 5)
        await account.come_back()
        await account.parts.watch.tick()
        assert await account.left(TPM) == 100_000 - 15
        assert len(await shared.events()) == 1
        assert account.sample("replayed_total", outcome="known") == 1


async def test_what_runs_through_a_short_outage_goes_on_there(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        before = (await account.reserve("before")).record
        shared.outage.refuses = True
        during = (await account.reserve("during")).record
        shared.advance(8_000)
        await account.extend(before, 4)
        await account.extend(during, 4)
        await account.come_back()
        assert await account.left(PARALLEL) == 98
        assert {r.progress.completion_tokens for r in await account.running()} == {4}
        for record in (before, during):
            await account.extend(record, 6)
            await account.settle(record, 10, 7)
        assert await account.left(TPM) == 100_000 - 34
        assert len(await shared.events()) == 2


async def test_no_stream_is_cut_by_an_outage_longer_than_its_lease(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        record = (await account.reserve("long")).record
        await account.extend(record, 1)
        shared.outage.refuses = True
        for output in range(2, 14):
            shared.advance(10_000)
            await account.extend(record, output)
            await account.parts.watch.tick()
        await account.come_back()
        await account.limiter.sweep()
        await account.extend(record, 15)
        await account.settle(record, 10, 16)
        await account.parts.watch.tick()
        assert await account.left(TPM) == 100_000 - 26
        assert await account.left(BUDGET) == 100_000 - 26
        charged = [event.charged.completion_tokens for event in await shared.events()]
        assert charged[-1] == 16
        assert account.sample("pending_replays") == 0


async def test_what_died_in_the_outage_is_charged_by_the_progress_it_told(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        there = (await account.reserve("there")).record
        shared.outage.refuses = True
        here = (await account.reserve("here")).record
        await account.reserve("never-sent")
        await account.extend(there, 7)
        await account.extend(here, 8)
        shared.advance(60_000)
        await account.parts.watch.tick()
        await account.come_back()
        shared.advance(31_000)
        await account.limiter.sweep()
        # It may live with another ratelimiter; after an hour it does not.
        shared.advance(3_600_000)
        await account.parts.watch.tick()
        assert await account.left(TPM) == 100_000 - 17 - 18
        assert await account.left(PARALLEL) == 100
        billed: dict[str, int] = {}
        for event in await shared.events():
            more = event.charged.completion_tokens - event.previous.completion_tokens
            billed[event.request_id] = billed.get(event.request_id, 0) + more
        assert billed == {"there": 7, "here": 8, "never-sent": 0}
        assert account.sample("pending_replays") == 0


async def test_a_usage_nobody_counted_is_charged_as_it_was_answered(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        record = (await account.reserve("r")).record
        shared.outage.refuses = True
        await account.extend(record, 9)
        ended = await account.settle(record, 0, 0, quality=Quality.UNKNOWN)
        assert ended.reservation.settlement is not None
        assert ended.reservation.settlement.charged == Usage(10, 0, 9)
        await account.come_back()
        assert await account.left(TPM) == 100_000 - 19
        dispatched = (await account.reserve("dispatched")).record
        shared.outage.refuses = True
        await account.extend(dispatched, 3)
        await account.refund(dispatched)
        await account.come_back()
        assert await account.left(TPM) == 100_000 - 19 - 13


async def test_a_store_that_comes_back_empty_is_told_what_runs_and_what_ran(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        running = (await account.reserve("running")).record
        ended = (await account.reserve("ended")).record
        shared.outage.refuses = True
        await account.settle(ended, 10, 5)
        await account.extend(running, 2)
        await shared.empty()
        await account.parts.shared.close()
        account.parts.shared._connected = None  # the client, too, finds another server
        await account.come_back()
        assert await account.left(TPM) == 100_000 - 30 - 15
        assert await account.left(PARALLEL) == 99
        await account.settle(running, 10, 3)
        assert await account.left(TPM) == 100_000 - 13 - 15


async def test_a_kill_in_the_outage_loses_nothing(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared:
        account = Replica(shared, "a")
        await account.begin()
        before = (await account.reserve("before")).record
        shared.outage.refuses = True
        ended = (await account.reserve("ended")).record
        await account.settle(ended, 10, 5)
        running = (await account.reserve("running")).record
        await account.extend(running, 4)
        account = await account.killed()
        assert (await account.remaining())[PARALLEL] == 100 - 1
        await account.settle(before, 10, 6)
        account = await account.killed()
        await account.come_back()
        assert await account.left(TPM) == 100_000 - 15 - 16 - 30
        await account.settle(running, 10, 5)
        assert await account.left(TPM) == 100_000 - 15 - 16 - 15
        assert len(await shared.events()) == 3
        await account.store.close()


async def test_two_replicas_that_parted_agree_in_the_end(tmp_path: Path) -> None:
    snapshot = directory(slow_tokens(), parallel(100))
    async with (
        site(tmp_path, snapshot, live=2) as shared,
        replica(shared, "a") as one,
        replica(shared, "b") as two,
    ):
        shared.outage.refuses = True
        made = (await one.reserve("made-by-one")).record
        await two.settle(made, 10, 5)
        kept = (await one.reserve("kept-by-two")).record
        await two.extend(kept, 3)
        await one.come_back()
        shared.advance(2_000)
        await two.parts.watch.tick()
        assert await one.remaining() == await two.remaining()
        assert await one.left(TPM) == 100_000 - 15 - 30
        await one.settle(kept, 10, 4)
        assert await two.left(TPM) == 100_000 - 15 - 14
        assert len(await shared.events()) == 2


async def test_news_of_what_another_replica_has_ended_is_dropped(tmp_path: Path) -> None:
    snapshot = directory(slow_tokens(), parallel(100))
    async with (
        site(tmp_path, snapshot, live=2) as shared,
        replica(shared, "a") as one,
        replica(shared, "b") as two,
    ):
        record = (await one.reserve("moves")).record
        shared.outage.refuses = True
        await one.extend(record, 3)
        shared.outage.refuses = False
        await two.settle(record, 10, 4)
        await one.come_back()
        assert one.sample("pending_replays") == 0
        assert await one.left(TPM) == 100_000 - 14


async def test_a_store_that_is_not_there_at_the_start_is_found_later(tmp_path: Path) -> None:
    async with site(tmp_path, directory(tpm(900), rpm(30))) as shared:
        shared.outage.refuses = True
        async with replica(shared) as account:
            assert (await account.reserve("r")).degraded
            await account.come_back()
            assert not (await account.reserve("s")).degraded
            assert await account.left("tenant:acme/rpm") == 28


async def test_adjustments_and_the_ledger_wait_for_the_store(tmp_path: Path) -> None:
    async with site(tmp_path, SNAPSHOT) as shared, replica(shared) as account:
        await account.reserve("r")
        shared.outage.refuses = True
        await account.limiter.sweep()
        for call in (account.store.outbox(10), account.store.backlog()):
            with pytest.raises(WeirError) as away:
                await call
            assert away.value.reason is Reason.LIMITER_UNAVAILABLE
        assert await account.store.lapsed(10) == ()
