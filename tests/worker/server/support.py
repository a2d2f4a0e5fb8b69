"""A real worker on port 0, gateways that talk to it, and a scheduler that follows a script."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest
from pydantic import SecretStr

from weir.common.v1.lifecycle_pb2 import (
    Attempt,
    Grant,
    Outcome,
    SignedGrant,
    TerminalRecord,
    TraceContext,
)
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.scheduler.v1.scheduler_service_pb2 import ConnectWorkerRequest, ConnectWorkerResponse
from weir.scheduler.v1.scheduler_service_pb2_grpc import (
    SchedulerServiceServicer,
    add_SchedulerServiceServicer_to_server,
)
from weir.scheduler.v1.worker_report_pb2 import (
    AttemptEnd,
    WorkerParameters,
    WorkerRegistered,
    WorkerRegistration,
    WorkerReport,
)
from weir.worker.v1.worker_service_pb2 import (
    AbortAttempt,
    ExecuteRequest,
    ExecuteResponse,
    GenerationSpec,
    StartAttempt,
)
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_core.clock import SystemClock
from weir_core.grants import sign_grant
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.rpc.server import create_server
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_worker.app import WorkerApp
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.factory import build_engine
from weir_worker.engine.launchers import ThreadLauncher
from weir_worker.settings import WorkerSettings
from weir_worker.worker import Worker

if TYPE_CHECKING:
    from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceAsyncStub

SECRET = "x" * 32
CLOCK = SystemClock()
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
_numbers = itertools.count(1)


async def eventually(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Returns once the condition holds; fails after `timeout_s`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while not condition():
        assert loop.time() < end, f"did not come true within {timeout_s} s"
        await asyncio.sleep(0.005)


@dataclass
class RunningWorker:
    """A worker and a channel to it."""

    app: WorkerApp
    channel: ServiceChannel
    spans: InMemorySpanExporter
    telemetry: Telemetry
    ends: list[tuple[str, bool]]

    @property
    def stub(self) -> "WorkerServiceAsyncStub":
        return WorkerServiceStub(self.channel)

    @property
    def worker(self) -> Worker:
        assert self.app.worker is not None
        return self.app.worker

    def metric(self, name: str, **labels: str) -> float | None:
        return self.telemetry.registry.get_sample_value(name, labels)

    def metrics_text(self) -> str:
        return generate_latest(self.telemetry.registry).decode()

    async def kv_is_free(self, timeout_s: float = 20.0) -> None:
        """Returns once nothing runs and every block is free or cached."""
        engine = self.worker.engine
        await eventually(
            lambda: (
                not len(self.worker.attempts)
                and engine.load.running == engine.load.waiting == 0
                and engine.load.held_blocks == 0
                and engine.load.free_blocks + engine.load.cached_blocks == engine.ready.num_blocks
            ),
            timeout_s,
        )


def worker_settings(**changes: Any) -> WorkerSettings:
    values: dict[str, Any] = {
        "address": "127.0.0.1:0",
        "metrics_address": "",
        "cluster_token": SecretStr(SECRET),
        "model_name": "test-model",
        "num_blocks": 256,
        "max_context": 2048,
        "null_step_us": 1000,
        "grace_s": 0.5,
    }
    return WorkerSettings(**(values | changes))


@asynccontextmanager
async def running_worker(*, process: bool = False, **changes: Any) -> AsyncIterator[RunningWorker]:
    """A worker of the null model; its engine is a thread unless a `process` is asked for."""
    settings = worker_settings(**changes)
    spans = InMemorySpanExporter()
    tracing = Tracing("weir-worker", processor=SimpleSpanProcessor(spans))
    telemetry = Telemetry(tracing, create_registry())
    ends: list[tuple[str, bool]] = []
    app = WorkerApp(
        settings,
        telemetry,
        on_end=lambda why, failed: ends.append((why, failed)),
        launcher=None if process else thread_engine(settings.engine_config()),
    )
    channel = None
    try:
        await app.start()
        channel = open_channel(app.address, name="worker", token=SecretStr(SECRET))
        yield RunningWorker(app, channel, spans, telemetry, ends)
    finally:
        if channel is not None:
            await channel.close()
        await app.stop()


def thread_engine(config: EngineConfig) -> ThreadLauncher:
    return ThreadLauncher(lambda: build_engine(config))


def new_attempt(number: int = 1) -> Attempt:
    return Attempt(request_id=f"req_{next(_numbers):06d}", number=number)


def spec(
    attempt: Attempt | None = None,
    *,
    prompt: int | list[int] = 20,
    max_new_tokens: int = 8,
    tenant: str = "acme",
    **fields: object,
) -> GenerationSpec:
    """A start of the null model; a prompt given as a number has so many tokens."""
    ids = [65 + i % 26 for i in range(prompt)] if isinstance(prompt, int) else prompt
    values: dict[str, object] = {
        "sampling": SamplingParams(temperature=0),
        "model": "test-model",
        "trace": TraceContext(traceparent=f"00-{TRACE_ID}-b7ad6b7169203331-01"),
    }
    return GenerationSpec(
        attempt=attempt or new_attempt(),
        tenant_id=tenant,
        prompt_token_ids=ids,
        max_new_tokens=max_new_tokens,
        **(values | fields),  # type: ignore[arg-type]
    )


def grant_for(
    worker_id: str,
    wanted: GenerationSpec,
    *,
    secret: str = SECRET,
    valid_s: float = 30,
    **fields: object,
) -> SignedGrant:
    values: dict[str, object] = {
        "attempt": wanted.attempt,
        "tenant_id": wanted.tenant_id,
        "model": wanted.model,
        "max_new_tokens": wanted.max_new_tokens * max(1, wanted.sampling.n),
    }
    grant = Grant(worker_id=worker_id, **(values | fields))  # type: ignore[arg-type]
    grant.expire_time.FromMicroseconds(CLOCK.now_us() + round(valid_s * 1e6))
    return sign_grant(grant, secret.encode())


@dataclass
class Answer:
    """What has come for one attempt."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    deltas: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    terminals: list[TerminalRecord] = field(default_factory=list)

    @property
    def terminal(self) -> TerminalRecord:
        (only,) = self.terminals
        return only


