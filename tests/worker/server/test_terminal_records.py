"""Terminal records: kept for a while, bounded, the first one of an attempt stands."""

import grpc
import pytest

from tests.worker.server.support import new_attempt, open_gateway, running_worker, spec
from weir.common.v1.lifecycle_pb2 import Attempt, TerminalRecord
from weir.common.v1.usage_pb2 import Usage
from weir.worker.v1.worker_service_pb2 import GetTerminalRecordRequest
from weir_core.clock import ManualClock
from weir_worker.terminal_records import TerminalRecords


def record(request_id: str, number: int, tokens: int = 0) -> TerminalRecord:
    attempt = Attempt(request_id=request_id, number=number)
    return TerminalRecord(attempt=attempt, usage=Usage(completion_tokens=tokens))


def test_records_can_be_read_for_ten_minutes() -> None:
    clock = ManualClock()
    records = TerminalRecords(clock)
    records.add(record("r", 1))
    clock.advance_us(600_000_000)
    assert records.get("r", 1) == record("r", 1)
    clock.advance_us(1)
    assert records.get("r", 1) is None
    assert records.newest_number("r") == 0
    assert len(records) == 0


def test_a_jump_of_the_wall_clock_ages_nothing() -> None:
    clock = ManualClock()
    records = TerminalRecords(clock)
    records.add(record("r", 1))
    clock.jump_us(10**12)
    assert records.get("r", 1) is not None


def test_number_zero_is_the_newest() -> None:
    records = TerminalRecords(ManualClock())
    records.add(record("r", 2))
    records.add(record("r", 1))
    newest = records.get("r", 0)
    assert newest is not None
    assert newest.attempt.number == 2
    assert records.get("other", 0) is None


def test_the_first_record_of_an_attempt_stands() -> None:
    records = TerminalRecords(ManualClock())
    records.add(record("r", 1, tokens=5))
    records.add(record("r", 1, tokens=9))
    kept = records.get("r", 1)
    assert kept is not None
    assert kept.usage.completion_tokens == 5


def test_the_oldest_go_when_there_are_too_many() -> None:
    records = TerminalRecords(ManualClock(), limit=3)
    for number in range(1, 6):
        records.add(record("r", number))
    assert len(records) == 3
    assert records.get("r", 2) is None
    assert records.get("r", 3) is not None


async def test_records_are_read_by_id() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=12))
        told = (await gateway.ended_answer(key)).terminal
        attempt = Attempt(request_id=key[0], number=key[1])
        answer = await worker.stub.GetTerminalRecord(GetTerminalRecordRequest(attempt=attempt))
        assert answer.terminal == told
        assert answer.terminal.worker_id == worker.app.worker_id
        assert answer.terminal.tenant_id == "acme"
        for missing in (new_attempt(), Attempt(request_id=key[0], number=9)):
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await worker.stub.GetTerminalRecord(GetTerminalRecordRequest(attempt=missing))
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            assert "kept for 600 s" in (unknown.value.details() or "")


async def test_the_record_of_a_running_attempt_is_not_there_yet() -> None:
    async with running_worker() as worker, open_gateway(worker) as gateway:
        (key,) = await gateway.start(spec(max_new_tokens=1000))
        await gateway.until(lambda: gateway.answer(key).token_ids)
        attempt = Attempt(request_id=key[0], number=key[1])
        with pytest.raises(grpc.aio.AioRpcError, match="still runs"):
            await worker.stub.GetTerminalRecord(GetTerminalRecordRequest(attempt=attempt))
