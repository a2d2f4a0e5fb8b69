"""Many calls of the account over one stream: each is served as its unary RPC would be."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import grpc

from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    AccountAnswer,
    AccountCall,
    MultiplexRequest,
    MultiplexResponse,
)
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.errors.status import grpc_code, to_status
from weir_core.rpc.deadline import set_budget
from weir_core.rpc.framed import FramedConnection, FramedOptions, StreamClosed
from weir_core.rpc.interceptors.errors import as_told
from weir_core.rpc.interceptors.handler import Context, RpcMethod
from weir_core.rpc.interceptors.metrics import MetricsInterceptor
from weir_core.rpc.interceptors.tracing import traced
from weir_core.tasks import end_task
from weir_core.telemetry.tracing import Tracing

_SERVICE = "weir.ratelimiter.v1.RateLimiterService"
_LONGEST_CALL_S = 30.0
_MOST_CALLS = 10_000
_LAST_ANSWERS_S = 1.0

Serve = Callable[[Any, Context], Awaitable[Any]]


class AccountServicer(Protocol):
    """What serves the calls."""

    def Reserve(self, request: Any, context: Context) -> Awaitable[Any]: ...  # noqa: D102, N802
    def Extend(self, request: Any, context: Context) -> Awaitable[Any]: ...  # noqa: D102, N802
    def Settle(self, request: Any, context: Context) -> Awaitable[Any]: ...  # noqa: D102, N802
    def Refund(self, request: Any, context: Context) -> Awaitable[Any]: ...  # noqa: D102, N802


class AccountStreams:
    """All multiplexed streams of a process.

    Args:
        servicer: serves each call.
        tracing: continues the trace of each call.
        metrics: counts each call as one of its method; None: nobody counts.
        options: bounds of each stream.
    """

    def __init__(
        self,
        servicer: AccountServicer,
        tracing: Tracing,
        metrics: MetricsInterceptor | None = None,
        options: FramedOptions | None = None,
    ) -> None:
        self._served: dict[str, tuple[RpcMethod, Serve]] = {
            "reserve": (_method("Reserve"), servicer.Reserve),
            "extend": (_method("Extend"), servicer.Extend),
            "settle": (_method("Settle"), servicer.Settle),
            "refund": (_method("Refund"), servicer.Refund),
        }
        self._tracing = tracing
        self._metrics = metrics
        self._options = options
        self._open: set[AccountStream] = set()

    async def serve(self, frames: AsyncIterable[MultiplexRequest], context: Context) -> None:
        """Serve one stream to its end.

        Raises:
            WeirError: QUEUE_FULL if the client has 10,000 calls unanswered and makes more.
            InvalidField: two of its calls that wait for their answers have one number.
        """
        stream = AccountStream(self._served, self._tracing, self._metrics, context, self._options)
        self._open.add(stream)
        try:
            await stream.serve(frames)
        finally:
            self._open.discard(stream)

    async def close(self, why: str) -> None:
        """Answer what has been asked, within 1 s, and end every stream."""
        await asyncio.gather(*(stream.close(why) for stream in self._open))


class AccountStream:
    """One client's stream: a task a call, one writer for the answers of all."""

    def __init__(
        self,
        served: dict[str, tuple[RpcMethod, Serve]],
        tracing: Tracing,
        metrics: MetricsInterceptor | None,
        context: Context,
        options: FramedOptions | None,
    ) -> None:
        self._served = served
        self._tracing = tracing
        self._metrics = metrics
        self._context = context
        self._unanswered: set[int] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._connection: FramedConnection[AccountAnswer, MultiplexResponse, MultiplexRequest] = (
            FramedConnection(
                coalesce=_frame_of, ping=MultiplexResponse, name="gateway", options=options
            )
        )

    async def serve(self, frames: AsyncIterable[MultiplexRequest]) -> None:
        """Run the stream to its end; a call that is not decided by then is given up."""
        try:
            await self._connection.run(self._context.write, frames, self._on_frame)
        finally:
            await asyncio.gather(*map(end_task, list(self._running)))

    async def close(self, why: str) -> None:
        """See `AccountStreams.close`."""
        if self._running:
            await asyncio.wait(self._running, timeout=_LAST_ANSWERS_S)
        self._connection.writer.close(why)

    def _on_frame(self, frame: MultiplexRequest) -> None:
        if len(self._running) + len(frame.calls) > _MOST_CALLS:
            raise WeirError(
                Reason.QUEUE_FULL, f"more than {_MOST_CALLS} calls are unanswered on one stream"
            )
        for call in frame.calls:
            # Nobody could tell which of the two an answer is to.
            if call.call in self._unanswered:
                bound = "a number that no other unanswered call of the stream has"
                raise InvalidField("call", call.call, bound)
            self._unanswered.add(call.call)
            task = asyncio.create_task(self._serve(call))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, call: AccountCall) -> None:
        answer = await self._answer(call)
        self._unanswered.discard(call.call)
        # A client that does not read its answers keeps its calls among those that run.
        with suppress(StreamClosed):
            await self._connection.writer.put(answer)

    async def _answer(self, call: AccountCall) -> AccountAnswer:
        name = call.WhichOneof("request")
        if name is None:
            error: WeirError = InvalidField("request", "", "one of the calls of the contract")
            return _refused(call, error)
        if call.call < 1:
            return _refused(call, InvalidField("call", call.call, "1 or more"))
        method, serve = self._served[name]
        try:
            result = await self._counted(
                call, method, partial(serve, getattr(call, name), self._context)
            )
        except Exception as exc:
            return _refused(call, as_told(method, exc))
        answer = AccountAnswer(call=call.call)
        getattr(answer, name).CopyFrom(result)
        return answer

    async def _counted(
        self, call: AccountCall, method: RpcMethod, proceed: Callable[[], Awaitable[Any]]
    ) -> Any:
        bounded = partial(self._bounded, call, method, proceed)
        if self._metrics is None:
            return await bounded()
        return await self._metrics.measured(method, bounded, _code)

    async def _bounded(
        self, call: AccountCall, method: RpcMethod, proceed: Callable[[], Awaitable[Any]]
    ) -> Any:
        seconds = min(_LONGEST_CALL_S, call.timeout_ms / 1_000 or _LONGEST_CALL_S)
        set_budget(seconds)
        trace = call.trace
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await traced(
                    self._tracing, method, trace.traceparent, trace.tracestate, proceed, _code
                )
        except TimeoutError:
            if not limit.expired():
                raise
            raise WeirError(
                Reason.DEADLINE_EXCEEDED, f"{method.name} was not decided within {seconds:.3f} s"
            ) from None


def _method(name: str) -> RpcMethod:
    return RpcMethod(f"/{_SERVICE}/{name}", _SERVICE, name, "unary")


def _code(error: BaseException | None) -> grpc.StatusCode:
    if error is None:
        return grpc.StatusCode.OK
    if isinstance(error, WeirError):
        return grpc_code(error)
    if isinstance(error, asyncio.CancelledError):
        return grpc.StatusCode.CANCELLED
    return grpc.StatusCode.INTERNAL


def _refused(call: AccountCall, error: WeirError) -> AccountAnswer:
    return AccountAnswer(call=call.call, status=to_status(error).SerializeToString())


def _frame_of(answers: Sequence[AccountAnswer]) -> MultiplexResponse:
    return MultiplexResponse(answers=answers)
