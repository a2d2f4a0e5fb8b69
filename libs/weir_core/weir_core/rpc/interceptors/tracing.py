"""A SERVER span around every RPC, and the request id of the caller."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import grpc
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from weir_core.rpc.interceptors.handler import (
    HandlerInterceptor,
    Proceed,
    RpcCall,
    RpcMethod,
)
from weir_core.rpc.interceptors.outcome import code_of
from weir_core.rpc.metadata import REQUEST_ID, TRACEPARENT, TRACESTATE
from weir_core.telemetry import names
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.tracing import Tracing, context_from, make_current, unrecorded_span

T = TypeVar("T")

# Probes and long-lived multiplexed streams: requests on these carry their own traceparent.
_UNTRACED = ("grpc.health.", "grpc.reflection.")

_SERVER_FAULTS = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


class TracingInterceptor(HandlerInterceptor):
    """Continues the caller's trace; the span is current in the handler and ends with it.

    Health, reflection and bidirectional streams get no span: a span that lasts as long as the
    process tells nothing. A caller that does not record its trace is passed on as the parent of
    what the handler calls, at a fraction of the cost of a span that nobody will see.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC inside a span."""
        bind_request(request_id=call.metadata(REQUEST_ID)[:128], tenant_id="")
        if call.method.kind == "bidi_stream" or call.method.service.startswith(_UNTRACED):
            return await proceed()
        return await traced(
            self._tracing,
            call.method,
            call.metadata(TRACEPARENT),
            call.metadata(TRACESTATE),
            proceed,
            partial(code_of, call.context),
        )


async def traced(
    tracing: Tracing,
    method: RpcMethod,
    traceparent: str,
    tracestate: str,
    proceed: Callable[[], Awaitable[T]],
    code: Callable[[BaseException | None], grpc.StatusCode],
) -> T:
    """Serves one call inside a SERVER span that is current for the rest of the task.

    Args:
        tracing: of the service.
        method: what is called.
        traceparent, tracestate: the caller's; empty for a new trace.
        proceed: serves the call.
        code: the status that the caller gets for what `proceed` raised, None for nothing.
    """
    unrecorded = unrecorded_span(traceparent)
    if unrecorded is not None:
        make_current(unrecorded)
        return await proceed()
    span = tracing.start(
        f"{method.service}/{method.name}",
        parent=context_from(traceparent, tracestate),
        kind=SpanKind.SERVER,
        attributes={
            names.RPC_SYSTEM: "grpc",
            names.RPC_SERVICE: method.service,
            names.RPC_METHOD: method.name,
        },
    )
    make_current(span)
    error: BaseException | None = None
    try:
        return await proceed()
    except BaseException as exc:
        error = exc
        raise
    finally:
        _end(span, code(error))


def _end(span: Span, code: grpc.StatusCode) -> None:
    span.set_attribute(names.RPC_GRPC_STATUS_CODE, int(code.value[0]))
    if code in _SERVER_FAULTS:
        span.set_attribute(names.ERROR_TYPE, code.name)
        span.set_status(Status(StatusCode.ERROR, code.name))
    span.end()
