# ruff: noqa: N802
"""The other services, played by real gRPC servers that do as a test tells them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from pydantic import SecretStr

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, SignedGrant, TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as rl
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import (
    RateLimiterServiceServicer,
    add_RateLimiterServiceServicer_to_server,
)
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir.scheduler.v1.scheduler_service_pb2_grpc import (
    SchedulerServiceServicer,
    add_SchedulerServiceServicer_to_server,
)
from weir.worker.v1 import worker_service_pb2 as work
from weir.worker.v1.worker_service_pb2_grpc import (
    WorkerServiceServicer,
    add_WorkerServiceServicer_to_server,
)
from weir_core.errors import LimitExceeded, Reason, WeirError
from weir_core.errors.status import to_refusal
from weir_core.rpc.framed import FramedConnection
from weir_core.rpc.interceptors import default_interceptors
from weir_core.rpc.server import create_server
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter.multiplex import AccountStreams

TOKEN = SecretStr("a-cluster-secret-of-at-least-32-characters")


def _not_played(*_: Any, **__: Any) -> Any:
    raise WeirError(Reason.NOT_BUILT_YET, "no test needs it")


class FakeServer:
    """A gRPC server on a port of its own that can go away and come back."""

    def __init__(self, add: Callable[[grpc.aio.Server], None]) -> None:
        self._add = add
        self._server: grpc.aio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = create_server(
            interceptors=default_interceptors(
                tracing=Tracing("fake"), registry=create_registry(), tokens=[TOKEN]
            )
        )
        self._add(self._server)
        self.port = self._server.add_insecure_port(self.address)
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None


@dataclass
class Account:
    """One reservation as the fake limiter saw it."""

    request: rl.ReserveRequest
    reservation_id: str
    settles: list[rl.SettleRequest] = field(default_factory=list)
    refunds: list[rl.RefundRequest] = field(default_factory=list)
    extensions: list[rl.Extension] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return not self.settles and not self.refunds


class FakeLimiter(RateLimiterServiceServicer):
    """Admits everything but for what a test refuses; remembers everything."""

    AdjustLimit = staticmethod(_not_played)
    ListReservations = staticmethod(_not_played)

    def __init__(self) -> None:
        self.reset()
        self.server = FakeServer(lambda s: add_RateLimiterServiceServicer_to_server(self, s))
        self._streams = AccountStreams(self, Tracing("fake"))

    async def Multiplex(  # type: ignore[override]
        self, request_iterator: AsyncIterator[rl.MultiplexRequest], context: Any
    ) -> None:
        await self._streams.serve(request_iterator, context)

    def reset(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.refuse: Callable[[rl.ReserveRequest], WeirError | None] = lambda _: None
        self.refuse_extension: Callable[[rl.Extension], WeirError | None] = lambda _: None
        self.settle_failures = 0
        self.explained: list[rl.ExplainRequest] = []
        self.explanation = rl.ExplainResponse()
        self.reserve_gate: asyncio.Event | None = None
        self.answer_gate: asyncio.Event | None = None
        self.reserving = 0
        self.reserve_output: int | None = None
        self.reserved_output: dict[str, int] = {}
        self.concurrency: int | None = None

    @property
    def open_accounts(self) -> list[Account]:
        return [account for account in self.accounts.values() if account.open]

    @property
    def closings(self) -> list[int]:
        """How often each reservation was closed; every one must be 1 at rest."""
        return [len(a.settles) + len(a.refunds) for a in self.accounts.values()]

    def only(self) -> Account:
        (account,) = self.accounts.values()
        return account

    async def Reserve(self, request: rl.ReserveRequest, context: Any) -> rl.ReserveResponse:
        if self.reserve_gate is not None:
            self.reserving += 1
            await self.reserve_gate.wait()
            self.reserving -= 1
        error = self.refuse(request)
        if error is not None:
            raise error
        if self.concurrency is not None and len(self.open_accounts) >= self.concurrency:
            raise WeirError(
                Reason.CONCURRENCY_LIMIT_EXCEEDED, "too many at once", retry_after_s=1.0
            )
        reservation_id = f"res_{request.request_id}"
        self.accounts.setdefault(reservation_id, Account(request, reservation_id))
        output = self.reserve_output or request.max_new_tokens
        self.reserved_output[reservation_id] = output
        if self.answer_gate is not None:
            await self.answer_gate.wait()
        response = rl.ReserveResponse(
            reservation_id=reservation_id,
            record=reservation_id.encode(),
            reserved_prompt_tokens=request.prompt_tokens,
            reserved_output_tokens=output,
            limiter_mode=rl.LimiterMode.LIMITER_MODE_ENFORCED,
        )
        for limit_type, limit, remaining in (("rps", 100, 40), ("tpm", 10_000, 9_000)):
            status = response.limits.add(
                limit_id=f"tenant:acme/{limit_type}",
                limit_type=limit_type,
                layer="tenant",
                limit=limit,
                remaining=remaining,
            )
            status.reset_time.GetCurrentTime()
        return response

    async def Extend(self, request: rl.ExtendRequest, context: Any) -> rl.ExtendResponse:
        return rl.ExtendResponse(results=[self._extend(e) for e in request.extensions])

    async def Explain(self, request: rl.ExplainRequest, context: Any) -> rl.ExplainResponse:
        self.explained.append(request)
        return self.explanation

    async def Settle(self, request: rl.SettleRequest, context: Any) -> rl.SettleResponse:
        self._maybe_fail()
        account = self.accounts[request.record.decode()]
        account.settles.append(request)
        return rl.SettleResponse()

    async def Refund(self, request: rl.RefundRequest, context: Any) -> rl.RefundResponse:
        self._maybe_fail()
        account = self.accounts[request.record.decode()]
        account.refunds.append(request)
        return rl.RefundResponse()

    def _maybe_fail(self) -> None:
        if self.settle_failures:
            self.settle_failures -= 1
            raise WeirError(Reason.LIMITER_UNAVAILABLE, "the test has no limiter now")

    def _extend(self, extension: rl.Extension) -> rl.ExtensionResult:
        reservation_id = extension.record.decode()
        self.accounts[reservation_id].extensions.append(extension)
        error = self.refuse_extension(extension)
        reserved = self.reserved_output[reservation_id]
        if error is None:
            wanted = extension.output_tokens + extension.additional_output_tokens
            reserved = self.reserved_output[reservation_id] = max(reserved, wanted)
        refusal = to_refusal(error) if isinstance(error, LimitExceeded) else None
        return rl.ExtensionResult(
            reservation_id=reservation_id,
            granted=error is None,
            reserved_output_tokens=reserved,
            error_reason=_reason(None if error is None else error.reason),
            message="" if error is None else error.message,
            refusal=refusal,
        )


@dataclass
class Script:
    """What a fake worker does with an attempt.

    Attributes:
        pieces: text of each token; None: as many as allowed.
        pause_after: tokens after which it waits for `resume`; None: never.
        finish: reason of its end.
        error: reason in its record.
        refuse: REJECTED at once.
        step_s: time between tokens.
        silent: never says anything, not even after an abort.
    """

    pieces: list[str] | None = None
    pause_after: int | None = None
    finish: FinishReason.ValueType = FinishReason.FINISH_REASON_LENGTH
    error: Reason | None = None
    refuse: bool = False
    step_s: float = 0.0
    silent: bool = False


class FakeWorker(WorkerServiceServicer):
    """Runs attempts by script, a token an iteration of the loop."""

    Drain = Generate = GetLoad = GetTerminalRecord = staticmethod(_not_played)

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.streams = 0
        self._running: dict[tuple[str, int], _Run] = {}
        self._connections: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.reset()
        self.server = FakeServer(lambda s: add_WorkerServiceServicer_to_server(self, s))

    def reset(self) -> None:
        self.script = Script()
        self.resume = asyncio.Event()
        self.specs: list[work.GenerationSpec] = []
        self.aborts: list[Attempt] = []
        self.records: dict[tuple[str, int], TerminalRecord] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    def drop_streams(self) -> None:
        """Breaks every gateway's stream; what ran on it is aborted, as the contract says."""
        for connection in list(self._connections):
            connection.writer.close("dropped by the test", discard=True)

    async def Execute(  # type: ignore[override]
        self, request_iterator: AsyncIterator[work.ExecuteRequest], context: Any
    ) -> None:
        connection: FramedConnection[Any, work.ExecuteResponse, work.ExecuteRequest] = (
            FramedConnection(coalesce=_worker_frame, ping=work.ExecuteResponse, name="gateway")
        )
        self._connections.add(connection)
        self.streams += 1
        mine: list[_Run] = []

        def on_frame(frame: work.ExecuteRequest) -> None:
            mine.extend(self._start(start.spec, connection) for start in frame.starts)
            for abort in frame.aborts:
                self.aborts.append(abort.attempt)
                run = self._running.get(_key(abort.attempt))
                if run is not None:
                    run.abort()

        try:
            await connection.run(context.write, request_iterator, on_frame)
        finally:
            self._connections.discard(connection)
            for run in mine:
                run.abort()

    async def Abort(self, request: work.AbortRequest, context: Any) -> work.AbortResponse:
        run = self._running.get(_key(request.attempt))
        if run is not None:
            run.abort()
            await run.done.wait()
        record = self.records.get(_key(request.attempt))
        if record is None:
            raise WeirError(Reason.NOT_FOUND, "no such attempt")
        return work.AbortResponse(terminal=record)

    async def GetModelInfo(
        self, request: work.GetModelInfoRequest, context: Any
    ) -> work.GetModelInfoResponse:
        response = work.GetModelInfoResponse()
        response.registration.gpu_id = f"gpu-of-{self.worker_id}"
        return response

    def _start(self, spec: work.GenerationSpec, connection: Any) -> "_Run":
        self.specs.append(spec)
        run = _Run(self, spec, connection, self.script)
        self._running[run.key] = run
        task = asyncio.create_task(run.go())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    def ended(self, run: "_Run", record: TerminalRecord) -> None:
        self._running.pop(run.key, None)
        self.records[run.key] = record


