"""The root span of a request, by the GenAI semantic conventions."""

from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.telemetry import names
from weir_core.telemetry.tracing import Attributes, Tracing
from weir_gateway.intake.prepared_request import PreparedRequest


def start_span(tracing: Tracing, prepared: PreparedRequest, traceparent: str) -> Span:
    """Starts `chat <model>` under `traceparent`, or under the current span when it is empty."""
    span = tracing.start(
        names.span_of_request(prepared.operation, prepared.subject.model),
        parent=traceparent or None,
        kind=SpanKind.SERVER,
    )
    if span.is_recording():
        span.set_attributes(_asked(prepared))
    return span


def describe(span: Span, record: LifecycleRecord) -> None:
    """Adds how it ended."""
    if not span.is_recording():
        return
    span.set_attributes(_ended(record))
    if record.outcome == Outcome.OUTCOME_ERROR:
        span.set_status(Status(StatusCode.ERROR, Outcome.Name(record.outcome)))


def _asked(prepared: PreparedRequest) -> Attributes:
    subject, sampling = prepared.subject, prepared.sampling
    return {
        names.GEN_AI_OPERATION: prepared.operation,
        names.GEN_AI_PROVIDER: "tokenweir",
        names.GEN_AI_REQUEST_MODEL: subject.model,
        names.GEN_AI_REQUEST_MAX_TOKENS: prepared.max_new_tokens,
        names.GEN_AI_REQUEST_TEMPERATURE: sampling.temperature,
        names.GEN_AI_REQUEST_TOP_P: sampling.top_p,
        names.GEN_AI_REQUEST_TOP_K: sampling.top_k,
        names.GEN_AI_REQUEST_STREAM: prepared.streams,
        names.TENANT_ID: subject.tenant_id,
        names.USER_ID: subject.user_id,
        names.API_KEY_ID: subject.api_key_id,
        names.DEGRADATIONS: list(prepared.degradations),
    }


def _ended(record: LifecycleRecord) -> Attributes:
    usage = record.usage
    reason = FinishReason.Name(record.finish_reason).removeprefix("FINISH_REASON_").lower()
    return {
        names.GEN_AI_RESPONSE_ID: record.request_id,
        names.GEN_AI_RESPONSE_MODEL: record.subject.model,
        names.GEN_AI_RESPONSE_FINISH_REASONS: [reason],
        names.GEN_AI_USAGE_INPUT_TOKENS: usage.prompt_tokens,
        names.GEN_AI_USAGE_OUTPUT_TOKENS: usage.completion_tokens,
        names.GEN_AI_USAGE_CACHE_READ_TOKENS: usage.cached_prompt_tokens,
        names.TOKENS_RESERVED: record.reserved_tokens,
        names.WORKER_ID: record.worker_id,
        names.ATTEMPT: record.attempts,
        names.OUTCOME: Outcome.Name(record.outcome),
    }
