"""The journal: what it survives, what it refuses, how it is compacted."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ratelimiter.account import (
    Account,
    account,
    directory,
    in_flight,
    limit,
    parallel,
    rpm,
    tpm,
)
from weir.directory.v1 import directory_pb2 as pb
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_ratelimiter.domain.change import Change
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.store import frames
from weir_ratelimiter.store.memory_log import MemoryLog, MemoryOptions

SNAPSHOT = directory(tpm(1000), rpm(100), parallel(50), in_flight(5000))


async def some_history(acct: Account) -> None:
    first, second, third, _ = [await acct.reserve(f"r{i}") for i in range(4)]
    await acct.settle(first.record, 10, 5)
    await acct.refund(second.record)
    await acct.extend(third.record, 7)


async def everything(acct: Account) -> tuple[object, ...]:
    state = acct.log.state
    return (
        await acct.remaining(),
        dict(state.held),
        dict(state.in_flight),
        dict(state.reservations),
        list(state.outbox),
        state.next_sequence,
        acct.store.epoch,
    )


async def test_a_replay_is_the_account_as_it_was(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT) as acct:
        await some_history(acct)
        before = await everything(acct)
        await acct.restart(SNAPSHOT)
        assert await everything(acct) == before
        await acct.restart(SNAPSHOT)
        assert await everything(acct) == before


async def test_any_torn_last_record_is_dropped(tmp_path: Path) -> None:
    async with account(tmp_path / "a", SNAPSHOT) as acct:
        await some_history(acct)
        before = await everything(acct)
        whole = acct.log.journal_path.read_bytes()
        last = await acct.reserve("last")
        content = acct.log.journal_path.read_bytes()
    assert last.reservation
    for cut in (*range(len(whole) + 1, len(whole) + 30), len(content) - 1):
        folder = tmp_path / f"cut{cut}"
        folder.mkdir()
        (folder / "journal-000000001.wj").write_bytes(content[:cut])
        async with account(folder, SNAPSHOT) as again:
            assert await everything(again) == before
            assert (await again.reserve("last")).reservation


async def test_a_tail_of_zeros_is_dropped(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT) as acct:
        await some_history(acct)
        before = await everything(acct)
        path = acct.log.journal_path
        content = path.read_bytes()
        await acct.store.close()
        path.write_bytes(content + bytes(5000))
        acct.store = acct._open()
        acct.limiter = acct._limiter()
        await acct.use(SNAPSHOT)
        assert await everything(acct) == before


async def test_damage_in_the_middle_is_refused_by_name(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT) as acct:
        await some_history(acct)
        path = acct.log.journal_path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(StartupError, match=rf"{path.name}: frame at byte \d+ is damaged"):
        MemoryLog.open(tmp_path, MemoryOptions(), 0)


async def test_a_hole_of_any_size_is_no_torn_tail(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT) as acct:
        await some_history(acct)
        path = acct.log.journal_path
        before = path.stat().st_size
        await acct.reserve("behind")
    content = path.read_bytes()
    path.write_bytes(content[:before] + bytes(3 << 20) + content[before:])
    with pytest.raises(StartupError, match="is damaged and others follow"):
        MemoryLog.open(tmp_path, MemoryOptions(), 0)


async def test_who_waits_for_a_journal_that_is_replaced_is_answered(tmp_path: Path) -> None:
    options = MemoryOptions(fsync="always")
    async with account(tmp_path, SNAPSHOT, options) as acct:
        waiting = [asyncio.create_task(acct.reserve(f"w{number}")) for number in range(20)]
        while not all(task.done() for task in waiting):
            await acct.log.compact(0)
            await asyncio.sleep(0)
        assert all(task.result().record for task in waiting)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"weir-ratelimiter-journal 99\nrest", "has format 99, this release reads 2"),
        (b"\x7fELF and so on", "is not a journal of the ratelimiter"),
        (b"", "is not a journal of the ratelimiter"),
    ],
)
def test_another_format_is_refused_by_name(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "journal-000000007.wj").write_bytes(content)
    with pytest.raises(StartupError, match=told):
        MemoryLog.open(tmp_path, MemoryOptions(), 0)


def test_a_snapshot_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    meta = frames.Meta("epoch", 0, 1, 0)
    (tmp_path / "journal-000000001.wj").write_bytes(frames.HEADER + frames.encode(meta))
    with pytest.raises(StartupError, match="not whole"):
        MemoryLog.open(tmp_path, MemoryOptions(), 0)


async def test_one_process_per_folder(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT):
        with pytest.raises(StartupError, match="another ratelimiter uses"):
            MemoryLog.open(tmp_path, MemoryOptions(), 0)


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match="set --journal"):
        MemoryLog.open(tmp_path / "file", MemoryOptions(), 0)


async def test_compaction_under_load_loses_nothing(tmp_path: Path) -> None:
    big = directory(tpm(10**9), rpm(10**6), parallel(10**6))
    async with account(tmp_path, big) as acct:
        for number in range(1200):
            admission = await acct.reserve(f"old{number}")
            if number % 2:
                await acct.settle(admission.record, 10, number % 20)
        compaction = asyncio.create_task(acct.log.compact(acct.now_ms()))
        meanwhile = 0
        while not compaction.done():
            await acct.reserve(f"new{meanwhile}")
            meanwhile += 1
            await asyncio.sleep(0)
        await compaction
        assert meanwhile > 3
        before = await everything(acct)
        assert sum(name.startswith("journal-") for name in os.listdir(tmp_path)) == 1
        await acct.restart(big)
        assert await everything(acct) == before


async def test_the_journal_does_not_grow_for_ever(tmp_path: Path) -> None:
    options = MemoryOptions(compact_bytes=65_536, most_ended=20)
    async with account(tmp_path, SNAPSHOT, options) as acct:
        largest = 0
        for number in range(600):
            admission = await acct.reserve(f"r{number}")
            await acct.settle(admission.record, 10, 20)
            acct.advance(2_000)
            if number >= 20:
                await acct.store.acknowledge([str(number - 19)])
            await acct.store.maintain()
            largest = max(largest, acct.log.journal_bytes)
        assert 65_536 < largest < 90_000
        assert list(acct.log.state.outbox) == list(range(581, 601))


async def test_what_was_forgotten_cannot_be_charged_again(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT, MemoryOptions(most_ended=2)) as acct:
        first = await acct.reserve("r0")
        for number in range(1, 5):
            acct.advance(1)
            admission = await acct.reserve(f"r{number}")
            await acct.settle(admission.record, 10, 20)
            if number == 1:
                await acct.settle(first.record, 10, 20)
        for _ in range(2):
            with pytest.raises(WeirError) as caught:
                await acct.settle(first.record, 10, 20)
            assert caught.value.reason is Reason.RESERVATION_NOT_FOUND
            await acct.restart(SNAPSHOT)


async def test_a_store_that_lost_its_state_takes_reservations_up_again(tmp_path: Path) -> None:
    async with account(tmp_path / "old", SNAPSHOT) as acct:
        running, ending, waiting = [await acct.reserve(f"r{i}") for i in range(3)]
        await acct.restart(SNAPSHOT, path=tmp_path / "new")
        assert (await acct.remaining())["tenant:acme/tpm"] == 1000
        await acct.extend(running.record, 5)
        await acct.settle(ending.record, 10, 20)
        ended = await acct.refund(waiting.record)
        assert ended.reservation.state is State.REFUNDED
        assert await acct.remaining() == {
            "tenant:acme/tpm": 1000 - 30 - 30,
            "tenant:acme/rpm": 98,
            "tenant:acme/parallel": 49,
            "tenant:acme/in_flight": 4970,
        }
        again = await acct.settle(ending.record, 10, 20)
        assert again.already
        assert (await acct.settle(running.record, 10, 5)).reservation.state is State.SETTLED
        assert await acct.left("tenant:acme/tpm") == 1000 - 15 - 30


class FullDisk:
    """A disk that takes `room` more bytes."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._write = os.write

    def write(self, fd: int, data: bytes) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        room, self._room = self._room, 0
        return self._write(fd, data[:room])