class _Run:
    def __init__(
        self, worker: FakeWorker, spec: work.GenerationSpec, connection: Any, script: Script
    ) -> None:
        self.worker, self.spec, self.connection, self.script = worker, spec, connection, script
        self.key = _key(spec.attempt)
        self.done = asyncio.Event()
        self.tokens = 0
        self._aborted = asyncio.Event()

    def abort(self) -> None:
        self._aborted.set()

    async def go(self) -> None:
        script = self.script
        if script.silent:
            await self._aborted.wait()
            return
        if script.refuse:
            self._end(FinishReason.FINISH_REASON_REJECTED, prompt=0)
            return
        pieces = script.pieces
        if pieces is None:
            pieces = [f"t{n} " for n in range(self.spec.max_new_tokens)]
        for piece in pieces[: self.spec.max_new_tokens]:
            if self.tokens == script.pause_after:
                await self._wait()
            if self._aborted.is_set():
                break
            self.tokens += 1
            self._put(
                work.AttemptDelta(
                    attempt=self.spec.attempt,
                    token_ids=[self.tokens],
                    text=piece,
                    completion_tokens=self.tokens,
                )
            )
            await asyncio.sleep(script.step_s)
        if self.tokens == script.pause_after and not self._aborted.is_set():
            await self._wait()
        aborted = self._aborted.is_set()
        self._end(FinishReason.FINISH_REASON_ABORT if aborted else script.finish)

    async def _wait(self) -> None:
        resumed = asyncio.ensure_future(self.worker.resume.wait())
        aborted = asyncio.ensure_future(self._aborted.wait())
        await asyncio.wait({resumed, aborted}, return_when=asyncio.FIRST_COMPLETED)
        resumed.cancel()
        aborted.cancel()

    def _end(self, finish: FinishReason.ValueType, prompt: int | None = None) -> None:
        prompt = len(self.spec.prompt_token_ids) if prompt is None else prompt
        reason = self.script.error
        if finish == FinishReason.FINISH_REASON_ABORT:
            reason = Reason.CANCELLED
        record = TerminalRecord(
            attempt=self.spec.attempt,
            tenant_id=self.spec.tenant_id,
            worker_id=self.worker.worker_id,
            finish_reason=finish,
            error_reason=_reason(reason),
            error_message="as the test wants" if reason else "",
            usage=Usage(
                prompt_tokens=prompt,
                completion_tokens=self.tokens,
                total_tokens=prompt + self.tokens,
            ),
        )
        record.prefill_start_time.GetCurrentTime()
        self.worker.ended(self, record)
        self.done.set()
        self._put(record)

    def _put(self, item: Any) -> None:
        if not self.connection.writer.closed:
            self.connection.writer.put_control(item)