class Gateway:
    """A gateway's end of `Execute`."""

    def __init__(self, worker: RunningWorker, gateway_id: str = "gw-1") -> None:
        self.answers: dict[tuple[str, int], Answer] = {}
        self.frames: list[ExecuteResponse] = []
        self._worker = worker
        self._id = gateway_id
        self._call: grpc.aio.StreamStreamCall[ExecuteRequest, ExecuteResponse] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._turn = asyncio.Lock()

    async def open(self, *, read: bool = True) -> "Gateway":
        self._call = self._worker.stub.Execute()
        await self._call.write(ExecuteRequest(gateway_id=self._id))
        if read:
            self.read_on()
        return self

    def read_on(self) -> None:
        self._reader = asyncio.create_task(self._read())

    @property
    def ended(self) -> bool:
        return self._reader is not None and self._reader.done()

    async def send(self, frame: ExecuteRequest) -> None:
        assert self._call is not None
        async with self._turn:
            await self._call.write(frame)

    async def start(
        self, *wanted: GenerationSpec, grant: SignedGrant | None = None
    ) -> list[tuple[str, int]]:
        starts = [
            StartAttempt(
                spec=one,
                grant=grant or grant_for(self._worker.app.worker_id, one),
            )
            for one in wanted
        ]
        await self.send(ExecuteRequest(starts=starts))
        return [(one.attempt.request_id, one.attempt.number) for one in wanted]

    async def abort(
        self, key: tuple[str, int], cause: Outcome.ValueType = Outcome.OUTCOME_CANCELLED
    ) -> None:
        attempt = Attempt(request_id=key[0], number=key[1])
        await self.send(ExecuteRequest(aborts=[AbortAttempt(attempt=attempt, cause=cause)]))

    def answer(self, key: tuple[str, int]) -> Answer:
        return self.answers.setdefault(key, Answer())

    async def until(self, condition: Callable[[], object], timeout_s: float = 20.0) -> None:
        async with asyncio.timeout(timeout_s), self._changed:
            await self._changed.wait_for(condition)

    async def ended_answer(self, key: tuple[str, int], timeout_s: float = 20.0) -> Answer:
        await self.until(lambda: self.answer(key).terminals, timeout_s)
        return self.answer(key)

    async def cut(self) -> None:
        """The connection of this stream goes away."""
        assert self._call is not None
        self._call.cancel()
        await self.close()

    async def close(self) -> None:
        if self._call is not None:
            self._call.cancel()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        assert self._call is not None
        async for frame in self._call:
            self.frames.append(frame)
            self._note(frame)
            async with self._changed:
                self._changed.notify_all()

    def _note(self, frame: ExecuteResponse) -> None:
        for delta in frame.deltas:
            answer = self.answer((delta.attempt.request_id, delta.attempt.number))
            assert not answer.terminals, "a delta came after the terminal"
            answer.token_ids += delta.token_ids
            answer.text += delta.text
            answer.deltas += 1
            answer.completion_tokens = delta.completion_tokens
            answer.cached_prompt_tokens += delta.cached_prompt_tokens
        for terminal in frame.terminals:
            key = (terminal.attempt.request_id, terminal.attempt.number)
            self.answer(key).terminals.append(terminal)


