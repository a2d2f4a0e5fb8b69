"""Real scheduler processes that share a lease, to be killed and stopped."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import redis
from pydantic import SecretStr

from tests.scheduler.live import (
    TOKEN,
    DirectoryStub,
    GatewayPeer,
    WorkerPeer,
    default_snapshot,
    eventually,
)
from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2_grpc import add_DirectoryServiceServicer_to_server
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_scheduler.leadership.lease_record import LeaseRecord, LeaseState

TTL_S = 4.0
KEY = "weir:scheduler:leader"
_START_S = 60.0


@dataclass
class SchedulerProcess:
    """One run of `python -m weir_scheduler`."""

    process: asyncio.subprocess.Process
    address: str
    channel: ServiceChannel
    log: Path
    peers: list[GatewayPeer | WorkerPeer] = field(default_factory=list)

    @property
    def stub(self) -> Any:
        return SchedulerServiceStub(self.channel)

    async def refusal(self) -> WeirError | None:
        """Why it takes no calls now; None when it is active."""
        try:
            await self.stub.ListWorkers(wire.ListWorkersRequest(), timeout=2)
        except grpc.aio.AioRpcError as error:
            return from_rpc_error(error, unavailable_as=Reason.SCHEDULER_UNAVAILABLE)
        return None

    async def active(self) -> bool:
        return await self.refusal() is None

    async def gateway(self, gateway_id: str = "gw") -> GatewayPeer:
        peer = GatewayPeer(self.stub.Dispatch(), gateway_id)
        self.peers.append(peer)
        await peer.send()
        return peer

    async def worker(self, worker_id: str = "w1", **fields: Any) -> WorkerPeer:
        running = fields.pop("running", {})
        peer = WorkerPeer(self.stub.ConnectWorker(), worker_id, fields)
        peer.running.update(running)
        self.peers.append(peer)
        await peer.register()
        return peer

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def schedulers(
    count: int, folder: Path, leader_store: str, *more: str, snapshot: Snapshot | None = None
) -> AsyncIterator[list[SchedulerProcess]]:
    """Processes of one deployment, all of them gone afterwards."""
    free_the_lead(leader_store)
    async with AsyncExitStack() as stack:
        server = grpc.aio.server()
        add_DirectoryServiceServicer_to_server(
            DirectoryStub(snapshot or default_snapshot()), server
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, 0)
        options = [
            f"--directory-address=127.0.0.1:{port}",
            f"--leader-store={leader_store}",
            f"--leader-ttl-s={TTL_S}",
            *more,
        ]
        starts = [
            start_scheduler(stack, folder / f"{number}.log", options) for number in range(count)
        ]
        yield list(await asyncio.gather(*starts))


def free_the_lead(store: str) -> None:
    """Says in a store of either kind that nobody leads."""
    text = LeaseRecord(LeaseState.FREE, "nobody", "", 1, 1).text()
    if store.startswith("file://"):
        Path(store.removeprefix("file://")).write_text(text)
        return
    with redis.Redis.from_url(store) as client:
        client.set(KEY, text)


async def start_scheduler(
    stack: AsyncExitStack, log: Path, options: Sequence[str], token: SecretStr = TOKEN
) -> SchedulerProcess:
    """Starts one; it ends with the stack."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "weir_scheduler", "--address=127.0.0.1:0",
            "--metrics-address=", "--takeover-s=0.2", "--grace-s=0", *options,
            env={**os.environ, "WEIR_CLUSTER_TOKEN": token.get_secret_value()},
            stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    stack.push_async_callback(_end, process)
    assert process.stdout
    line = await asyncio.wait_for(process.stdout.readline(), _START_S)
    ready = json.loads(line or b"{}")
    assert ready.get("event") == "ready", f"see {log}"
    channel = open_channel(ready["grpc"], name="scheduler", token=token)
    scheduler = SchedulerProcess(process, ready["grpc"], channel, log)
    stack.push_async_callback(_close, scheduler)
    return scheduler


async def the_active_one(
    among: Sequence[SchedulerProcess], timeout_s: float = 20
) -> SchedulerProcess:
    """Waits until one is active."""
    found: list[SchedulerProcess] = []

    async def one() -> bool:
        found[:] = [scheduler for scheduler in among if await scheduler.active()]
        return bool(found)

    await eventually(one, timeout_s)
    return found[0]


async def _close(scheduler: SchedulerProcess) -> None:
    for peer in scheduler.peers:
        await peer.close()
    await scheduler.channel.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
    await process.wait()
