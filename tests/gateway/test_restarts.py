"""Processes that die, stop and come back around running requests."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.endings import (
    ESTIMATED,
    OpenStream,
    settled,
)
from tests.gateway.fake_worker import Script
from tests.gateway.harness import eventually, running_gateway
from weir.common.v1.lifecycle_pb2 import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_worker_that_dies_mid_stream_is_settled_from_progress(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=4)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
        await eventually(lambda: gateway.scheduler.first_tokens and gateway.worker.tokens == 4)
        gateway.worker._running.clear()
        await gateway.worker.server.stop()
        response = await task
        assert "worker_lost" in response.text
        account, record = await settled(gateway)
        assert account.settles[0].usage.completion_tokens == 4
        assert account.settles[0].usage_quality == ESTIMATED
        assert record.outcome == Outcome.OUTCOME_ERROR


async def test_what_waits_survives_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.scheduler.hold = True
        task = asyncio.create_task(gateway.chat(stream=True))
        await eventually(lambda: gateway.scheduler.enqueued)
        first = gateway.scheduler.enqueued[0]
        await gateway.scheduler.server.stop()
        gateway.scheduler.reset()
        await gateway.scheduler.server.start()
        response = await task
        assert response.status_code == 200
        (again,) = gateway.scheduler.enqueued
        assert again.request_id == first.request_id
        assert again.arrival_time == first.arrival_time
        await gateway.at_rest()


async def test_what_runs_survives_the_loss_of_the_scheduler(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, OpenStream(gateway, 2):
        await gateway.scheduler.server.stop()
        gateway.worker.resume.set()
        _, record = await settled(gateway)
        assert record.outcome == Outcome.OUTCOME_OK
        assert record.usage.completion_tokens == 50
        await gateway.scheduler.server.start()
        await eventually(lambda: len(gateway.scheduler.gateways) == 1)


async def test_without_a_scheduler_requests_are_shed_in_bounded_time(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, scheduler_wait_s=0.2) as gateway:
        await gateway.scheduler.server.stop()
        response = await gateway.chat()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "scheduler_unavailable"
        await gateway.at_rest()
        (account,) = gateway.limiter.accounts.values()
        assert account.refunds
        ready = await gateway.http.get("/healthz/ready")
        assert (ready.status_code, ready.json()["reason"]) == (
            503,
            "the scheduler is not connected",
        )


async def test_a_gateway_that_stops_settles_what_runs(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=2)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=50))
        await eventually(lambda: gateway.scheduler.first_tokens and gateway.worker.tokens == 2)
        draining = asyncio.create_task(gateway.app.drain())
        edge = gateway.app.edge
        assert edge is not None
        await eventually(lambda: edge.desk.draining)
        refused = await gateway.chat()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert not draining.done()
        await gateway.app.stop()
        await draining
        assert "draining" in (await task).text
        account, _ = await settled(gateway)
        assert account.settles[0].usage.completion_tokens == 2


async def test_a_drain_waits_for_the_last_answer(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pause_after=1)
        task = asyncio.create_task(gateway.chat(stream=True, max_tokens=3))
        await eventually(lambda: gateway.scheduler.first_tokens)
        draining = asyncio.create_task(gateway.app.drain())
        await eventually(lambda: gateway.worker.running)
        gateway.worker.resume.set()
        await draining
        assert "t2 " in (await task).text
