"""Names of span attributes and metrics, in one place: the conventions still move."""

# OpenTelemetry GenAI semantic conventions.
GEN_AI_OPERATION = "gen_ai.operation.name"
GEN_AI_PROVIDER = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
GEN_AI_REQUEST_TEMPERATURE = "gen_ai.request.temperature"
GEN_AI_REQUEST_TOP_P = "gen_ai.request.top_p"
GEN_AI_REQUEST_TOP_K = "gen_ai.request.top_k"
GEN_AI_REQUEST_SEED = "gen_ai.request.seed"
GEN_AI_REQUEST_STREAM = "gen_ai.request.stream"
GEN_AI_RESPONSE_ID = "gen_ai.response.id"
GEN_AI_RESPONSE_MODEL = "gen_ai.response.model"
GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id"

# vLLM's span attributes, seconds; viewers made for it read these.
LATENCY_TIME_IN_QUEUE = "gen_ai.latency.time_in_queue"
LATENCY_TIME_IN_PREFILL = "gen_ai.latency.time_in_model_prefill"
LATENCY_TIME_IN_DECODE = "gen_ai.latency.time_in_model_decode"
LATENCY_TIME_TO_FIRST_TOKEN = "gen_ai.latency.time_to_first_token"

# RPC conventions.
RPC_SYSTEM = "rpc.system"
RPC_SERVICE = "rpc.service"
RPC_METHOD = "rpc.method"
RPC_GRPC_STATUS_CODE = "rpc.grpc.status_code"
ERROR_TYPE = "error.type"

# Ours.
REQUEST_ID = "weir.request.id"
TENANT_ID = "weir.tenant.id"
USER_ID = "weir.user.id"
API_KEY_ID = "weir.api_key.id"
ATTEMPT = "weir.attempt"
WORKER_ID = "weir.worker.id"
RESERVATION_ID = "weir.reservation.id"
OUTCOME = "weir.outcome"
REASON = "weir.reason"
DEGRADATIONS = "weir.degradations"
TOKENS_RESERVED = "weir.tokens.reserved"
QUEUE_POSITION = "weir.queue.position"
STEPS = "weir.steps"
STEP_TOKENS = "weir.step.tokens"
STEP_SECONDS = "weir.step.seconds"

# Names of spans: one trace of a request holds all of them.
SPAN_RESERVE = "reserve"
SPAN_EXTEND = "extend"
SPAN_QUEUE = "queue"
SPAN_PREFILL = "prefill"
SPAN_DECODE = "decode"
SPAN_SETTLE = "settle"


def span_of_request(operation: str, model: str) -> str:
    """Name of a request's root span, such as `chat smollm2-135m`."""
    return f"{operation} {model}"