@asynccontextmanager
async def open_gateway(
    worker: RunningWorker, gateway_id: str = "gw-1", *, read: bool = True
) -> AsyncIterator[Gateway]:
    gateway = Gateway(worker, gateway_id)
    try:
        yield await gateway.open(read=read)
    finally:
        await gateway.close()


class ScriptedScheduler(SchedulerServiceServicer):
    """Registers whoever comes, notes what they report, and sends what a test says."""

    def __init__(self, report_interval_s: float = 0.2) -> None:
        self.registrations: list[WorkerRegistration] = []
        self.reports: list[WorkerReport] = []
        self.parameters: WorkerParameters | None = None
        self.address = ""
        self.connected = 0
        self.epoch = 0
        self._interval_ms = round(report_interval_s * 1000)
        self._server: grpc.aio.Server | None = None
        self._outgoing: asyncio.Queue[ConnectWorkerResponse | None] = asyncio.Queue()

    async def start(self, port: int = 0) -> "ScriptedScheduler":
        self._server = create_server()
        add_SchedulerServiceServicer_to_server(self, self._server)
        bound = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.address = f"127.0.0.1:{bound}"
        await self._server.start()
        return self

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def send(self, **command: object) -> None:
        self._outgoing.put_nowait(ConnectWorkerResponse(**command))  # type: ignore[arg-type]

    @property
    def ended(self) -> list[AttemptEnd]:
        return [end for report in self.reports for end in report.finished]

    async def ConnectWorker(  # type: ignore[override]  # noqa: N802
        self,
        request_iterator: AsyncIterator[ConnectWorkerRequest],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> None:
        self.connected += 1
        reader = asyncio.create_task(self._read(request_iterator))
        try:
            await context.write(self._greeting())
            while not reader.done():
                try:
                    async with asyncio.timeout(0.05):
                        await context.write(await self._outgoing.get())
                except TimeoutError:
                    await context.write(ConnectWorkerResponse())
        finally:
            self.connected -= 1
            reader.cancel()

    def _greeting(self) -> ConnectWorkerResponse:
        registered = WorkerRegistered(parameters=self.parameters, leader_epoch=self.epoch)
        registered.report_interval.FromMilliseconds(self._interval_ms)
        return ConnectWorkerResponse(registered=registered)

    async def _read(self, frames: AsyncIterator[ConnectWorkerRequest]) -> None:
        async for frame in frames:
            if frame.HasField("registration"):
                self.registrations.append(frame.registration)
            elif frame.HasField("report"):
                self.reports.append(frame.report)


def scripted_scheduler(report_interval_s: float = 0.2) -> ScriptedScheduler:
    """A scheduler that is not started yet; the RPCs that it lacks answer UNIMPLEMENTED."""
    return ScriptedScheduler(report_interval_s)  # type: ignore[abstract]
