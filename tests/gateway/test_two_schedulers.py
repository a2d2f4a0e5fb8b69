"""A gateway of several schedulers: a standby, one that was replaced, one that takes over."""

import asyncio
from pathlib import Path
from typing import Any

from tests.gateway.endings import OpenStream, settled
from tests.gateway.fake_scheduler import FakeScheduler
from tests.gateway.fake_server import FakeServer
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.scheduler.v1.scheduler_service_pb2_grpc import (
    SchedulerServiceServicer,
    add_SchedulerServiceServicer_to_server,
)
from weir_core.errors import Reason, WeirError
from weir_gateway.links.scheduler_link import SchedulerLink


class Standby(SchedulerServiceServicer):
    """Refuses every gateway, and names the active one if it is told which."""

    def __init__(self) -> None:
        self.leader = ""
        self.asked = 0
        self.server = FakeServer(lambda s: add_SchedulerServiceServicer_to_server(self, s))

    async def Dispatch(  # type: ignore[override]  # noqa: N802
        self, request_iterator: Any, context: Any
    ) -> None:
        self.asked += 1
        metadata = {"leader": self.leader} if self.leader else {}
        raise WeirError(Reason.NOT_LEADER, "this scheduler is on standby", metadata=metadata)


def link_of(gateway: Gateway) -> SchedulerLink:
    edge = gateway.app.edge
    assert edge is not None
    return edge.scheduler


async def test_what_runs_and_what_waits_is_told_to_the_one_that_takes_over(
    tmp_path: Path,
) -> None:
    """The stream to the client goes on meanwhile: tokens never pass a scheduler."""
    standby = Standby()  # type: ignore[abstract]
    other = FakeScheduler([])
    await standby.server.start()
    await other.server.start()
    addresses = [standby.server.address, other.server.address]
    async with running_gateway(tmp_path, more_schedulers=addresses) as gateway:
        async with OpenStream(gateway, 2) as stream:
            gateway.scheduler.hold = True
            waiting = asyncio.create_task(gateway.chat(max_tokens=3))
            await eventually(lambda: len(gateway.scheduler.enqueued) == 2)
            runs, waits = gateway.scheduler.enqueued
            other.workers, other.epoch = gateway.workers, 9
            standby.leader = other.server.address
            asked = standby.asked
            await gateway.scheduler.server.stop()
            await eventually(lambda: link_of(gateway).address == other.server.address)
            await eventually(lambda: other.adopted and other.first_tokens)
            assert standby.asked <= asked + 1
            [told] = other.adopted
            assert (told.request_id, told.attempts) == (runs.request_id, 1)
            assert told.running_worker_id == gateway.worker.worker_id
            assert told.arrival_time == runs.arrival_time
            await eventually(lambda: other.enqueued)
            [again] = other.enqueued
            assert (again.request_id, again.attempts) == (waits.request_id, 0)
            assert again.arrival_time == waits.arrival_time
            assert not waits.HasField("waiting_since")
            assert again.waiting_since == waits.arrival_time
            gateway.worker.resume.set()
            assert "t49 " in await stream.rest()
        assert (await waiting).status_code == 200
        await eventually(lambda: len(other.finished) == 2)
        finished = {end.attempt.request_id for end in other.finished}
        assert finished == {runs.request_id, waits.request_id}
        await gateway.at_rest()
    await standby.server.stop()
    await other.server.stop()


async def test_a_scheduler_of_an_older_term_is_not_listened_to(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.scheduler.epoch = 7
        gateway.scheduler.drop_streams()
        await eventually(lambda: link_of(gateway).epoch > 1)
        gateway.scheduler.epoch = 6
        connections = link_of(gateway).epoch
        gateway.scheduler.drop_streams()
        waiting = asyncio.create_task(gateway.chat(max_tokens=3))
        await eventually(lambda: link_of(gateway).epoch == 0)
        streams = gateway.scheduler.streams
        await eventually(lambda: gateway.scheduler.streams > streams)
        assert gateway.scheduler.enqueued == []
        gateway.scheduler.epoch = 8
        assert (await waiting).status_code == 200
        assert link_of(gateway).epoch == connections + 1
        await gateway.at_rest()


async def test_an_attempt_that_a_worker_refuses_for_its_term_is_tried_again(
    tmp_path: Path,
) -> None:
    """Nothing was streamed: the client sees nothing of it, and the worker has done no wrong."""
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(refuse=True, error=Reason.NOT_LEADER)
        answer = asyncio.create_task(gateway.chat(max_tokens=3))
        await eventually(lambda: gateway.worker.specs)
        gateway.scheduler.hold = True
        await eventually(lambda: gateway.scheduler.failed)
        gateway.worker.script = Script()
        gateway.scheduler.release()
        assert (await answer).status_code == 200
        assert not any(failed.worker_fault for failed in gateway.scheduler.failed)
        _, record = await settled(gateway)
        assert record.outcome == Outcome.OUTCOME_OK
        assert record.attempts == len(gateway.scheduler.failed) + 1
