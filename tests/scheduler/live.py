"""A real scheduler on port 0, with scripted gateways and workers over real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import grpc
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import Usage
from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2 import WatchRequest, WatchResponse
from weir.directory.v1.directory_service_pb2_grpc import (
    DirectoryServiceServicer,
    add_DirectoryServiceServicer_to_server,
)
from weir.scheduler.v1 import scheduler_service_pb2 as wire
from weir.scheduler.v1 import worker_report_pb2 as report_wire
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_scheduler.app import SchedulerApp
from weir_scheduler.settings import SchedulerSettings

TOKEN = SecretStr("a cluster secret of at least 32 characters")
WAIT_S = 20.0

T = TypeVar("T")


class DirectoryStub(DirectoryServiceServicer):
    """Serves one snapshot, and another whenever `publish` is called."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.changed = asyncio.Event()
        self.told = asyncio.Event()
        self.told.set()

    def publish(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.changed.set()

    async def Watch(  # noqa: N802
        self, request: WatchRequest, context: Any
    ) -> AsyncIterator[WatchResponse]:
        while True:
            await self.told.wait()
            yield WatchResponse(snapshot=self.snapshot)
            self.changed.clear()
            await self.changed.wait()


class Peer:
    """One bidirectional stream, read into a list."""

    def __init__(self, call: Any) -> None:
        self.call = call
        self.frames: list[Any] = []
        self.ended: BaseException | None = None
        self._arrived = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for frame in self.call:
                async with self._arrived:
                    self.take(frame)
                    self._arrived.notify_all()
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            self.ended = error
        finally:
            async with self._arrived:
                self.ended = self.ended or EOFError()
                self._arrived.notify_all()

    def take(self, frame: Any) -> None:
        self.frames.append(frame)

    async def until(self, found: Callable[[], T | None]) -> T:
        """Waits until `found` returns something."""
        result: T | None = None

        def holds() -> bool:
            nonlocal result
            result = found()
            return bool(result)

        async with asyncio.timeout(WAIT_S), self._arrived:
            await self._arrived.wait_for(holds)
        assert result is not None
        return result

    async def close(self) -> None:
        self.call.cancel()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


class GatewayPeer(Peer):
    """A gateway whose every event is scripted."""

    def __init__(self, call: Any, gateway_id: str) -> None:
        self.gateway_id = gateway_id
        self.events: list[wire.SchedulerEvent] = []
        super().__init__(call)

    def take(self, frame: wire.DispatchResponse) -> None:
        self.events.extend(frame.events)

    async def send(self, **event: Any) -> None:
        events = [wire.GatewayEvent(**event)] if event else []
        await self.call.write(wire.DispatchRequest(gateway_id=self.gateway_id, events=events))

    async def enqueue(self, request_id: str, tenant: str = "acme", **fields: Any) -> None:
        await self.send(enqueue=enqueue_message(request_id, tenant, **fields))

    async def news(self, kind: str, request_id: str, nth: int = 1) -> Any:
        """The nth event of a kind about a request."""

        def found() -> Any:
            matching = [
                getattr(event, kind)
                for event in self.events
                if event.WhichOneof("event") == kind and _request_of(event) == request_id
            ]
            return matching[nth - 1] if len(matching) >= nth else None

        return await self.until(found)

    async def dispatched(self, request_id: str, nth: int = 1) -> wire.Dispatched:
        event: wire.Dispatched = await self.news("dispatched", request_id, nth)
        return event

    async def failed(self, dispatched: wire.Dispatched, reason: int, *, fault: bool = True) -> None:
        message = wire.AttemptFailed(
            attempt=dispatched.attempt,
            error_reason=reason,  # type: ignore[arg-type]
            worker_fault=fault,
        )
        await self.send(attempt_failed=message)

    async def finish(self, dispatched: wire.Dispatched, output: int = 5) -> None:
        usage = Usage(prompt_tokens=10, completion_tokens=output, total_tokens=10 + output)
        finish = wire.Finish(attempt=dispatched.attempt, usage=usage, outcome=Outcome.OUTCOME_OK)
        await self.send(finish=finish)

    def about(self, request_id: str) -> list[str]:
        """Kinds of the events about a request, positions left out."""
        kinds = [(e.WhichOneof("event"), e) for e in self.events if _request_of(e) == request_id]
        return [str(kind) for kind, _ in kinds if kind != "queued"]


class WorkerPeer(Peer):
    """A worker that runs what it is told to, and obeys aborts at once unless `stubborn`."""

    def __init__(self, call: Any, worker_id: str, fields: Mapping[str, Any]) -> None:
        self.worker_id = worker_id
        self.stubborn = False
        self.aborted: list[Attempt] = []
        self.running: dict[tuple[str, int], int] = {}
        self.finished: list[report_wire.AttemptEnd] = []
        self.draining = False
        self.total_blocks = int(fields.get("total_kv_blocks", 100))
        values: dict[str, Any] = {
            "address": f"127.0.0.1:{hash(worker_id) % 50_000 + 1}",
            "model": "m",
            "max_context_tokens": 1_000,
            "total_kv_blocks": self.total_blocks,
            "block_size": 16,
        } | dict(fields)
        self.registration = report_wire.WorkerRegistration(worker_id=worker_id, **values)
        super().__init__(call)

    def take(self, frame: wire.ConnectWorkerResponse) -> None:
        super().take(frame)
        self.aborted.extend(frame.abort.attempts)

    async def register(self) -> None:
        running = [Attempt(request_id=r, number=n) for r, n in self.running]
        del self.registration.running[:]
        self.registration.running.extend(running)
        await self.call.write(wire.ConnectWorkerRequest(registration=self.registration))
        await self.until(
            lambda: [f for f in self.frames if f.WhichOneof("command") == "registered"] or None
        )
        await self.report()

    async def report(self, **load: Any) -> None:
        held = len(self.running)
        report = report_wire.WorkerReport(
            load=report_wire.WorkerLoad(
                free_kv_blocks=self.total_blocks - held, held_kv_blocks=held, **load
            ),
            running=[
                report_wire.AttemptProgress(
                    attempt=Attempt(request_id=request_id, number=number),
                    computed_prompt_tokens=10,
                    completion_tokens=output,
                    kv_blocks=1,
                )
                for (request_id, number), output in self.running.items()
            ],
            finished=self.finished,
            draining=self.draining,
        )
        self.finished = []
        await self.call.write(wire.ConnectWorkerRequest(report=report))

    async def run(self, dispatched: wire.Dispatched, output: int = 0) -> None:
        """Starts an attempt and says so."""
        self.running[dispatched.attempt.request_id, dispatched.attempt.number] = output
        await self.report()

    async def end(
        self,
        attempt: Attempt,
        reason: "FinishReason.ValueType" = FinishReason.FINISH_REASON_STOP,
    ) -> None:
        """Ends an attempt and says so."""
        output = self.running.pop((attempt.request_id, attempt.number), 0)
        usage = Usage(prompt_tokens=10, completion_tokens=output)
        self.finished.append(
            report_wire.AttemptEnd(attempt=attempt, finish_reason=reason, usage=usage)
        )
        await self.report()

    async def told_to_abort(self, request_id: str) -> Attempt:
        return await self.until(
            lambda: next((a for a in self.aborted if a.request_id == request_id), None)
        )

    async def told(self, command: str) -> Any:
        return await self.until(
            lambda: next(
                (getattr(f, command) for f in self.frames if f.WhichOneof("command") == command),
                None,
            )
        )


class LiveScheduler:
    """The application, the channel to it, and its peers."""

    def __init__(
        self, app: SchedulerApp, directory: DirectoryStub, telemetry: Telemetry,
        spans: InMemorySpanExporter, stack: AsyncExitStack,
    ) -> None:  # fmt: skip
        self.app = app
        self.directory = directory
        self.telemetry = telemetry
        self.spans = spans
        self._stack = stack
        self.channel = self.open(TOKEN)
        self.stub = SchedulerServiceStub(self.channel)

    def open(self, token: SecretStr | None) -> ServiceChannel:
        channel = open_channel(self.app.address, name="scheduler", token=token)
        self._stack.push_async_callback(channel.close)
        return channel

    async def gateway(self, gateway_id: str = "gw") -> GatewayPeer:
        peer = GatewayPeer(self.stub.Dispatch(), gateway_id)
        self._stack.push_async_callback(peer.close)
        await peer.send()
        return peer

    async def worker(
        self,
        worker_id: str = "w1",
        *,
        running: Mapping[tuple[str, int], int] | None = None,
        **fields: Any,
    ) -> WorkerPeer:
        """Registers one that runs these attempts (request, number) with their output."""
        peer = WorkerPeer(self.stub.ConnectWorker(), worker_id, fields)
        peer.running.update(running or {})
        self._stack.push_async_callback(peer.close)
        await peer.register()
        return peer

    async def workers(self) -> dict[str, wire.WorkerView]:
        answer = await self.stub.ListWorkers(wire.ListWorkersRequest())
        return {view.registration.worker_id: view for view in answer.workers}

    async def queue(self, tenant: str = "") -> list[wire.QueuedRequest]:
        answer = await self.stub.ListQueue(wire.ListQueueRequest(tenant_id=tenant))
        return list(answer.requests)

    def sample(self, name: str, labels: dict[str, str]) -> float:
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0

    def at_rest(self) -> bool:
        """Nothing waits, nothing runs, nothing is remembered."""
        scheduler = self.app.scheduler
        counted = sum(worker.requests for worker in scheduler.workers())
        return not (scheduler.waiting or scheduler.attempts or scheduler.requests or counted)


@asynccontextmanager
async def live_scheduler(
    snapshot: Snapshot | None = None, *, told: bool = True, **settings: Any
) -> AsyncIterator[LiveScheduler]:
    """Starts a directory and the scheduler; everything is closed at the end.

    Not `told`: the directory says nothing until `directory.told` is set.
    """
    async with AsyncExitStack() as stack:
        directory = DirectoryStub(snapshot or default_snapshot())
        if not told:
            directory.told.clear()
        server = grpc.aio.server()
        add_DirectoryServiceServicer_to_server(directory, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, 0)
        spans = InMemorySpanExporter()
        telemetry = Telemetry(
            Tracing("weir-scheduler", processor=SimpleSpanProcessor(spans)), create_registry()
        )
        values: dict[str, Any] = {
            "address": "127.0.0.1:0",
            "directory_address": f"127.0.0.1:{port}",
            "cluster_token": TOKEN,
            "grace_s": 0,
        }
        app = SchedulerApp(SchedulerSettings(**(values | settings)), telemetry)
        await app.start()
        stack.push_async_callback(app.stop)
        if told:
            await eventually(lambda: app.ready)
        yield LiveScheduler(app, directory, telemetry, spans, stack)


def default_snapshot(version: int = 1, **parameters: Any) -> Snapshot:
    """Model `m`, tenants `acme` and `capped` (one running request)."""
    snapshot = Snapshot(version=version)
    for name in ("acme", "other", "capped"):
        snapshot.tenants.add(id=name)
    snapshot.tenants[2].policy.max_running_requests = 1
    model = snapshot.models.add(name="m", max_context_tokens=1_000)
    values = {"batch_wait_ms": 0, "max_concurrent_requests": 8} | parameters
    for name, value in values.items():
        setattr(model.parameters, name, value)
    return snapshot


def enqueue_message(request_id: str, tenant: str = "acme", **fields: Any) -> wire.Enqueue:
    """A small request."""
    defaults = {"prompt_tokens": 10, "max_new_tokens": 10}
    subject = Subject(tenant_id=tenant, model=fields.pop("model", "m"))
    return wire.Enqueue(request_id=request_id, subject=subject, **(defaults | fields))


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], timeout_s: float = WAIT_S
) -> None:
    """Returns once the condition holds; fails after `timeout_s`."""
    async with asyncio.timeout(timeout_s):
        while True:
            held = condition()
            if await held if isinstance(held, Awaitable) else held:
                return
            await asyncio.sleep(0.01)


def reason_name(value: int) -> str:
    """`WORKER_LOST` of its number."""
    name: str = ErrorReason.Name(value)  # type: ignore[arg-type]
    return name.removeprefix("ERROR_REASON_")


def _request_of(event: wire.SchedulerEvent) -> str:
    kind = event.WhichOneof("event")
    news = getattr(event, str(kind))
    attempt = kind in ("dispatched", "attempt_lost")
    return str(news.attempt.request_id if attempt else news.request_id)
