"""Execute: many attempts of several gateways, one stream and one writer for each gateway."""

import asyncio

from tests.worker.server.support import eventually, open_gateway, running_worker, spec
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.sampling_pb2 import FinishReason
from weir.worker.v1.worker_service_pb2 import ExecuteRequest
from weir_worker.frame_pace import FramePace


async def test_two_gateways_share_a_worker() -> None:
    async with (
        running_worker() as worker,
        open_gateway(worker, "gw-1") as first,
        open_gateway(worker, "gw-2") as second,
    ):
        mine = await first.start(*(spec(max_new_tokens=30) for _ in range(8)))
        theirs = await second.start(*(spec(max_new_tokens=30) for _ in range(8)))
        for gateway, keys in ((first, mine), (second, theirs)):
            for key in keys:
                answer = await gateway.ended_answer(key)
                usage = answer.terminal.usage
                assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
                assert len(answer.token_ids) == answer.completion_tokens == 30
                assert (usage.prompt_tokens, usage.completion_tokens) == (20, 30)
                assert usage.total_tokens == 50
                assert len(answer.text) == 30
        assert set(first.answers) == set(mine)
        assert set(second.answers) == set(theirs)
        assert worker.metric("weir_worker_gateway_streams") == 2
        await worker.kv_is_free()


async def test_the_news_of_a_step_is_one_frame() -> None:
    async with running_worker(null_step_us=5000) as worker, open_gateway(worker) as gateway:
        keys = await gateway.start(*(spec(max_new_tokens=20) for _ in range(16)))
        for key in keys:
            await gateway.ended_answer(key)
        frames = [frame for frame in gateway.frames if frame.deltas or frame.terminals]
        steps = worker.metric("weir_worker_steps_total")
        assert steps is not None
        assert len(frames) <= steps
        assert max(len(frame.deltas) for frame in frames) == 16


async def test_quick_steps_leave_together_and_first_tokens_and_ends_at_once() -> None:
    async with (
        running_worker(null_step_us=2_000, stream_interval_ms=200) as worker,
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(max_new_tokens=60))
        answer = await gateway.ended_answer(key)
        assert len(answer.token_ids) == answer.completion_tokens == 60
        deltas = [len(d.token_ids) for frame in gateway.frames for d in frame.deltas]
        assert deltas[0] == 1, "nobody waits for a first token"
        assert len(deltas) < 30, "120 ms of steps at 200 ms: most of it comes with the end"
        (late,) = await gateway.start(spec(max_new_tokens=60))
        await gateway.ended_answer(late)
        assert len(gateway.answer(late).token_ids) == 60


async def test_what_no_further_step_takes_along_leaves_by_itself() -> None:
    released: list[float] = []
    loop = asyncio.get_running_loop()
    pace = FramePace(0.02, lambda: released.append(loop.time()))
    assert pace.due()
    began = loop.time()
    pace.sent()
    assert pace.due(), "what comes in the same turn goes along"
    await asyncio.sleep(0)
    assert not pace.due()
    pace.hold()
    await eventually(lambda: bool(released))
    assert released[0] - began >= 0.039
    assert pace.due()


async def test_the_end_of_a_stream_aborts_what_was_started_on_it() -> None:
    async with (
        running_worker() as worker,
        open_gateway(worker, "gw-1") as cut,
        open_gateway(worker, "gw-2") as other,
    ):
        lost = await cut.start(*(spec(max_new_tokens=1500) for _ in range(5)))
        (kept,) = await other.start(spec(max_new_tokens=200))
        await cut.until(lambda: all(cut.answer(key).token_ids for key in lost))
        await cut.cut()
        await eventually(lambda: len(worker.worker.attempts) <= 1)
        for key in lost:
            record = worker.worker.attempts.record(*key)
            assert record.finish_reason == FinishReason.FINISH_REASON_ABORT
            assert record.error_reason == ErrorReason.ERROR_REASON_CANCELLED
            assert len(cut.answer(key).token_ids) <= record.usage.completion_tokens < 1500
            assert record.usage.prompt_tokens == 20
        answer = await other.ended_answer(kept)
        assert answer.terminal.finish_reason == FinishReason.FINISH_REASON_LENGTH
        assert len(answer.token_ids) == 200
        await worker.kv_is_free()
        assert len(worker.worker.streams) == 1


async def test_a_gateway_that_does_not_read_holds_up_nobody_and_loses_nothing() -> None:
    async with (
        running_worker(null_step_us=0, num_blocks=4096) as worker,
        open_gateway(worker, "slow", read=False) as slow,
        open_gateway(worker, "fast") as fast,
    ):
        waiting = await slow.start(*(spec(max_new_tokens=1500) for _ in range(16)))
        await eventually(lambda: worker.metric("weir_worker_generation_tokens_total"))
        (key,) = await fast.start(spec(max_new_tokens=100))
        assert len((await fast.ended_answer(key)).token_ids) == 100
        # 16 x 1500 tokens are far more than the transport takes from a reader that sleeps.
        await eventually(lambda: not len(worker.worker.attempts), 20)
        slow.read_on()
        for key in waiting:
            answer = await slow.ended_answer(key)
            assert len(answer.token_ids) == len(answer.text) == answer.completion_tokens == 1500
            assert answer.terminal.usage.completion_tokens == 1500
        assert any(len(delta.token_ids) > 1 for frame in slow.frames for delta in frame.deltas)


async def test_a_gateway_that_never_reads_is_lost() -> None:
    async with (
        running_worker(null_step_us=0, num_blocks=8192, stall_s=0.3, max_context=8192) as worker,
        open_gateway(worker, read=False) as gateway,
    ):
        await gateway.start(*(spec(max_new_tokens=8000) for _ in range(16)))
        await eventually(lambda: len(worker.worker.streams) == 0, 20)
        await worker.kv_is_free()


async def test_a_silent_gateway_is_lost() -> None:
    async with (
        running_worker(heartbeat_s=0.1, silence_s=1.2) as worker,
        open_gateway(worker) as gateway,
    ):
        (key,) = await gateway.start(spec(max_new_tokens=2000))
        await eventually(lambda: gateway.ended)
        await worker.kv_is_free()
        assert worker.worker.attempts.record(*key).usage.completion_tokens < 2000


async def test_an_idle_stream_gets_heartbeats_and_lives_by_them() -> None:
    async with (
        running_worker(heartbeat_s=0.1, silence_s=3.0) as worker,
        open_gateway(worker) as gateway,
    ):
        for _ in range(16):
            await gateway.send(ExecuteRequest())
            await asyncio.sleep(0.2)
        assert not gateway.ended
        assert len(gateway.frames) >= 4
        assert not any(frame.deltas or frame.terminals for frame in gateway.frames)


async def test_cached_prompt_tokens_come_with_the_first_delta() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (first,) = await gateway.start(spec(prompt=200, tenant_prefix_tokens=160))
        assert (await gateway.ended_answer(first)).cached_prompt_tokens == 0
        (second,) = await gateway.start(spec(prompt=200, tenant_prefix_tokens=160))
        answer = await gateway.ended_answer(second)
        assert answer.cached_prompt_tokens == 160
        assert answer.terminal.usage.cached_prompt_tokens == 160
        assert answer.terminal.usage.prompt_tokens == 200
