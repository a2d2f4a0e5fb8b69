"""`GetKvMap` of a running worker: by state and owner, at most once a second, in bounded pieces."""

from array import array
from collections import Counter

import grpc
import pytest

from tests.worker.server.support import (
    RunningWorker,
    eventually,
    open_gateway,
    running_worker,
    spec,
)
from weir.worker.v1.worker_service_pb2 import GetKvMapRequest, KvBlockState, KvMap, KvPolicy
from weir_core.clock import ManualClock
from weir_core.errors import WeirError
from weir_worker import kv_map_report
from weir_worker.engine.events import KvFrame, StepOutput
from weir_worker.engine.load import Load
from weir_worker.kv_map_report import KvMapReport

PROMPT = [65 + index % 26 for index in range(100)]


async def kv_map(worker: RunningWorker, first_block: int = 0) -> KvMap:
    request = GetKvMapRequest(first_block=first_block)
    return (await worker.stub.GetKvMap(request, timeout=10)).map


def blocks(told: KvMap) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    names = ["", *told.tenants]
    for length, state, owner in zip(told.lengths, told.states, told.owners, strict=True):
        found[KvBlockState.Name(state).removeprefix("KV_BLOCK_STATE_"), names[owner]] += length
    return found


async def test_blocks_are_told_by_state_and_tenant() -> None:
    async with running_worker(num_blocks=128) as worker, open_gateway(worker) as gateway:
        keeps = KvPolicy(session_ttl_ms=60_000)
        (turn,) = await gateway.start(
            spec(prompt=40, tenant="kept", private_scope="s-1", kv=keeps, max_new_tokens=4)
        )
        await gateway.ended_answer(turn)
        (shared,) = await gateway.start(spec(prompt=PROMPT, tenant_prefix_tokens=80, tenant="once"))
        await gateway.ended_answer(shared)
        (runs,) = await gateway.start(spec(prompt=33, max_new_tokens=1_600, tenant="runs"))
        load = worker.worker.engine
        await eventually(lambda: load.load.running == 1 and load.load.cached_blocks)
        told = await kv_map(worker)
        assert told.known
        assert told.total_blocks == sum(told.lengths) == 128
        assert told.block_size == worker.worker.engine.ready.block_size
        found = blocks(told)
        assert found["PINNED", "kept"] > 0
        assert found["CACHED", "once"] == load.load.cached_blocks == 6
        assert found["HELD", "runs"] >= 3
        assert sum(found.values()) == 128
        await gateway.abort(runs)
        await gateway.ended_answer(runs)


async def test_a_block_that_is_not_there_is_refused_with_the_bound() -> None:
    async with running_worker(num_blocks=64) as worker:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kv_map(worker, first_block=64)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "first_block is 64; it must be 0 to 63" in str(refused.value.details())


class FakeEngine:
    """Counts how often it is asked, and answers when it is told to."""

    def __init__(self, kv_bytes: int = 1) -> None:
        self.asked = 0
        self.slow = False
        self.ready = type(
            "Ready", (), {"num_blocks": 60_000, "kv_bytes_per_token": kv_bytes, "block_size": 16}
        )()
        self.report: KvMapReport | None = None

    def read_kv(self) -> None:
        self.asked += 1
        if not self.slow:
            self.tell()

    def tell(self) -> None:
        assert self.report is not None
        ones = array("I", [1] * 60_000).tobytes()
        states = bytes([1, 2] * 30_000)
        frame = KvFrame(["acme"], ones, states, array("I", [0, 1] * 30_000).tobytes(), ones)
        self.report.on_output(StepOutput([], [], [], [], Load(), kv=frame))


def report_of(engine: FakeEngine, clock: ManualClock) -> KvMapReport:
    report = engine.report = KvMapReport(engine, clock)  # type: ignore[arg-type]
    return report


async def test_the_engine_is_asked_once_a_second_and_told_in_bounded_pieces() -> None:
    clock, engine = ManualClock(monotonic_us=10_000_000), FakeEngine()
    report = report_of(engine, clock)
    seen, first_block = 0, 0
    while True:
        told = await report.read(first_block)
        assert len(told.lengths) <= kv_map_report.MOST_RUNS
        seen += sum(told.lengths)
        if not told.next_block:
            break
        first_block = told.next_block
    assert seen == 60_000
    assert engine.asked == 1
    clock.advance_us(1_000_000)
    await report.read(0)
    assert engine.asked == 2


async def test_a_look_that_takes_long_is_told_to_whoever_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kv_map_report, "_WAIT_S", 0.02)
    clock, engine = ManualClock(monotonic_us=10_000_000), FakeEngine()
    report, engine.slow = report_of(engine, clock), True
    for _ in range(3):
        with pytest.raises(WeirError, match="the look goes on, ask again"):
            await report.read(0)
        clock.advance_us(4_000_000)
    engine.tell()
    asked = engine.asked
    clock.advance_us(11_000_000)
    assert (await report.read(0)).known
    assert engine.asked == asked
    clock.advance_us(2_000_000)
    engine.slow = False
    assert (await report.read(0)).known
    assert engine.asked == asked + 1
    clock.advance_us(1_000_000)
    await report.read(0)
    assert engine.asked == asked + 2, "it was quick again"


async def test_of_an_engine_elsewhere_nothing_is_known() -> None:
    engine = FakeEngine(kv_bytes=0)
    told = await report_of(engine, ManualClock()).read(0)
    assert not told.known
    assert "another engine" in told.why
    assert engine.asked == 0


async def test_an_idle_engine_tells_of_many_blocks_at_once() -> None:
    async with running_worker(num_blocks=200_000, max_context=2048, process=True) as worker:
        told = await kv_map(worker)
        assert list(told.lengths) == [200_000]
        assert [*told.states] == [KvBlockState.KV_BLOCK_STATE_FREE]
