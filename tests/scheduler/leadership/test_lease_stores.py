"""Where the lease lies: one step a bid, and an honest "I do not know" else."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.ratelimiter.valkey import Valkey, running_valkey
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_scheduler.leadership.factory import leadership_of
from weir_scheduler.leadership.file_lease_store import FileLeaseStore
from weir_scheduler.leadership.lease import Bid, LeaseTimes
from weir_scheduler.leadership.lease_record import LeaseRecord, LeaseState
from weir_scheduler.leadership.lease_store import LeaseStore, StoreAway
from weir_scheduler.leadership.redis_lease_store import RedisLeaseStore
from weir_scheduler.leadership.roll import MOST_NAMES, Roll

KEY = "weir:test:leader"
TIMES = LeaseTimes(4_000_000)
Opened = Callable[[], LeaseStore]


@pytest_asyncio.fixture(params=["redis", "file"])
async def opened(
    request: pytest.FixtureRequest, tmp_path: Path, valkey: Valkey
) -> AsyncIterator[Opened]:
    """Opens the same store again and again, as processes do."""
    made: list[LeaseStore] = []

    def open_one() -> LeaseStore:
        if request.param == "redis":
            made.append(RedisLeaseStore(valkey.url, KEY, 2.0))
        else:
            made.append(FileLeaseStore(tmp_path / "lease", 2.0))
        return made[-1]

    yield open_one
    for store in made:
        await store.close()


def bid(expected: str = "", value: str = "", vacancy: str = "vacant") -> Bid:
    return Bid(expected, value, vacancy, 0)


async def test_a_bid_writes_only_over_what_it_expects(opened: Opened) -> None:
    first, second = opened(), opened()
    assert await first.bid(bid(vacancy="v1")) == "v1"
    assert await second.bid(bid(vacancy="v2")) == "v1"
    assert await second.bid(bid("v2", "b1")) == "v1"
    assert await first.bid(bid("v1", "a1")) == "a1"
    assert await second.bid(bid("v1", "b2")) == "a1"
    # Sent twice, as after an answer that was lost.
    assert await first.bid(bid("v1", "a1")) == "a1"
    assert await second.bid(bid()) == "a1"


async def test_of_many_bids_at_once_one_wins(opened: Opened) -> None:
    stores = [opened() for _ in range(8)]
    await stores[0].bid(bid(vacancy="v"))
    held = await asyncio.gather(
        *(store.bid(bid("v", f"s{number}")) for number, store in enumerate(stores))
    )
    assert len(set(held)) == 1
    assert held[0] in {f"s{number}" for number in range(8)}


async def test_a_note_is_there_for_the_next(opened: Opened) -> None:
    first, second = opened(), opened()
    assert await second.noted() == ""
    await first.note(Roll.call(["w1", "gw"]).text())
    roll = Roll.of(await second.noted())
    assert roll is not None
    assert roll.peers == {"w1", "gw"}


@pytest.mark.parametrize("text", ["", "7", "{}", "[1]", "not json"])
def test_a_note_that_is_no_roll_tells_nothing(text: str) -> None:
    assert Roll.of(text) is None


def test_of_too_many_names_none_is_noted() -> None:
    assert Roll.call(str(number) for number in range(MOST_NAMES + 1)).text() == ""


async def test_a_redis_that_lost_its_scripts_gets_them_again(valkey: Valkey) -> None:
    store = RedisLeaseStore(valkey.url, KEY, 2.0)
    await store.bid(bid(vacancy="v"))
    valkey.client().script_flush()
    assert await store.bid(bid("v", "a1")) == "a1"
    await store.close()


async def test_no_clock_of_the_server_ends_a_lease(valkey: Valkey) -> None:
    store = RedisLeaseStore(valkey.url, KEY, 2.0)
    await store.bid(bid(vacancy="v"))
    await store.bid(bid("v", "a1"))
    assert valkey.client().ttl(KEY) == -1
    await store.close()


async def test_a_redis_that_is_frozen_or_gone_is_away_in_bounded_time(tmp_path: Path) -> None:
    with running_valkey(tmp_path / "valkey") as server:
        store = RedisLeaseStore(server.url, KEY, 0.2)
        await store.bid(bid(vacancy="v"))
        server.pause()
        async with asyncio.timeout(5):
            with pytest.raises(StoreAway):
                await store.bid(bid("v", "a1"))
        server.resume()
        server.kill()
        with pytest.raises(StoreAway):
            await store.bid(bid("v", "a2"))
        server.start()
        assert await store.bid(bid()) in ("v", "a1")
        await store.close()


async def test_a_file_whose_lock_is_held_is_away_in_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    store = FileLeaseStore(path, 0.05)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreAway, match="lock was not free"):
            await store.bid(bid())
    assert await store.bid(bid(vacancy="v")) == "v"
    await store.close()


def test_a_record_is_read_as_it_was_written() -> None:
    record = LeaseRecord(LeaseState.HELD, 's"1', "host:1", 7, 3)
    assert LeaseRecord.of(record.text()) == record


@pytest.mark.parametrize("text", ["", "7", "[]", '["held","s","a",1]', '["other","s","a",1,1]'])
def test_what_is_no_record_is_refused_by_its_knob(text: str) -> None:
    with pytest.raises(WeirError, match="leader_key") as caught:
        LeaseRecord.of(text)
    assert caught.value.reason is Reason.INTERNAL


@pytest.mark.parametrize(
    "url", ["memory", "http://host", "file://host/lease", "file://", "redis+cluster://host:1"]
)
async def test_a_store_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StartupError, match="leader_store"):
        leadership_of(url, KEY, TIMES, "host:1")
    secret = url.replace("://", "://user:hunter2@")
    with pytest.raises(StartupError) as caught:
        leadership_of(secret, KEY, TIMES, "host:1")
    assert "hunter2" not in str(caught.value)


async def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="No such file"):
        leadership_of(f"file://{tmp_path}/none/lease", KEY, TIMES, "host:1")
