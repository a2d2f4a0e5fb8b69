"""A ratelimiter that is away, comes back, or answers too late: no account is left open."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from tests.gateway.fake_limiter import FakeLimiter
from tests.gateway.fake_server import TOKEN
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.usage_pb2 import UsageQuality
from weir.ratelimiter.v1.ratelimiter_service_pb2 import ReserveRequest
from weir_gateway.flow.unheard import Unheard
from weir_gateway.links.limiter import Limiter
from weir_gateway.links.limiter_channel import open_limiter_channel

pytestmark = pytest.mark.asyncio(loop_scope="module")


def unheard(gateway: Gateway) -> Unheard:
    edge = gateway.app.edge
    assert edge is not None
    return edge.unheard


async def test_a_stream_ends_and_is_settled_once_the_limiter_is_back(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=2)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=5))
        await eventually(lambda: gateway.scheduler.first_tokens)
        await gateway.limiter.server.stop()
        gateway.worker.resume.set()
        response = await task
        assert "t4 " in response.text
        assert "error" not in response.text
        assert len(unheard(gateway)) == 1
        draining = asyncio.create_task(gateway.app.drain())
        await gateway.limiter.server.start()
        await draining
        (settlement,) = gateway.limiter.only().settles
        assert settlement.usage.completion_tokens == 5
        assert not gateway.limiter.only().refunds


async def test_what_is_reserved_can_be_used_while_the_limiter_is_away(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, lease_s=3.0, extend_lookahead=4) as gateway:
        gateway.limiter.reserve_output = 10
        gateway.worker.script = Script(pause_after=2, step_s=0.05)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=200))
        await eventually(lambda: gateway.scheduler.first_tokens)
        await gateway.limiter.server.stop()
        gateway.worker.resume.set()
        response = await task
        # Not stopped with the tenth token, but when the lease has lapsed.
        assert "t10 " in response.text
        assert "t199 " not in response.text
        assert "limiter_unavailable" in response.text
        await gateway.limiter.server.start()
        await gateway.at_rest()
        (settlement,) = gateway.limiter.only().settles
        assert settlement.outcome == Outcome.OUTCOME_ERROR
        assert settlement.usage_quality == UsageQuality.USAGE_QUALITY_EXACT


async def test_a_reservation_whose_answer_was_lost_is_given_back(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, limiter_timeout_s=1.5) as gateway:
        gate = gateway.limiter.answer_gate = asyncio.Event()
        response = await gateway.chat()
        assert (response.status_code, response.json()["error"]["code"]) == (
            503,
            "limiter_unavailable",
        )
        assert int(response.headers["retry-after"]) >= 1
        account = gateway.limiter.only()
        assert account.open
        gate.set()
        await gateway.at_rest()
        assert len(account.refunds) == 1


async def test_what_never_left_is_not_asked_again(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        await gateway.limiter.server.stop()
        assert (await gateway.chat()).status_code == 503
        before = len(unheard(gateway))
        for _ in range(3):
            response = await gateway.chat()
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) >= 1
        assert len(unheard(gateway)) == before


async def test_a_shutdown_settles_what_a_silent_worker_holds(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, abort_wait_s=30) as gateway:
        gateway.worker.script = Script(silent=True)
        task = asyncio.create_task(gateway.chat(stream=True))
        await eventually(lambda: gateway.worker.specs)
        await gateway.app.stop()
        assert (await task).status_code == 503
        (settlement,) = gateway.limiter.only().settles
        assert settlement.usage_quality == UsageQuality.USAGE_QUALITY_UNKNOWN


async def test_of_two_limiters_either_may_go(tmp_path: Path) -> None:
    second = FakeLimiter()
    await second.server.start()
    try:
        async with running_gateway(tmp_path, more_limiters=[second.server.address]) as gateway:
            first = gateway.limiter
            for gone, left in ((first, second), (second, first)):
                await gone.server.stop()
                # The one that is left may have been connected to just now.
                await eventually_answered(gateway)
                before = len(left.accounts)
                for _ in range(3):
                    assert (await gateway.chat()).status_code == 200
                # More if a call whose answer was lost is undone meanwhile.
                assert len(left.accounts) >= before + 3
                await gone.server.start()
    finally:
        await second.server.stop()


async def eventually_answered(gateway: Gateway) -> None:
    async with asyncio.timeout(10):
        while (await gateway.chat()).status_code != 200:
            await asyncio.sleep(0.05)


async def test_single_calls_go_round_limiters_and_pass_over_one_that_died() -> None:
    first, second = FakeLimiter(), FakeLimiter()
    for limiter in (first, second):
        await limiter.server.start()
    address = f"{first.server.address},{second.server.address}"
    try:
        async with open_limiter_channel(address, TOKEN) as channel:
            client = Limiter(channel)
            async with asyncio.timeout(10):
                for number in count():
                    if first.accounts and second.accounts:
                        break
                    await client.reserve(ReserveRequest(request_id=f"early-{number}"))
            await first.server.stop()
            before = len(second.accounts)
            for number in range(4):
                await client.reserve(ReserveRequest(request_id=f"later-{number}"))
            assert len(second.accounts) == before + 4
    finally:
        for limiter in (first, second):
            await limiter.server.stop()
