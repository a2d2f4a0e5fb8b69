"""One shape for all four kinds of RPC handler, so that every interceptor is written once."""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError

from weir_core.errors import Reason, WeirError

Context = grpc.aio.ServicerContext[Any, Any]
Handler = Callable[[Any, Context], Awaitable[Any]]
Proceed = Callable[[], Awaitable[Any]]

_CANCEL_FOLLOWS_S = 1.0

Metadata = Sequence[tuple[str, str | bytes]]

_sent: ContextVar[Metadata] = ContextVar("weir_sent_metadata", default=())
"""What the caller of this task's RPC sent: grpc converts all of it again at every reading."""


class ClientGone(asyncio.CancelledError):
    """A write failed because the client has left; grpc may not have cancelled the task yet."""


class Undecodable:
    """A request whose bytes are not the method's message; refused inside all interceptors.

    Left to grpc, it would be an UNKNOWN that no interceptor sees.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """Which RPC is being served.

    Attributes:
        path: `/weir.worker.v1.WorkerService/Generate`.
        service: full name of the service.
        name: name of the method.
        kind: `unary`, `client_stream`, `server_stream` or `bidi_stream`.
    """

    path: str
    service: str
    name: str
    kind: str


class RpcCall:
    """One call of a method."""

    __slots__ = ("_sent", "context", "method")

    def __init__(self, method: RpcMethod, context: Context, sent: Metadata) -> None:
        self.method = method
        self.context = context
        self._sent = sent

    def metadata(self, key: str) -> str:
        """The first text value that the caller sent under `key`, or an empty string."""
        for name, value in self._sent:
            if name == key and isinstance(value, str):
                return value
        return ""


class HandlerInterceptor(ABC):
    """Base of the interceptors: subclasses write `around` once for every kind of RPC.

    `create_server` chains them.
    """

    @abstractmethod
    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Runs `await proceed()` once, or raises instead; returns what it returned."""


class InterceptorChain(grpc.aio.ServerInterceptor):
    """Several interceptors in one, outermost first: each more would cost every call again.

    Streaming handlers are run as coroutines that write: the generator of a handler is closed
    in the same task and context when the client goes away (a bare generator would be left to
    the garbage collector, which closes it in another task).
    """

    def __init__(self, interceptors: Sequence[HandlerInterceptor]) -> None:
        self._inwards = tuple(reversed(interceptors))
        self._wrapped: dict[str, tuple[Any, Any]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wraps the handler that was found; passes on None when there is none."""
        # Read by the handler, which grpc runs in this task.
        _sent.set(handler_call_details.invocation_metadata)
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        path = handler_call_details.method
        found = self._wrapped.get(path)
        if found is None or found[0] is not handler:
            found = (handler, _rebuild(handler, self._wrap(handler, path), path))
            self._wrapped[path] = found
        return found[1]

    def _wrap(self, handler: Any, path: str) -> Handler:
        method = _method_of(handler, path)
        inner = _decoded(
            _as_coroutine(_behaviour_of(handler), method, handler.response_streaming), method
        )

        async def wrapped(request: Any, context: Context) -> Any:
            call = RpcCall(method, context, _sent.get())
            proceed: Proceed = partial(inner, request, context)
            for interceptor in self._inwards:
                proceed = partial(interceptor.around, call, proceed)
            return await proceed()

        return wrapped


def _method_of(handler: Any, path: str) -> RpcMethod:
    service, _, name = path.removeprefix("/").partition("/")
    kinds = {
        (False, False): "unary",
        (True, False): "client_stream",
        (False, True): "server_stream",
        (True, True): "bidi_stream",
    }
    kind = kinds[handler.request_streaming, handler.response_streaming]
    return RpcMethod(path=path, service=service, name=name, kind=kind)


def _behaviour_of(handler: Any) -> Any:
    return (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )


def _as_coroutine(behaviour: Any, method: RpcMethod, streams: bool) -> Handler:
    if inspect.isasyncgenfunction(behaviour):
        return _written(behaviour)
    if inspect.iscoroutinefunction(behaviour):
        return _written_directly(behaviour) if streams else behaviour
    # The base class of generated servicers: its methods are the ones nobody has overridden.
    return _not_built(method)


def _decoded(inner: Handler, method: RpcMethod) -> Handler:
    def checked(request: Any, context: Context) -> Awaitable[Any]:
        if type(request) is Undecodable:
            raise _cannot_decode(method.name, request.problem)
        return inner(request, context)

    return checked


def _cannot_decode(method: str, problem: str) -> WeirError:
    return WeirError(Reason.INVALID_FIELD, f"the request of {method} cannot be decoded: {problem}")


def _told(deserialize: Callable[[bytes], Any] | None, method: str) -> Callable[[bytes], Any] | None:
    """Of a stream of requests: what the handler reads of it is the message, or our error."""
    if deserialize is None:
        return None

    def decode(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as exc:
            raise _cannot_decode(method, str(exc)) from None

    return decode


def _lenient(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if deserialize is None:
        return None

    def decode(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as exc:
            return Undecodable(str(exc))

    return decode


def _written(behaviour: Callable[[Any, Context], AsyncIterator[Any]]) -> Handler:
    async def write_all(request: Any, context: Context) -> None:
        async with aclosing(behaviour(request, context)) as responses:  # type: ignore[type-var]
            async for response in responses:
                await _write(context, response)

    return write_all


async def _write(context: Context, response: Any) -> None:
    try:
        await context.write(response)
    except grpc.aio.InternalError:
        await _client_gone()


def _written_directly(behaviour: Handler) -> Handler:
    async def run(request: Any, context: Context) -> None:
        try:
            await behaviour(request, context)
        except grpc.aio.InternalError:
            await _client_gone()

    return run


async def _client_gone() -> NoReturn:
    """Raises CancelledError for a client that left while a write to it was blocked.

    Such a write fails as a batch, and grpc cancels the task a moment later. The wait lets that
    cancellation come here, where it would otherwise interrupt the handler's `finally`.
    """
    await asyncio.sleep(_CANCEL_FOLLOWS_S)
    raise ClientGone


def _not_built(method: RpcMethod) -> Handler:
    async def refuse(_: Any, __: Context) -> None:
        raise WeirError(
            Reason.NOT_BUILT_YET, f"{method.path} is part of the contract but not built yet"
        )

    return refuse


def _rebuild(handler: Any, wrapped: Handler, path: str) -> Any:
    make: dict[tuple[bool, bool], Any] = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    return make[handler.request_streaming, handler.response_streaming](
        wrapped,
        request_deserializer=(
            _told(handler.request_deserializer, path.rpartition("/")[2])
            if handler.request_streaming
            else _lenient(handler.request_deserializer)
        ),
        response_serializer=handler.response_serializer,
    )
