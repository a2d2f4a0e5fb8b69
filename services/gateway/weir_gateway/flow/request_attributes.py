"""What the root span of a request tells, by the GenAI semantic conventions. Never its text."""

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.subject_pb2 import RequestClass
from weir_core.telemetry import names
from weir_core.telemetry.tracing import Attribute
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.trail import Trail
from weir_gateway.intake.prepared_request import PreparedRequest


def asked(prepared: PreparedRequest, request_id: str) -> dict[str, Attribute]:
    """What was asked for, defaults filled in."""
    subject, sampling = prepared.subject, prepared.sampling
    told: dict[str, Attribute] = {
        names.GEN_AI_OPERATION: prepared.operation,
        names.GEN_AI_PROVIDER: names.PROVIDER,
        names.GEN_AI_REQUEST_MODEL: subject.model,
        names.GEN_AI_REQUEST_STREAM: prepared.streams,
        names.REQUEST_ID: request_id,
        names.TENANT_ID: subject.tenant_id,
        names.USER_ID: subject.user_id,
        names.API_KEY_ID: subject.api_key_id,
        names.REQUEST_CLASS: _word(RequestClass.Name(prepared.request_class), "REQUEST_CLASS_"),
        names.PRIORITY: prepared.priority,
    }
    if not prepared.embed_lengths:
        bound = prepared.output_format is not None and prepared.output_format.kind != "tagged_json"
        told[names.GEN_AI_OUTPUT_TYPE] = "json" if bound else "text"
        told[names.GEN_AI_REQUEST_MAX_TOKENS] = prepared.max_new_tokens
        told[names.GEN_AI_REQUEST_TEMPERATURE] = sampling.temperature
        told[names.GEN_AI_REQUEST_TOP_P] = sampling.top_p
        told[names.GEN_AI_REQUEST_TOP_K] = sampling.top_k
        if sampling.HasField("seed"):
            told[names.GEN_AI_REQUEST_SEED] = sampling.seed
        if sampling.HasField("frequency_penalty"):
            told[names.GEN_AI_REQUEST_FREQUENCY_PENALTY] = sampling.frequency_penalty
        if sampling.HasField("presence_penalty"):
            told[names.GEN_AI_REQUEST_PRESENCE_PENALTY] = sampling.presence_penalty
    if prepared.choices > 1:
        told[names.GEN_AI_REQUEST_CHOICES] = prepared.choices
    # What the client calls a conversation is its text.
    if prepared.session_id:
        told[names.GEN_AI_CONVERSATION_ID] = prepared.session_id
    if prepared.degradations:
        told[names.DEGRADATIONS] = list(prepared.degradations)
    return told


def ended(
    record: LifecycleRecord, ending: Ending, trail: Trail, prepared: PreparedRequest
) -> dict[str, Attribute]:
    """How it ended."""
    usage = record.usage
    reasons = ending.finish_reasons(prepared.choices)
    told: dict[str, Attribute] = {
        names.GEN_AI_RESPONSE_ID: record.request_id,
        names.GEN_AI_RESPONSE_MODEL: record.subject.model,
        names.GEN_AI_RESPONSE_FINISH_REASONS: [
            _word(FinishReason.Name(reason), "FINISH_REASON_") for reason in reasons
        ],
        names.GEN_AI_USAGE_INPUT_TOKENS: usage.prompt_tokens,
        names.GEN_AI_USAGE_OUTPUT_TOKENS: usage.completion_tokens,
        names.GEN_AI_USAGE_CACHE_READ_TOKENS: usage.cached_prompt_tokens,
        names.MODEL_VERSION: record.subject.model_version,
        names.TOKENS_RESERVED: record.reserved_tokens,
        names.WORKER_ID: record.worker_id,
        names.ATTEMPT: record.attempts,
        names.OUTCOME: Outcome.Name(record.outcome),
        names.LATENCY_E2E: _seconds(trail.arrived_us, record.end_time.ToMicroseconds()),
    }
    if record.HasField("first_token_time"):
        first_s = _seconds(trail.arrived_us, record.first_token_time.ToMicroseconds())
        told[names.LATENCY_TIME_TO_FIRST_TOKEN] = first_s
        if prepared.streams:
            told[names.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = first_s
    return told


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower()


def _seconds(start_us: int, end_us: int) -> float:
    return max(0, end_us - start_us) / 1e6
