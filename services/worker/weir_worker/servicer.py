"""`weir.worker.v1.WorkerService`: validate, call, answer."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc

from weir.common.v1.lifecycle_pb2 import Attempt
from weir.worker.v1.worker_service_pb2 import (
    AbortRequest,
    AbortResponse,
    DrainRequest,
    DrainResponse,
    ExecuteRequest,
    GenerateRequest,
    GenerateResponse,
    GetKvMapRequest,
    GetKvMapResponse,
    GetLoadRequest,
    GetLoadResponse,
    GetModelInfoRequest,
    GetModelInfoResponse,
    GetTerminalRecordRequest,
    GetTerminalRecordResponse,
    ReleaseSessionRequest,
    ReleaseSessionResponse,
)
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceServicer
from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_core.ids import check_id
from weir_core.rpc.deadline import remaining_s
from weir_core.telemetry.span_context import current_traceparent
from weir_worker.abort_cause import cause_of
from weir_worker.attempts import Attempts, attempt_of
from weir_worker.drain import Drain
from weir_worker.execute_streams import ExecuteStreams
from weir_worker.generate_stream import GenerateStream
from weir_worker.identity import WorkerIdentity
from weir_worker.kv_map_report import KvMapReport
from weir_worker.load_report import LoadReport
from weir_worker.start_check import check_attempt, check_session_id, check_tenant_id

SERVICE = "weir.worker.v1.WorkerService"
_DRAIN_S = 30.0
_ANSWER_MARGIN_S = 0.2

_Context = grpc.aio.ServicerContext[Any, Any]


class WorkerServicer(WorkerServiceServicer):
    """The RPCs of a worker.

    Args:
        attempts: what runs.
        streams: open `Execute` streams.
        identity: for `GetModelInfo`.
        load: for `GetLoad`.
        kv: for `GetKvMap`.
        drain: for `Drain`.
        clock: measures drains.
    """

    def __init__(
        self,
        attempts: Attempts,
        streams: ExecuteStreams,
        *,
        identity: WorkerIdentity,
        load: LoadReport,
        kv: KvMapReport,
        drain: Drain,
        clock: Clock,
    ) -> None:
        self._attempts = attempts
        self._streams = streams
        self._identity = identity
        self._load = load
        self._kv = kv
        self._drain = drain
        self._clock = clock

    async def Execute(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[ExecuteRequest], context: _Context
    ) -> None:
        """See the contract."""
        await self._streams.serve(request_iterator, context.write)

    async def Generate(  # noqa: N802
        self, request: GenerateRequest, context: _Context
    ) -> AsyncGenerator[GenerateResponse]:
        """See the contract."""
        if not request.spec.trace.traceparent:
            request.spec.trace.traceparent = current_traceparent()
        self._apply_deadline(request, context.time_remaining())
        # Closed here, in this task: a client that leaves must end the attempt now, not when
        # the garbage collector finds the generator.
        async with aclosing(GenerateStream(self._attempts).events(request)) as events:
            async for event in events:
                yield event

    async def Abort(self, request: AbortRequest, context: _Context) -> AbortResponse:  # noqa: N802
        """See the contract."""
        key = check_attempt(request.attempt)
        self._attempts.abort(key, cause_of(request.cause))
        return AbortResponse(terminal=await self._attempts.end_of(key))

    async def ReleaseSession(  # noqa: N802
        self, request: ReleaseSessionRequest, context: _Context
    ) -> ReleaseSessionResponse:
        """See the contract."""
        check_tenant_id(request.tenant_id)
        check_session_id("session_id", request.session_id)
        self._attempts.release_session(request.tenant_id, request.session_id)
        return ReleaseSessionResponse()

    async def GetTerminalRecord(  # noqa: N802
        self, request: GetTerminalRecordRequest, context: _Context
    ) -> GetTerminalRecordResponse:
        """See the contract."""
        attempt = _named(request.attempt)
        record = self._attempts.record(attempt.request_id, attempt.number)
        return GetTerminalRecordResponse(terminal=record)

    async def GetLoad(  # noqa: N802
        self, request: GetLoadRequest, context: _Context
    ) -> GetLoadResponse:
        """See the contract."""
        return GetLoadResponse(load=self._load.read(tenants=True))

    async def GetModelInfo(  # noqa: N802
        self, request: GetModelInfoRequest, context: _Context
    ) -> GetModelInfoResponse:
        """See the contract."""
        running = [attempt_of(attempt.key) for attempt in self._attempts.running()]
        return self._identity.model_info(running)

    async def GetKvMap(  # noqa: N802
        self, request: GetKvMapRequest, context: _Context
    ) -> GetKvMapResponse:
        """See the contract."""
        return GetKvMapResponse(map=await self._kv.read(request.first_block))

    async def Drain(self, request: DrainRequest, context: _Context) -> DrainResponse:  # noqa: N802
        """See the contract."""
        began_us = self._clock.monotonic_us()
        if request.cancel:
            self._drain.cancel()
        else:
            self._drain.begin("asked for by RPC")
            left_s = remaining_s()
            limit_s = (_DRAIN_S if left_s is None else left_s) - _ANSWER_MARGIN_S
            await self._drain.wait(max(0.0, limit_s))
        response = DrainResponse(running=len(self._attempts))
        response.waited.FromMicroseconds(self._clock.monotonic_us() - began_us)
        return response

    def _apply_deadline(self, request: GenerateRequest, left_s: float | None) -> None:
        """The call's own deadline bounds the request, if it comes first."""
        if left_s is None:
            return
        deadline_us = self._clock.now_us() + round(left_s * 1e6)
        spec = request.spec
        # One that is no time is refused where every start is checked.
        asked_us = spec.deadline.seconds * 1_000_000 + spec.deadline.nanos // 1_000
        if not spec.HasField("deadline") or asked_us > deadline_us:
            spec.deadline.FromMicroseconds(deadline_us)


def _named(attempt: Attempt) -> Attempt:
    check_id("attempt.request_id", attempt.request_id)
    if attempt.number < 0:
        raise InvalidField("attempt.number", attempt.number, "0 (the newest) or more")
    return attempt
