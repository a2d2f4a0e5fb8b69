"""Numbers and names that the domain shares with the contracts; time; the outbox."""

from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from tests.ratelimiter.account import account, directory, tpm
from weir.common.v1 import lifecycle_pb2, usage_pb2
from weir.directory.v1 import directory_pb2
from weir.ratelimiter.v1 import ratelimiter_service_pb2
from weir_core.clock import ManualClock
from weir_ratelimiter.domain.limit import LIMIT_TYPES, Kind, Resource
from weir_ratelimiter.domain.reservation import State
from weir_ratelimiter.domain.settlement import OUTCOME_EXPIRED
from weir_ratelimiter.domain.usage import Quality
from weir_ratelimiter.steady_time import SteadyTime


@pytest.mark.parametrize(
    ("ours", "wire", "prefix"),
    [
        (Kind, directory_pb2.LimitKind, "LIMIT_KIND_"),
        (Resource, directory_pb2.LimitResource, "LIMIT_RESOURCE_"),
        (State, ratelimiter_service_pb2.ReservationState, "RESERVATION_STATE_"),
        (Quality, usage_pb2.UsageQuality, "USAGE_QUALITY_"),
    ],
)
def test_numbers_are_those_of_the_contract(ours: type[IntEnum], wire: Any, prefix: str) -> None:
    assert {member.name: member.value for member in ours}.items() <= {
        name.removeprefix(prefix): number for name, number in wire.items()
    }.items()


def test_every_resource_has_a_limit_type() -> None:
    assert set(LIMIT_TYPES) == set(Resource)
    assert lifecycle_pb2.OUTCOME_EXPIRED == OUTCOME_EXPIRED


def test_steady_time_runs_and_never_jumps() -> None:
    clock = ManualClock()
    time = SteadyTime(clock)
    start = time.now_ms()
    assert start == clock.now_ms()
    clock.jump_us(-3_600_000_000)
    clock.advance_us(1_500_000)
    clock.jump_us(86_400_000_000)
    assert time.now_ms() == start + 1_500


async def test_acknowledged_events_are_gone_for_good(tmp_path: Path) -> None:
    snapshot = directory(tpm(1000))
    async with account(tmp_path, snapshot) as acct:
        for number in range(3):
            admission = await acct.reserve(f"r{number}")
            await acct.settle(admission.record, 10, number)
        assert [entry.id for entry in await acct.store.outbox(2)] == ["1", "2"]
        await acct.store.acknowledge(["2", "1", "7"])
        for _ in range(3):
            [entry] = await acct.store.outbox(10)
            assert (entry.id, entry.event.charged.completion_tokens) == ("3", 2)
            await acct.restart(snapshot)
        admission = await acct.reserve("later")
        await acct.settle(admission.record, 10, 0)
        assert [entry.id for entry in await acct.store.outbox(10)] == ["3", "4"]
