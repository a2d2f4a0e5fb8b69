import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_core.errors import Reason
from weir_core.rpc.framed import FramedOptions, FramedWriter, PeerLost, StreamClosed, StreamFull

Frame = list[bytes]


def writer_of(**bounds: Any) -> FramedWriter[bytes, Frame]:
    return FramedWriter(
        coalesce=list, ping=list, size_of=len, name="peer", options=FramedOptions(**bounds)
    )


async def written(writer: FramedWriter[bytes, Frame]) -> list[Frame]:
    frames: list[Frame] = []

    async def send(frame: Frame) -> None:
        frames.append(frame)
        await asyncio.sleep(0)

    async with asyncio.timeout(5):
        await writer.run(send)
    return frames


async def test_items_that_wait_together_leave_in_one_frame_in_order() -> None:
    writer = writer_of()
    for item in (b"a", b"b", b"c"):
        writer.put_nowait(item)
    writer.close("done")
    assert await written(writer) == [[b"a", b"b", b"c"]]
    assert writer.queued_bytes == 0


async def test_what_comes_in_the_turn_after_the_first_item_goes_along() -> None:
    writer = writer_of()
    sent = asyncio.create_task(written(writer))
    await asyncio.sleep(0)
    writer.put_nowait(b"a")
    await asyncio.sleep(0)
    writer.put_nowait(b"b")
    writer.close("done")
    assert await sent == [[b"a", b"b"]]


async def test_a_frame_holds_no_more_items_and_bytes_than_allowed() -> None:
    writer = writer_of(max_frame_items=3, max_frame_bytes=10)
    for item in (b"1", b"2", b"3", b"4", b"x" * 9, b"y" * 50, b"z"):
        writer.put_nowait(item)
    writer.close("done")
    frames = await written(writer)
    assert frames == [[b"1", b"2", b"3"], [b"4", b"x" * 9], [b"y" * 50], [b"z"]]


async def test_a_full_queue_refuses_by_items_and_by_bytes_but_takes_control_items() -> None:
    writer = writer_of(max_items=2)
    writer.put_nowait(b"a")
    writer.put_nowait(b"b")
    with pytest.raises(StreamFull) as caught:
        writer.put_nowait(b"c")
    assert caught.value.reason is Reason.QUEUE_FULL
    writer.put_control(b"abort")
    assert len(writer) == 3

    writer = writer_of(max_bytes=10)
    writer.put_nowait(b"x" * 50)
    with pytest.raises(StreamFull):
        writer.put_nowait(b"y")


async def test_put_waits_for_room_in_turn_and_is_released_by_close() -> None:
    writer = writer_of(max_items=1, max_frame_items=1)
    writer.put_nowait(b"0")
    puts = [asyncio.ensure_future(writer.put(str(n).encode())) for n in range(1, 6)]
    await asyncio.sleep(0)
    assert len(writer) == 1
    running = asyncio.ensure_future(written(writer))
    async with asyncio.timeout(5):
        await asyncio.gather(*puts)
    writer.close("done")
    assert await running == [[str(n).encode()] for n in range(6)]

    writer = writer_of(max_items=1)
    writer.put_nowait(b"0")
    waiting = asyncio.ensure_future(writer.put(b"1"))
    await asyncio.sleep(0)
    writer.close("peer gone")
    with pytest.raises(StreamClosed, match="peer gone"):
        await waiting
    with pytest.raises(StreamClosed):
        writer.put_nowait(b"2")
    with pytest.raises(StreamClosed):
        writer.put_control(b"2")


async def test_a_cancelled_put_leaves_the_others_their_turn() -> None:
    writer = writer_of(max_items=1, max_frame_items=1)
    writer.put_nowait(b"0")
    first = asyncio.ensure_future(writer.put(b"1"))
    second = asyncio.ensure_future(writer.put(b"2"))
    await asyncio.sleep(0)
    first.cancel()
    running = asyncio.ensure_future(written(writer))
    async with asyncio.timeout(5):
        await second
    writer.close("done")
    assert await running == [[b"0"], [b"2"]]


async def test_an_idle_writer_pings() -> None:
    writer = writer_of(heartbeat_s=0.02, silence_s=1)
    frames: list[Frame] = []
    three = asyncio.Event()

    async def send(frame: Frame) -> None:
        frames.append(frame)
        if len(frames) == 3:
            three.set()

    running = asyncio.ensure_future(writer.run(send))
    async with asyncio.timeout(5):
        await three.wait()
    writer.close("done")
    await running
    assert frames[:3] == [[], [], []]


async def test_a_write_that_blocks_too_long_loses_the_peer() -> None:
    writer = writer_of(stall_s=0.05)

    async def stuck(_: Frame) -> None:
        await asyncio.sleep(60)

    writer.put_nowait(b"a")
    with pytest.raises(PeerLost, match=r"0\.05 s"):
        await writer.run(stuck)


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="silence_s"):
        FramedOptions(heartbeat_s=5, silence_s=6)
    with pytest.raises(ValueError, match="max_items"):
        FramedOptions(max_items=0)


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=40),
    max_items=st.integers(1, 5),
    max_bytes=st.integers(1, 60),
    max_frame_items=st.integers(1, 4),
    max_frame_bytes=st.integers(1, 50),
    producers=st.integers(1, 4),
)
def test_whatever_the_bounds_every_item_is_sent_once_in_its_producers_order(
    sizes: list[int],
    max_items: int,
    max_bytes: int,
    max_frame_items: int,
    max_frame_bytes: int,
    producers: int,
) -> None:
    async def scenario() -> list[Frame]:
        writer = writer_of(
            max_items=max_items,
            max_bytes=max_bytes,
            max_frame_items=max_frame_items,
            max_frame_bytes=max_frame_bytes,
        )
        items = [f"{i % producers}:{i:03d}:".encode() + b"x" * n for i, n in enumerate(sizes)]

        async def produce(mine: int) -> None:
            for item in items[mine::producers]:
                await writer.put(item)
                assert len(writer) <= max_items
                assert writer.queued_bytes <= max(max_bytes, len(item)) or len(writer) == 1

        running = asyncio.ensure_future(written(writer))
        await asyncio.gather(*(produce(p) for p in range(producers)))
        writer.close("done")
        frames = await running
        for producer in range(producers):
            sent = [i for f in frames for i in f if i.startswith(b"%d:" % producer)]
            assert sent == items[producer::producers]
        return frames

    frames = asyncio.run(scenario())
    for frame in frames:
        assert len(frame) <= max_frame_items
        assert len(frame) == 1 or sum(map(len, frame)) <= max_frame_bytes
    assert sum(map(len, frames)) == len(sizes)
