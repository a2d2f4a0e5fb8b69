"""A SERVER span around every RPC, and the request id of the caller."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import grpc
from opentelemetry.trace import SpanKind, Status, StatusCode

from weir_core.errors import WeirError
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
from weir_core.telemetry.error_kind import FAULT_CODES, error_attributes, kind_of_code
from weir_core.telemetry.span_context import (
    context_from,
    make_current,
    traceparent_of,
    unrecorded_span,
)
from weir_core.telemetry.traceparent import as_sampled
from weir_core.telemetry.tracing import Attribute, Tracing

T = TypeVar("T")

# Probes and long-lived multiplexed streams: requests on these carry their own traceparent.
_UNTRACED = ("grpc.health.", "grpc.reflection.")


class TracingInterceptor(HandlerInterceptor):
    """Continues the caller's trace; the span is current in the handler and ends with it.

    Health, reflection and bidirectional streams get no span: a span that lasts as long as the
    process tells nothing. A caller that does not record its trace is passed on as the parent of
    what the handler calls, at a fraction of the cost of a span that nobody will see; the span is
    written when the call fails.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC inside a span."""
        bind_request(request_id=call.metadata(REQUEST_ID), tenant_id="")
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
    asked = _Asked(tracing, method, traceparent, tracestate)
    make_current(asked.span)
    error: BaseException | None = None
    try:
        return await proceed()
    except BaseException as exc:
        error = exc
        raise
    finally:
        asked.end(code(error), error)


class _Asked:
    """One call: its span, or what is needed to write it if the call fails."""

    __slots__ = ("_began_us", "_method", "_parent", "_state", "_tracing", "span")

    def __init__(self, tracing: Tracing, method: RpcMethod, parent: str, state: str) -> None:
        self._tracing = tracing
        self._method = method
        self._parent = parent
        self._state = state
        self._began_us = time.time_ns() // 1_000
        self.span = unrecorded_span(parent) or tracing.start(
            self._name, parent=context_from(parent, state), kind=SpanKind.SERVER
        )
        if self.span.is_recording():
            self.span.set_attributes(self._attributes())

    def end(self, code: grpc.StatusCode, error: BaseException | None) -> None:
        """Ends the span with the status of the call."""
        if self.span.is_recording():
            self.span.set_attributes(_ended(code, error))
            if code in FAULT_CODES:
                self.span.set_status(Status(StatusCode.ERROR, code.name))
            self.span.end()
        elif code is not grpc.StatusCode.OK and self._tracing.keeps(self.span, kind_of_code(code)):
            self._write(code, error)

    def _write(self, code: grpc.StatusCode, error: BaseException | None) -> None:
        attributes = self._attributes() | _ended(code, error)
        now_us = time.time_ns() // 1_000
        failed = code.name if code in FAULT_CODES else None
        if unrecorded_span(self._parent) is None:
            self._tracing.record_as(
                traceparent_of(self.span),
                self._name,
                parent=self._parent,
                start_us=self._began_us,
                end_us=now_us,
                kind=SpanKind.SERVER,
                attributes=attributes,
                error=failed,
            )
            return
        self._tracing.record(
            self._name,
            parent=context_from(as_sampled(self._parent), self._state),
            start_us=self._began_us,
            end_us=now_us,
            kind=SpanKind.SERVER,
            attributes=attributes,
            error=failed,
        )

    @property
    def _name(self) -> str:
        return f"{self._method.service}/{self._method.name}"

    def _attributes(self) -> dict[str, Attribute]:
        return {
            names.RPC_SYSTEM: "grpc",
            names.RPC_SERVICE: self._method.service,
            names.RPC_METHOD: self._method.name,
        }


def _ended(code: grpc.StatusCode, error: BaseException | None) -> dict[str, Attribute]:
    told: dict[str, Attribute] = {names.RPC_GRPC_STATUS_CODE: int(code.value[0])}
    # What became a status is the context of the abort that told it.
    cause = error if isinstance(error, WeirError) or error is None else error.__context__
    if isinstance(cause, WeirError):
        told.update(error_attributes(cause))
    elif code in FAULT_CODES:
        told[names.ERROR_TYPE] = code.name
    return told