class FakeScheduler(SchedulerServiceServicer):
    """Dispatches at once to the first worker that is not excluded, or as a test says."""

    ConnectWorker = DrainWorker = ListQueue = ListWorkers = staticmethod(_not_played)

    def __init__(self, workers: list[FakeWorker]) -> None:
        self.workers = workers
        self._connection: Any = None
        self.gateways: list[str] = []
        self.reset()
        self.server = FakeServer(lambda s: add_SchedulerServiceServicer_to_server(self, s))

    def reset(self) -> None:
        self.hold = False
        self.reject: Callable[[sched.Enqueue], sched.Rejected | None] = lambda _: None
        self.enqueued: list[sched.Enqueue] = []
        self.withdrawn: list[str] = []
        self.failed: list[sched.AttemptFailed] = []
        self.first_tokens: list[Attempt] = []
        self.finished: list[sched.Finish] = []
        self._attempts: dict[str, int] = {}
        self._waiting: dict[str, sched.Enqueue] = {}
        self._excluded: dict[str, set[str]] = {}

    async def Dispatch(  # type: ignore[override]
        self, request_iterator: AsyncIterator[sched.DispatchRequest], context: Any
    ) -> None:
        connection: FramedConnection[Any, sched.DispatchResponse, sched.DispatchRequest] = (
            FramedConnection(
                coalesce=lambda events: sched.DispatchResponse(events=events),
                ping=sched.DispatchResponse,
                name="gateway",
            )
        )
        self._connection = connection

        def on_frame(frame: sched.DispatchRequest) -> None:
            if frame.gateway_id not in self.gateways:
                self.gateways.append(frame.gateway_id)
            for event in frame.events:
                self._on_event(event)

        await connection.run(context.write, request_iterator, on_frame)

    def send(self, **event: Any) -> None:
        self._connection.writer.put_control(sched.SchedulerEvent(**event))

    def drop_streams(self) -> None:
        self._connection.writer.close("dropped by the test", discard=True)

    def release(self) -> None:
        """Dispatches what was held."""
        self.hold = False
        for request_id in list(self._waiting):
            self.dispatch(request_id)

    def dispatch(self, request_id: str, worker: FakeWorker | None = None) -> None:
        enqueue = self._waiting.pop(request_id)
        excluded = self._excluded.setdefault(request_id, set(enqueue.excluded_workers))
        free = [w for w in self.workers if w.worker_id not in excluded]
        if worker is None and not free:
            self._reject(request_id, Reason.NO_WORKER, "no worker is left")
            return
        worker = worker or free[0]
        number = max(self._attempts.get(request_id, 0), enqueue.attempts) + 1
        self._attempts[request_id] = number
        self.send(
            dispatched=sched.Dispatched(
                attempt=Attempt(request_id=request_id, number=number),
                worker_id=worker.worker_id,
                worker_address=worker.server.address,
                grant=SignedGrant(grant=b"grant", signature=b"signature"),
                max_new_tokens=enqueue.max_new_tokens,
            )
        )

    def requeue(self, request_id: str) -> None:
        """As when a worker is lost before the first token."""
        enqueue = next(e for e in reversed(self.enqueued) if e.request_id == request_id)
        self._waiting[request_id] = enqueue
        self.send(
            requeued=sched.Requeued(
                request_id=request_id,
                error_reason=ErrorReason.ERROR_REASON_WORKER_LOST,
                position=1,
            )
        )

    def _on_event(self, event: sched.GatewayEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "enqueue":
            self._on_enqueue(event.enqueue)
        elif kind == "withdraw":
            self.withdrawn.append(event.withdraw.request_id)
            self._waiting.pop(event.withdraw.request_id, None)
        elif kind == "attempt_failed":
            self._on_failed(event.attempt_failed)
        elif kind == "first_token":
            self.first_tokens.append(event.first_token.attempt)
        elif kind == "finish":
            self.finished.append(event.finish)

    def _on_enqueue(self, enqueue: sched.Enqueue) -> None:
        self.enqueued.append(enqueue)
        rejected = self.reject(enqueue)
        if rejected is not None:
            self.send(rejected=rejected)
            return
        self._waiting[enqueue.request_id] = enqueue
        if self.hold:
            self.send(
                queued=sched.Queued(
                    request_id=enqueue.request_id,
                    position=len(self._waiting),
                    reason=sched.QueueReason.QUEUE_REASON_WORKER_FULL,
                )
            )
        else:
            self.dispatch(enqueue.request_id)

    def _on_failed(self, failed: sched.AttemptFailed) -> None:
        self.failed.append(failed)
        request_id = failed.attempt.request_id
        enqueue = next(e for e in reversed(self.enqueued) if e.request_id == request_id)
        if failed.worker_fault:
            worker_id = next(
                w.worker_id
                for w in self.workers
                if w.worker_id not in self._excluded.get(request_id, set())
            )
            self._excluded.setdefault(request_id, set()).add(worker_id)
        self.requeue(request_id)
        self._waiting[request_id] = enqueue
        if not self.hold:
            self.dispatch(request_id)

    def _reject(self, request_id: str, reason: Reason, message: str) -> None:
        self.send(
            rejected=sched.Rejected(
                request_id=request_id,
                error_reason=ErrorReason.Value(f"ERROR_REASON_{reason}"),
                message=message,
            )
        )


def _worker_frame(items: Any) -> work.ExecuteResponse:
    return work.ExecuteResponse(
        deltas=[item for item in items if isinstance(item, work.AttemptDelta)],
        terminals=[item for item in items if isinstance(item, TerminalRecord)],
    )


def _key(attempt: Attempt) -> tuple[str, int]:
    return attempt.request_id, attempt.number


def _reason(reason: Reason | None) -> Any:
    return None if reason is None else ErrorReason.Value(f"ERROR_REASON_{reason}")
