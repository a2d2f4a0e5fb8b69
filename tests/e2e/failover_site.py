"""Two gateways, two workers and two scheduler processes, of which one is active."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import yaml

from tests.gateway.fake_limiter import FakeLimiter
from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import eventually
from tests.ratelimiter.valkey import free_port
from tests.scheduler.leadership.processes import (
    TTL_S,
    SchedulerProcess,
    free_the_lead,
    start_scheduler,
)
from tests.worker.server.support import RunningWorker, running_worker
from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.gateway.v1.inference_service_pb2 import GenerateRequest, TokenInput
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir.scheduler.v1.scheduler_service_pb2 import ListQueueRequest, ListWorkersRequest
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.app import GatewayApp
from weir_gateway.keys import NewKey, generate_key
from weir_gateway.settings import GatewaySettings
from weir_worker.engine.null_folder import ensure_null_model

MODEL = "null"
PLACES = 4
STEP_US = 10_000


@dataclass
class Answer:
    """What the client of one stream has seen."""

    sent_s: float
    tokens: list[int] = field(default_factory=list)
    record: LifecycleRecord | None = None
    error: str = ""


@dataclass
class Site:
    """Everything of a deployment that a test may break or look at."""

    schedulers: list[SchedulerProcess]
    gateways: list[GatewayApp]
    workers: list[RunningWorker]
    limiter: FakeLimiter
    channels: list[grpc.aio.Channel]
    key: NewKey
    restart: Callable[[SchedulerProcess], Awaitable[None]]

    async def active(self) -> SchedulerProcess:
        """The one that is, of those that live and are not stopped."""
        addresses: set[str] = set()

        def agreed() -> bool:
            addresses.clear()
            edges = [gateway.edge for gateway in self.gateways if gateway.edge is not None]
            addresses.update(edge.scheduler.address for edge in edges if edge.scheduler.epoch)
            return len(addresses) == 1 and all(edge.scheduler.epoch for edge in edges)

        await eventually(agreed)
        return next(one for one in self.schedulers if one.address in addresses)

    async def ask(self, number: int, *, prompt: int, output: int) -> Answer:
        """Streams one answer through one of the gateways, to its end."""
        answer = Answer(time.monotonic())
        request = GenerateRequest(
            model=MODEL,
            token_input=TokenInput(token_ids=[65 + number % 26] * prompt),
            max_new_tokens=output,
            sampling=SamplingParams(temperature=0.0, ignore_eos=True),
            stream=True,
        )
        stub: Any = InferenceServiceStub(self.channels[number % len(self.channels)])
        metadata = (("authorization", f"Bearer {self.key.secret}"),)
        try:
            async for response in stub.Generate(request, metadata=metadata, timeout=60):
                answer.tokens.extend(response.delta.token_ids)
                if response.HasField("finished"):
                    answer.record = response.finished.lifecycle
        except grpc.aio.AioRpcError as error:
            answer.error = f"{error.code().name}: {error.details()}"
        return answer

    def running(self) -> int:
        """Attempts in the workers."""
        return sum(len(worker.worker.attempts) for worker in self.workers)

    async def attempts(self) -> int:
        """What the active scheduler counts: waiting, on workers, and workers that it lacks."""
        active = await self.active()
        queue = await active.stub.ListQueue(ListQueueRequest(), timeout=10)
        fleet = await active.stub.ListWorkers(ListWorkersRequest(), timeout=10)
        at_workers = [int(v.pending_attempts + v.running_attempts) for v in fleet.workers]
        missing = len(self.workers) - len(at_workers)
        return int(queue.total) + sum(at_workers) + missing

    async def at_rest(self) -> None:
        """Nothing is left anywhere, and every account was closed once."""
        edges = [gateway.edge for gateway in self.gateways if gateway.edge is not None]
        await eventually(lambda: not any(len(edge.records) for edge in edges))
        await eventually(lambda: not self.limiter.open_accounts)
        assert set(self.limiter.closings) == {1}
        for worker in self.workers:
            await worker.kv_is_free()


def check_answers(answers: Sequence[Answer], output: int) -> None:
    """Each was answered in full, once: no token is missing, and none came twice."""
    assert [answer.error for answer in answers if answer.error] == []
    records = [answer.record for answer in answers if answer.record is not None]
    assert len(records) == len(answers)
    assert Counter(record.outcome for record in records) == {Outcome.OUTCOME_OK: len(answers)}
    assert {record.usage.completion_tokens for record in records} == {output}
    assert {len(answer.tokens) for answer in answers} == {output}
    assert len({record.request_id for record in records}) == len(answers)


def starts(answers: Sequence[Answer]) -> list[tuple[float, float]]:
    """Arrival and begin of the prefill of each answer, seconds, in order of the begin."""
    records = [answer.record for answer in answers if answer.record is not None]
    pairs = [
        (r.accepted_time.ToMicroseconds() / 1e6, r.start_time.ToMicroseconds() / 1e6)
        for r in records
    ]
    return sorted(pairs, key=lambda pair: pair[1])


@asynccontextmanager
async def failover_site(folder: Path, store: str, *more: str) -> AsyncIterator[Site]:
    """Starts it all; gateways and workers live in this process, the schedulers do not."""
    free_the_lead(store)
    async with AsyncExitStack() as stack:
        limiter = FakeLimiter()
        await limiter.server.start()
        stack.push_async_callback(limiter.server.stop)
        ports = [free_port(), free_port()]
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        key = generate_key("dev")
        gateways = await _gateways(stack, folder, limiter, addresses, key)
        options = [
            f"--directory-address={gateways[0].grpc_address}", f"--leader-store={store}",
            f"--leader-ttl-s={TTL_S}", "--takeover-s=3", *more,
        ]  # fmt: skip

        async def start(port: int) -> SchedulerProcess:
            log = folder / f"scheduler-{port}.log"
            mine = [*options, f"--address=127.0.0.1:{port}"]
            return await start_scheduler(stack, log, mine, token=TOKEN)

        async def restart(killed: SchedulerProcess) -> None:
            again = await start(int(killed.address.rpartition(":")[2]))
            site.schedulers[site.schedulers.index(killed)] = again

        schedulers = await asyncio.gather(*(start(port) for port in ports))
        workers = [await _worker(stack, number, addresses) for number in range(2)]
        channels = [grpc.aio.insecure_channel(gateway.grpc_address) for gateway in gateways]
        for channel in channels:
            stack.push_async_callback(channel.close)
        site = Site(list(schedulers), gateways, workers, limiter, channels, key, restart)
        await site.active()
        links = [worker.app.link for worker in workers if worker.app.link is not None]
        await eventually(lambda: all(link.registered for link in links))
        yield site


async def _gateways(
    stack: AsyncExitStack, folder: Path, limiter: FakeLimiter, schedulers: str, key: NewKey
) -> list[GatewayApp]:
    """One with the directory, and one that follows it."""
    file = folder / "directory.yaml"
    await asyncio.to_thread(file.write_text, yaml.safe_dump(_document(folder, key)))
    common: dict[str, Any] = {
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "ratelimiter_address": limiter.server.address,
        "scheduler_address": schedulers,
        "cluster_token": TOKEN,
    }
    first = await _gateway(stack, **common, directory_file=str(file))
    return [
        first,
        await _gateway(stack, **common, role="edge", directory_address=first.grpc_address),
    ]


async def _gateway(stack: AsyncExitStack, **settings: Any) -> GatewayApp:
    telemetry = Telemetry(Tracing("gateway"), create_registry())
    app = GatewayApp(GatewaySettings(**settings), telemetry)
    stack.push_async_callback(app.stop)
    await app.start()
    return app


async def _worker(stack: AsyncExitStack, number: int, schedulers: str) -> RunningWorker:
    return await stack.enter_async_context(
        running_worker(
            worker_id=f"worker-{number}",
            scheduler_address=schedulers,
            cluster_token=TOKEN,
            model_name=MODEL,
            max_context=1_024,
            null_step_us=STEP_US,
            max_concurrent_requests=PLACES,
        )
    )


def _document(folder: Path, key: NewKey) -> dict[str, Any]:
    model = {
        "name": MODEL,
        "versions": [{"version": "1", "folder": str(ensure_null_model(folder / "null"))}],
        "max_context": 1_024,
        "parameters": {"batch_wait_ms": 0},
    }
    hashed = {"id": key.id, "user": "alice", "hash": key.hash.hex()}
    plan = {"id": "plan", "limits": [{"resource": "concurrency", "limit": 1_000}]}
    tenant = {"id": "acme", "plan": "plan", "users": [{"id": "alice"}], "keys": [hashed]}
    return {"plans": [plan], "models": [model], "tenants": [tenant]}
