"""Spans to a receiver of OTLP over gRPC: encoded when they end, sent by the SDK in batches."""

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, TraceFlags

from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.otlp_attributes import key_values
from weir_core.telemetry.otlp_span import encoded_span
from weir_core.telemetry.recorded_span import RecordedSpan
from weir_core.telemetry.span_redaction import SCOPE

_log = get_logger("weir.traces")

_TIMEOUT_S = 5
_DELAY_MS = 1_000
_SAMPLED = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class EncodedSpan(ReadableSpan):
    """A span in the queue of the SDK, which asks for nothing but whether to export it.

    Args:
        message: of OTLP.
        of: its resource.
    """

    def __init__(self, message: bytes, of: Resource) -> None:
        self.message = message
        self.of = of

    @property
    def context(self) -> SpanContext:
        """One that is sampled: no other span is taken."""
        return _SAMPLED


class OtlpSpans:
    """A `SpanTarget` that exports.

    Args:
        endpoint: `http://`, or without a scheme: plain text; `https://`: TLS.
    """

    def __init__(self, endpoint: str) -> None:
        exporter = _Exporter(
            endpoint=endpoint,
            insecure=not endpoint.startswith("https://"),
            timeout=_TIMEOUT_S,
        )
        self._batches = BatchSpanProcessor(exporter, schedule_delay_millis=_DELAY_MS)

    def take(self, span: RecordedSpan, resource: Resource) -> None:
        """See `SpanTarget`."""
        try:
            message = encoded_span(span)
        except ValueError as error:
            # A time before 1970, half a character in a name: no reason to fail what was traced.
            _log.warning("span_not_encoded", reason=type(error).__name__)
            return
        self._batches.on_end(EncodedSpan(message, resource))

    def shutdown(self) -> None:
        """See `SpanTarget`."""
        self._batches.shutdown()  # type: ignore[no-untyped-call]


def batch_of(spans: Sequence[EncodedSpan]) -> ExportTraceServiceRequest:
    """One message with all of them, by resource."""
    resources: dict[int, ScopeSpans] = {}
    batch = ExportTraceServiceRequest()
    for span in spans:
        group = resources.get(id(span.of))
        if group is None:
            group = resources[id(span.of)] = _group(batch.resource_spans.add(), span.of)
        group.spans.add().MergeFromString(span.message)
    return batch


def _group(of_resource: ResourceSpans, resource: Resource) -> ScopeSpans:
    of_resource.resource.attributes.extend(key_values(resource.attributes))
    of_resource.schema_url = resource.schema_url
    group = of_resource.scope_spans.add(scope=InstrumentationScope(name=SCOPE.name))
    group.schema_url = SCOPE.schema_url or ""
    return group


class _Exporter(OTLPSpanExporter):
    def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
        return batch_of([span for span in data if isinstance(span, EncodedSpan)])