@pytest.mark.parametrize("room", [0, 11])
async def test_a_full_disk_refuses_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    async with account(tmp_path, SNAPSHOT) as acct:
        await some_history(acct)
        before = await everything(acct)
        with monkeypatch.context() as patch:
            patch.setattr("weir_ratelimiter.store.journal.os.write", FullDisk(room).write)
            with pytest.raises(WeirError) as caught:
                await acct.reserve("refused")
        assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
        assert "No space left" in caught.value.message
        assert await everything(acct) == before
        assert (await acct.reserve("refused")).reservation
        after = await everything(acct)
        await acct.restart(SNAPSHOT)
        assert await everything(acct) == after


async def test_fsync_before_each_reply_is_shared_by_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real_fsync = os.fsync
    async with account(tmp_path, SNAPSHOT, MemoryOptions(fsync="always")) as acct:

        def fsync(fd: int) -> None:
            real_fsync(fd)
            synced.append(fd)

        monkeypatch.setattr("weir_ratelimiter.store.journal.os.fsync", fsync)
        await acct.reserve("alone")
        assert len(synced) == 1
        await asyncio.gather(*(acct.reserve(f"r{i}") for i in range(20)))
        assert 2 <= len(synced) <= 4


async def test_a_failed_fsync_ends_all_promises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with account(tmp_path, SNAPSHOT, MemoryOptions(fsync="always")) as acct:
        monkeypatch.setattr("weir_ratelimiter.store.journal.os.fsync", fsync)
        for name in ("a", "b"):
            with pytest.raises(WeirError) as caught:
                await acct.reserve(name)
            assert caught.value.reason is Reason.LIMITER_UNAVAILABLE
            assert "restart" in caught.value.message


def kinds(found: Sequence[tuple[int, frames.Frame]]) -> list[str]:
    return [type(frame).__name__ for _, frame in found]


async def test_a_settlement_and_its_event_are_one_frame(tmp_path: Path) -> None:
    async with account(tmp_path, SNAPSHOT) as acct:
        admission = await acct.reserve()
        await acct.settle(admission.record, 10, 5)
        content = acct.log.journal_path.read_bytes()
    found = list(frames.decode(content, "journal"))
    assert kinds(found) == ["Meta", "End", "Change", "Change"]
    last = found[-1][1]
    assert isinstance(last, Change)
    assert last.event
    assert last.event.charged.completion_tokens == 5
    assert last.reservation
    assert last.reservation.id == last.event.reservation_id


async def test_the_largest_numbers_can_be_written_down(tmp_path: Path) -> None:
    most = 2**53 - 1
    year = directory(tpm(most), limit_per_year(most))
    async with account(tmp_path, year) as acct:
        for admission in [await acct.reserve("a"), await acct.reserve("b")]:
            await acct.settle(admission.record, most, most)
        debt = -most
        assert set((await acct.remaining()).values()) == {debt}
        await acct.restart(year)
        assert set((await acct.remaining()).values()) == {debt}


def limit_per_year(capacity: int) -> pb.Limit:
    kind, resource = pb.LIMIT_KIND_BUCKET, pb.LIMIT_RESOURCE_TOKENS
    return limit("tpy", kind, resource, capacity, refill=1, period_s=366 * 24 * 3600)
