"""A real OTLP/gRPC receiver for tests: `async with otlp_sink() as sink`, then `sink.endpoint`.

spans = await sink.wait_for(lambda spans: {"reserve", "settle"} <= {s.name for s in spans})
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as pb_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class ReceivedSpan:
    """One exported span; ids are lower-case hex, `parent_id` is empty for a root."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start_ns: int
    end_ns: int
    status_code: int
    status_message: str
    attributes: dict[str, object]
    resource: dict[str, object] = field(default_factory=dict)
    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    """Trace ids of what it links to."""


@dataclass
class OtlpSink:
    """What has been received so far, and where to send to."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for(
        self, enough: Callable[[list[ReceivedSpan]], bool], timeout_s: float = 10.0
    ) -> list[ReceivedSpan]:
        """All spans, once `enough` says so; TimeoutError names what has come instead."""
        try:
            async with asyncio.timeout(timeout_s), self._arrived:
                await self._arrived.wait_for(lambda: enough(self.spans))
        except TimeoutError:
            names = sorted(f"{span.service}:{span.name}" for span in self.spans)
            raise TimeoutError(f"within {timeout_s} s only these spans came: {names}") from None
        return list(self.spans)

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        """The spans of one trace, by start time."""
        found = [span for span in self.spans if span.trace_id == trace_id]
        return sorted(found, key=lambda span: span.start_ns)

    async def add(self, request: pb.ExportTraceServiceRequest) -> None:
        async with self._arrived:
            self.spans.extend(_spans_of(request))
            self._arrived.notify_all()


class _Servicer(pb_grpc.TraceServiceServicer):
    def __init__(self, sink: OtlpSink) -> None:
        self._sink = sink

    async def Export(  # noqa: N802
        self, request: pb.ExportTraceServiceRequest, context: object
    ) -> pb.ExportTraceServiceResponse:
        await self._sink.add(request)
        return pb.ExportTraceServiceResponse()


@asynccontextmanager
async def otlp_sink() -> AsyncIterator[OtlpSink]:
    """Serves until the block ends."""
    sink = OtlpSink()
    server = grpc.aio.server()
    pb_grpc.add_TraceServiceServicer_to_server(_Servicer(sink), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sink.endpoint = f"http://127.0.0.1:{port}"
    try:
        yield sink
    finally:
        await server.stop(0)


def _spans_of(request: pb.ExportTraceServiceRequest) -> list[ReceivedSpan]:
    received: list[ReceivedSpan] = []
    for resource in request.resource_spans:
        about = _attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            received.extend(_received(about, span) for span in scope.spans)
    return received


def _received(resource: dict[str, object], span: Span) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        service=str(resource.get("service.name", "")),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        status_code=span.status.code,
        status_message=span.status.message,
        attributes=_attributes(span.attributes),
        resource=resource,
        events=[(event.name, _attributes(event.attributes)) for event in span.events],
        links=[link.trace_id.hex() for link in span.links],
    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
